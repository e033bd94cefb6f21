/*
 * Which walls there are and what each of them can, for who starts none. Core and keeper ask these
 * flags and never name a wall; what a wall lacks is refused where it was asked for, and is among a
 * box's notes otherwise.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

enum wall_flag {
	WALL_SHARED_KERNEL = 1 << 0, /* the box's system calls reach the host's own kernel */
	WALL_ROOT_INSIDE = 1 << 1,   /* there may be a root inside */
	WALL_GROUPED = 1 << 2,	     /* all of a box is in the groups of host.h, which limit it */
	WALL_EXEC_GROUPS = 1 << 3,   /* init can be given groups for its commands */
	WALL_PROC_FILES = 1 << 4,    /* the keeper writes files in the box's /proc (host.h) */
	WALL_HOST_MOUNTS = 1 << 5,   /* directories of the host can be shown inside */
	WALL_FREEZE = 1 << 6,	     /* a box can be paused */
	WALL_MEASURE = 1 << 7,	     /* what a box uses is known */
	WALL_TRACING = 1 << 8,	     /* the box's filter holds what a tracer makes of a call, too */
	WALL_CTL = 1 << 9,	     /* a box may be given cove-ctl */
	WALL_PREMADE = 1 << 10,	     /* a box can be made ahead: park, resume */
};

struct wall_info {
	const char *name;
	unsigned flags;
	unsigned strength; /* among the walls: the more, the more stands before the host */
	/* Where its own kernel counts a box's processes: how many of the host's each of them is at
	 * most, and how many there are besides. 0: they are the same. */
	unsigned pids_each, pids_more;
	const char *program; /* the file name of one that it needs; NULL: none */
	const char *current; /* what one that is not too old says to `flags` */
	const char *old;     /* what boxes lack with one that is, for people */
	const char *holds;   /* what stands between a box and the host, for people */
};

/* The one list: <name> has wall_<name>_info here, and its calls, wall_<name>, in wall.h. */
#ifdef COVE_TEST_WALLS
#define WALLS(X) X(native) X(gvisor) X(plain)
#else
#define WALLS(X) X(native) X(gvisor)
#endif

#define WALL_DEFAULT "native"

/* NULL: there is none of that name. */
const struct wall_info *wall_info_find(const char *name);
/* One after the other; NULL: there are no more. */
const struct wall_info *wall_info_at(size_t i);
/* The names, with commas between. */
const char *wall_names(void);
/* What a wall cannot do, for people, with commas between; "" where there is nothing. */
void wall_lacks(const struct wall_info *w, char *ret, size_t size);

/* Where a wall's program is: walls/<name>/<program> below the state directory, then in PATH, then
 * in /usr/local/bin and /usr/bin; without links. One that somebody else than root or the caller
 * could have written, or put there, is refused. ERR_UNSUPPORTED with the remedy. */
int wall_program_find(const struct wall_info *w, const char *home, char ret[BOX_PATH_MAX],
		      struct err *e);
/* What it says of that word as its argument, on both streams; at most so many bytes. One that does
 * not end is ended. The text is the caller's. */
int wall_program_ask(const char *program, const char *word, size_t max, char **ret, struct err *e);
/* Is it there, but older than the wall was made for? */
bool wall_program_is_old(const struct wall_info *w, const char *program);
/* Its version: the first line of --version, without its name. "unknown" where it says none. */
int wall_program_version(const char *program, char *ret, size_t size, struct err *e);

#define WALL_INFO_DECLARE(name) extern const struct wall_info wall_##name##_info;
WALLS(WALL_INFO_DECLARE)
