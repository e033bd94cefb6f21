/*
 * Changes to a directory of the host, whole or not at all: by a journal in the box's directory that
 * a second call finishes, whenever the first was killed.
 *
 *	begin	the journal says where things are staged; a directory of that name in the host
 *		directory, closed to others, takes new files
 *	commit	all that is staged is on disk, everything is still as it was looked at, and the
 *		journal lists what is to be done: from here on it is done, now or by who comes next
 *	apply	one rename, unlink or mkdir after the other; each can be done twice
 *	finish	what is there now is noted as ours (boxes/<name>/merged) with what the box has,
 *		so that the next merge knows which of the two changed; and the rest removed
 *
 * Nothing on the host's side is reached through a link, nor on another mount.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum stage_kind {
	STAGE_REMOVE,	  /* anything but a directory */
	STAGE_REMOVE_DIR, /* that is empty by then; one that is not stays */
	STAGE_MAKE_DIR,
	STAGE_PUT, /* a staged file or link, in place of what is there */
	STAGE_MODE,
	STAGE_NOTE, /* nothing is done: a directory that is changed only by the rest of this */
	STAGE_KIND_COUNT
};

/* What was at a path. ino 0: nothing. */
struct stage_seen {
	uint64_t ino, ctime_ns, mtime_ns;
};

struct stage_op {
	enum stage_kind kind;
	char *path; /* owned; relative, safe */
	unsigned mode;
	unsigned number; /* of what is staged */
	struct stage_seen was;
	struct stage_seen box; /* what the box has there, of its mtime nothing; ino 0: not known */
};

enum { STAGE_NAME_SIZE = 40 };

struct stage {
	int box_fd, dir_fd; /* borrowed: boxes/<name>, the host directory */
	uid_t uid;	    /* whose new files are; as root */
	gid_t gid;
	int fd;			    /* owned; what is staged */
	char name[STAGE_NAME_SIZE]; /* of that, in the host directory; empty: there is none */
	unsigned files;		    /* so many were staged */
	struct stage_op *ops;	    /* owned */
	size_t count, cap, bytes;
	/* owned; done by earlier calls, sorted by path: what there was then. STAGE_PUT, or of what
	 * the box made or removed STAGE_MAKE_DIR, STAGE_REMOVE, STAGE_REMOVE_DIR */
	struct stage_op *own;
	size_t own_count;
	const char *in_way; /* the first path whose place something else has; borrowed of ops */
};

/* Reads what earlier calls put there. stage_done also after a failure. */
int stage_init(struct stage *s, int box_fd, int dir_fd, uid_t uid, gid_t gid, struct err *e);
void stage_done(struct stage *s);

/* 1: an earlier call got to its commit and no further: apply. 0: there was none, or what it left
 * is removed. */
int stage_resume(struct stage *s, struct err *e);

/* What is at a path of the host: 0 or -ENOENT, and -ELOOP or -EXDEV where that is behind a link or
 * another mount. */
int stage_look(int dir_fd, const char *path, struct stat *ret, struct stage_seen *ret_seen);
/* Is something that is neither a directory nor a link on the way to it? */
bool stage_is_blocked(int dir_fd, const char *path);
/* Did an earlier call put that there? */
bool stage_is_own(const struct stage *s, const char *path, const struct stage_seen *seen);
/* Has the box (mode 0: nothing) there what it had when an earlier call was over, and the host
 * something else? Then that is the host's change alone. A box's directory is no other for what is
 * in it. */
bool stage_is_hosts(const struct stage *s, const char *path, const struct stage_seen *seen,
		    unsigned box_mode, const struct stage_seen *box);

int stage_begin(struct stage *s, struct err *e);
/* A new file, owned by the caller, or a link; mode 0777 at most. */
int stage_new_file(struct stage *s, unsigned mode, int *ret_fd, unsigned *ret_number,
		   struct err *e);
int stage_new_link(struct stage *s, const char *target, unsigned *ret_number, struct err *e);
/* One more name of a file that was staged. */
int stage_new_name(struct stage *s, unsigned of, unsigned *ret_number, struct err *e);
/* In the order of a tree: directories before what is in them. */
int stage_add(struct stage *s, enum stage_kind kind, const char *path, unsigned mode,
	      unsigned number, const struct stage_seen *was, struct err *e);
/* What the box has in the place of the one that was added last. */
void stage_add_box(struct stage *s, const struct stage_seen *box);

/* ERR_CONFLICT names a path that is not as it was seen (-ESTALE), or a directory that something
 * takes the place of and that would not be empty (-ENOTEMPTY). */
int stage_commit(struct stage *s, struct err *e);
/* Finishes, too. After stage_resume what has changed since is ERR_CONFLICT (-ESTALE), unless force:
 * nothing is lost by saying it again. Where the host has got a directory in the place of a file, or
 * the other way round, that stays, forced or not, and the rest is done: ERR_CONFLICT (-ENOTDIR)
 * names the first such path, and nothing is to be finished any more. */
int stage_apply(struct stage *s, bool force, struct err *e);
/* Before the commit: removes what was staged. */
void stage_abort(struct stage *s);

/* Of a box that is removed: what an interrupted call staged in the host directory dir goes. What
 * one had committed to stays there: 1, and its name. */
int stage_drop(int box_fd, const char *dir, char ret_name[STAGE_NAME_SIZE], struct err *e);
