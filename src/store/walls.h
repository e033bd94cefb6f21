/*
 * What is kept of walls: the programs that `cove wall add` put here, what a box behind each took to
 * start when it was tried, and the weakest wall that boxes may have.
 *
 *	walls/<name>/<program>	its program; where there is none an installed one is used
 *	walls/<name>/tried	"START_US VERSION": a box behind it was started with success
 *	walls/<name>/known	what the wall itself found out about its program
 *	walls/min		the name of a wall; boxes with a weaker one are refused
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

enum { WALLS_NAME_MAX = 64, WALLS_VERSION_MAX = 64 };

struct walls_tried {
	uint64_t start_us;
	char version[WALLS_VERSION_MAX];
};

/* -ENOENT: it was not tried, which is no error. */
int walls_tried(struct state *s, const char *name, struct walls_tried *ret, struct err *e);
int walls_set_tried(struct state *s, const char *name, const struct walls_tried *t, struct err *e);

/* Puts a program in its place, from a descriptor that is open for reading: it is copied, and there
 * whole or not at all. */
int walls_put_program(struct state *s, const char *name, const char *program, int fd,
		      struct err *e);
/* Program, trial and what else was noted of it are gone; boxes that run go on. *ret: was anything
 * there? */
int walls_remove(struct state *s, const char *name, bool *ret, struct err *e);

/* Empty, or NULL: any may be. */
int walls_min(struct state *s, char ret[WALLS_NAME_MAX], struct err *e);
int walls_set_min(struct state *s, const char *name, struct err *e);
