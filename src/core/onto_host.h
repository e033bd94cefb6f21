/*
 * What comes out of a box, onto this host: by init's frames (get.c) or in a server's tar
 * (src/remote).
 *
 * What comes is the word of a hostile machine, so this side decides where everything goes:
 *
 *	a path	must be relative, without "." and ".."
 *	a parent is opened below the destination with no link followed on the way (openat2): a link
 *		that the box sent first, or one that was there before, is never walked through
 *	a file	is written under a fresh name and renamed into place when it is whole; a link in
 *		its place is replaced, not written through
 *	a link	is made as it is, and never followed
 *	a hard link is made only to a file that came in the same copy
 *	modes	lose setuid, setgid and sticky bits, and are never writable for more than the
 *		caller's umask lets them; a directory gets its own when all in it has come
 *	an endless stream ends when the caller's disk is full, and what was half-written is removed
 *
 * The destination itself is the caller's word: its parent directories are followed as usual.
 */
#pragma once

#include "base/err.h"
#include "base/inodes.h"
#include "base/limits.h"
#include "core/carry.h"
#include "cove.h"
#include "wire/msg.h"

#include <limits.h>
#include <sys/types.h>

/* A directory that was made here and is being filled. */
struct onto_dir {
	size_t path_len;
	unsigned mode;
	uint64_t mtime_ns;
};

struct onto_host {
	/* What the caller wants to hear of, and what came; borrowed. */
	const struct cove_copy *how;
	uint64_t bytes, files;
	unsigned left_out; /* entries that are no file, directory or link */
	/* Where an entry failed: who owns that directory. */
	bool has_owner;
	uid_t owner;

	int parent_fd;		 /* owned; directory that the copy goes into */
	char name[NAME_MAX + 1]; /* of the copy there; empty: the directory itself is filled */
	bool must_be_dir;	 /* the caller wrote a slash at the end */
	bool in_place; /* a device or pipe that the caller named: written to, never replaced */
	bool began;    /* the first entry came */
	int root_fd;   /* owned; the copied directory, -1 while there is none */
	int dir_fd;    /* owned; the directory of the entry before, at dir_path below root_fd */
	char dir_path[BOX_PATH_MAX];
	int file_fd;	 /* owned; the file being written, -1 between files */
	int file_dir_fd; /* borrowed; where it is */
	char temp[32], file_name[NAME_MAX + 1];
	struct wire_entry file; /* it, without its strings */
	bool has_holes;
	struct inodes linked; /* files that came and have further names */
	struct onto_dir dirs[INIT_DEPTH_MAX];
	unsigned dir_count;
	char made_path[BOX_PATH_MAX]; /* of the innermost of them */
	char shown[160];	      /* the entry's path, safe to show */
};

enum { ONTO_UNEXPECTED = 1 }; /* this does not come here: the other side is broken */

/* how is borrowed; NULL where nothing is copied. */
struct onto_host *onto_host_new(const struct cove_copy *how);
/* Removes what did not come whole. NULL is fine. */
void onto_host_free(struct onto_host *g);
int onto_host_find(struct onto_host *g, const char *host_path, const char *box_path, struct err *e);
/* 0, ONTO_UNEXPECTED or negative. A file: its entry, its data, its end. */
int onto_host_entry(struct onto_host *g, const struct wire_entry *m, struct err *e);
int onto_host_data(struct onto_host *g, const void *p, size_t n, struct err *e);
int onto_host_file_end(struct onto_host *g, struct err *e);
int onto_host_end(struct onto_host *g, struct err *e);
/* For how->on_skipped; both of the entry's texts are the box's word. */
void onto_host_skipped(const struct cove_copy *how, const struct wire_entry *m);
/* Blocks also where the descriptor does not. */
int onto_host_write(int fd, const void *p, size_t n);
