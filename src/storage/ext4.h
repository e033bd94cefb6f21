/*
 * Empty ext4 filesystems in sparse files.
 *
 * mke2fs makes one per size, once, as a template in $COVE_HOME/templates; a new disk is a copy of
 * the few blocks that are in it. A limit is what can be written: the file is larger than that by
 * what the filesystem needs for itself, and the space left for files and directories is never more
 * than the limit, and short of it by no more than a hundredth and 256 KiB.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct ext4_size {
	uint64_t bytes;	 /* that can be written */
	uint64_t inodes; /* 0: one per 8 KiB */
	bool journal;
	bool layer; /* with the directories upper/ and work/; else empty and the box user's */
};

/* Is there an mke2fs? ERR_UNSUPPORTED with the remedy. */
int ext4_check(struct err *e);

/* Makes a new, empty filesystem as `name` in dir_fd, where no one else does the same, whole or
 * not at all: -EEXIST if there is one. With durable it survives a power loss once this returns. */
int ext4_make(int home_fd, int dir_fd, const char *name, const struct ext4_size *size, bool durable,
	      struct err *e);

/* The same in two halves, for a file that is open already: the template, which is as long as the
 * filesystem and says its counts, and the copy. The copy's
 * blocks are read ahead of dev_fd, its device, if that is not -1: mounting would wait for one after
 * the other, each time for a kernel thread, and on a busy machine that is most of its time. */
int ext4_template(int home_fd, const struct ext4_size *size, struct err *e);
int ext4_copy(int to_fd, int template_fd, int dev_fd, struct err *e);

/* What the superblock in a file says. Only as new as the last time it was written. */
struct ext4_counts {
	uint64_t bytes_used, files, bytes_limit, files_limit;
};
int ext4_read_counts(int file_fd, struct ext4_counts *ret);
