/*
 * A stack of layers as the one tree that an overlay of them shows.
 *
 * A name is what the uppermost layer that has it says. A whiteout (a character device 0:0) there
 * means that there is none. Directories are merged with those of the layers below, down to one that
 * is opaque (user.overlay.opaque=y), a whiteout or something else than a directory. Redirects are
 * not used by Cove and not followed.
 *
 * All of it in order is what diff_trees (diff.h) finds added to an empty stack.
 *
 * The trees are hostile: all work is relative to the layers' roots, no link is followed, no other
 * mount entered, and only regular files are ever opened. The caller sees to it that they do not
 * change meanwhile; if they do, the result is wrong, and that is all.
 */
#pragma once

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct stack_layer {
	int fd;	      /* its root directory; borrowed */
	bool foreign; /* of the host: whose its files are says nothing to a box */
};

struct stack {
	const struct stack_layer *layers; /* top first; borrowed */
	size_t count;			  /* at most STACK_LAYERS_MAX; 0: an empty tree */
};

struct stack_entry {
	struct stat st;
	unsigned layer; /* which one says so */
};

/* Some of the layers of a stack. */
struct stack_set {
	uint64_t bits[STACK_LAYERS_MAX / 64];
};

static inline bool stack_set_has(const struct stack_set *s, size_t layer)
{
	return s->bits[layer / 64] >> layer % 64 & 1;
}

static inline void stack_set_add(struct stack_set *s, size_t layer)
{
	s->bits[layer / 64] |= 1ull << layer % 64;
}

/* What is at a path ("" the root, "a/b"). 0, -ENOENT, or -errno. */
int stack_find(const struct stack *s, const char *path, struct stack_entry *ret);

/* A file that was found, to be read. Regular ones only: -EINVAL. A descriptor or -errno. */
int stack_open_file(const struct stack *s, const struct stack_entry *e, const char *path);
/* Where a link that was found leads, with a NUL. Its length or -errno. */
ssize_t stack_read_link(const struct stack *s, const struct stack_entry *e, const char *path,
			char *ret, size_t size);

/* ---- one directory of it ---- */

struct stack_dir {
	const struct stack *s;
	const char *path;	   /* borrowed */
	struct stack_set in;	   /* the layers that are a part of it */
	int fds[STACK_LAYERS_MAX]; /* -1: not open yet */
};

void stack_dir_init(struct stack_dir *d, const struct stack *s, const char *path,
		    const struct stack_set *in);
void stack_dir_done(struct stack_dir *d);

/* Finds many paths as stack_find does one: the directory of the last is kept, those below are
 * reached from it. As the paths of a walk come, a deep one costs what any does. It is not moved.
 */
struct stack_finder {
	const struct stack *s;
	char path[STACK_PATH_MAX + 1]; /* of the directory */
	struct stack_dir dir;	       /* where there is one: error is 0 */
	bool is_open;
	int error;
};
void stack_finder_init(struct stack_finder *f, const struct stack *s);
int stack_finder_find(struct stack_finder *f, const char *path, struct stack_entry *ret);
void stack_finder_done(struct stack_finder *f);

/* The whole stack's root. */
void stack_root_set(const struct stack *s, struct stack_set *ret);

/* A name in it: 0, -ENOENT, or -errno. */
int stack_dir_find(struct stack_dir *d, const char *name, struct stack_entry *ret);
/* The layers that a directory which was found there is made of. */
int stack_dir_enter(struct stack_dir *d, const char *name, const struct stack_entry *e,
		    struct stack_set *ret);

/* Names, gathered from several directories, then sorted by their bytes, each once. */
struct stack_names {
	char *bytes; /* owned */
	size_t len, cap;
	const char **list; /* owned; points into bytes once sorted */
	size_t count;
	size_t *held; /* bytes of all such lists of a walk; borrowed */
};

/* The names of its directory in one layer, whiteouts among them. -E2BIG beyond STACK_NAMES_MAX. */
int stack_dir_names(struct stack_dir *d, size_t layer, struct stack_names *to);
int stack_names_sort(struct stack_names *n);
void stack_names_done(struct stack_names *n);
