/*
 * Files that have several names: the first name under which each was met. Bounded, because a tree
 * may be hostile: the caller says what becomes of one that does not fit. Who makes a file of each
 * of its names multiplies what a box wrote, so that has to be bounded otherwise.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { INODES_MAX = 1 << 20, INODES_TEXT_MAX = 128 << 20 };

struct inode_slot;

struct inodes {
	struct inode_slot *slots; /* owned */
	size_t count, cap, text;
};

void inodes_done(struct inodes *m);
/* The name it was added with, borrowed; NULL: it was not. */
const char *inodes_find(const struct inodes *m, dev_t dev, ino_t ino);
/* One that was not added before. 0, -ENOSPC or -ENOMEM. */
int inodes_add(struct inodes *m, dev_t dev, ino_t ino, const char *name);
