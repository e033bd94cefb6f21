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
#include "base/limits.h"
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

/* Held while a program is put there and tried: one caller at a time. Returns the descriptor. */
int walls_lock(struct state *s, struct err *e);
/* Copies a program, from a descriptor that is open for reading, beside its place: ret is where it
 * can be tried. */
int walls_stage(struct state *s, const char *name, int fd, char ret[BOX_PATH_MAX], struct err *e);
/* It takes its place, or goes. */
int walls_place(struct state *s, const char *name, const char *program, struct err *e);
void walls_unstage(struct state *s, const char *name);
/* Program, trial and what else was noted of it are gone; boxes that run go on. *ret: was anything
 * there? */
int walls_remove(struct state *s, const char *name, bool *ret, struct err *e);

/* Empty, or NULL: any may be. A file that names none is damaged. */
int walls_min(struct state *s, char ret[WALLS_NAME_MAX], struct err *e);
int walls_set_min(struct state *s, const char *name, struct err *e);
