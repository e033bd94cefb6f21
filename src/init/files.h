/*
 * File operations, between the files_*.c files only. init.h has what the rest of init uses.
 *
 * An operation is one object whose kind is a table of functions. Each function does a bounded piece
 * of work as the box's user and says what comes next; files.c sends the answer and frees it.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "ev/ev.h"
#include "init/init.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* What a step returns beside a negative errno (then *e says why and ERROR is the answer). */
enum file_next {
	FILE_WAIT = 0, /* for a frame, for credit or for the link */
	FILE_DONE,     /* OK is the answer */
	FILE_AGAIN,    /* call turn again in the next turn of the loop */
};

struct file_op;

struct file_kind {
	size_t size; /* of the object that begins with a struct file_op */
	int (*start)(struct file_op *op, const struct wire_file *m, struct err *e);
	int (*turn)(struct file_op *op, struct err *e); /* NULL: frames drive it */
	/* All may be NULL. stop closes and takes back what is half made. */
	int (*frame)(struct file_op *op, const struct wire_frame *f, struct err *e);
	void (*stop)(struct file_op *op);
	/* Bytes of a file that is open: done as init itself, so they touch no path. data takes DATA
	 * and CREDIT; stream is called instead of turn while op->streaming is set. */
	int (*data)(struct file_op *op, const struct wire_frame *f, struct err *e);
	int (*stream)(struct file_op *op, struct err *e);
};

struct file_op {
	struct init *in;
	const struct file_kind *kind;
	struct file_op *next;
	uint32_t id;
	bool started;	/* kind->start was called, so kind->stop will be */
	bool streaming; /* kind->stream has the next turns */
	struct ev_defer turn;
	struct user user;
	/* Absolute, not normalised: what ".." means after a link is for the kernel to say. */
	char path[BOX_PATH_MAX];
};

extern const struct file_kind file_put, file_get, file_list, file_remove, file_listen, file_read,
	file_edit, file_glob, file_grep, file_watch;

/* Queues one ENTRY frame. target is a link's text, the earlier name of a file, or NULL. */
int file_send_entry(struct file_op *op, const char *path, const struct stat *st,
		    const char *target);
/* The same into any buffer, with that id. */
int file_encode_entry(struct buf *out, uint32_t id, const char *path, const struct stat *st,
		      const char *target);
/* The same for what is no thing of its own: 'z' or 'x', see wire/msg_file.h. */
int file_send_mark(struct file_op *op, char type, const char *path, const char *target,
		   uint64_t size);

/* "cannot WHAT 'PATH/REL': words of code"; returns -code. rel may be "". A long path keeps its
 * end. */
int file_error(const struct file_op *op, int code, const char *what, const char *rel,
	       struct err *e);
/* What a thing is that data cannot be read from or written to: "a FIFO", "a device", ... */
int file_error_type(const struct file_op *op, mode_t mode, const char *rel, struct err *e);

/*
 * files_path.c: names. A place is a directory and a name in it which is not "", "." or "..", except
 * that a path which ends so (or is "/") gives the directory itself and ".".
 */
struct init_place {
	int dir_fd; /* owned, O_PATH */
	char name[NAME_MAX + 1];
};

#define PLACE_NONE ((struct init_place){.dir_fd = -1})

enum place_flags {
	PLACE_FOLLOW = 1 << 0, /* a final link is followed, to where there may be nothing yet */
	PLACE_MAKE = 1 << 1,   /* missing directories on the way are made */
};

void init_place_done(struct init_place *p);
int init_place_find(const char *path, unsigned flags, struct init_place *ret);
/* Below a directory, through no link at all. rel is path_is_safe_relative. */
int init_place_beneath(int root_fd, const char *rel, struct init_place *ret);

/* Opens an existing path of the box for reading; -errno. */
int path_open(const char *path, int flags);
/* Is there a file that somebody may execute? */
bool path_is_program(const char *path);
/* Is it in proc, sysfs or a hierarchy of cgroups? */
bool path_is_kernel_fs(int fd);
/* A directory as O_PATH, made with its parents if `make`. */
int path_open_dir(int at_fd, const char *path, bool make);

/*
 * files_walk.c: one tree, depth first, with its own stack. Names come from getdents64; a level
 * costs one descriptor and one page.
 */
struct walk_level;

struct init_walk {
	struct walk_level *top; /* owned */
	unsigned depth;
	size_t path_len;
	char path[BOX_PATH_MAX]; /* of the last entry, relative to the walk's root */
};

void init_walk_done(struct init_walk *w);
/* Goes down into the directory dir_fd, which is the entry given last, or the root at the beginning.
 * -ELOOP beyond INIT_DEPTH_MAX. Takes dir_fd, also on failure. */
int init_walk_down(struct init_walk *w, int dir_fd);
/* 1 and the next name of the current directory, with w->path set to it; 0 at its end, with w->path
 * set to the directory itself. */
int init_walk_next(struct init_walk *w, const char **ret_name);
/* Leaves the current directory. */
void init_walk_up(struct init_walk *w);
/* Reads the current directory from its beginning again. */
int init_walk_rewind(struct init_walk *w);
/* Descriptor of the current directory and of the one above it (-1 at the root). */
int init_walk_fd(const struct init_walk *w);
int init_walk_parent_fd(const struct init_walk *w);
