/* What the files of copy.c share. */
#pragma once

#include "storage/copy.h"

#include <sys/stat.h>

/* What was copied, by its inode: in memory that the passes' processes share. */
struct copy_entry {
	uint64_t ino; /* 0: a free slot */
	int64_t ctime_ns, mtime_ns;
	uint64_t size;
	uint64_t to_ino; /* the copy's */
};

struct copy_table {
	int fd; /* borrowed */
	uint64_t count, cap;
	struct copy_entry *slots; /* mapped */
};

int copy_table_open(struct copy_table *t, int fd);
void copy_table_close(struct copy_table *t);
struct copy_entry *copy_table_find(const struct copy_table *t, uint64_t ino); /* or NULL */
/* Adds or replaces. -E2BIG beyond COPY_NAMES_MAX. May move all entries. */
int copy_table_put(struct copy_table *t, const struct copy_entry *e);

/* One pass, in its process. */
struct copy_run {
	const struct copy *copy;
	enum copy_kind kind;
	uint64_t deadline_ms;
	int64_t fresh_ns; /* live: what changed since may change again without its time showing */
	struct copy_counts counts;
	struct copy_table table;
	bool no_clone, no_range;
	uint64_t written;
	char *buf;  /* owned, COPY_BUF bytes */
	char *text; /* owned: names and values of attributes, COPY_XATTR_MAX bytes each */
	unsigned ticks;
	int from, to; /* owned: the directory that is copied, and its copy */
};

enum { COPY_BUF = 256 << 10 };

/* -ETIMEDOUT when the time is over; looks every now and then. */
int copy_tick(struct copy_run *c);

/* copy_file.c. A name of c->from that is no directory becomes the same in c->to, which has no such
 * name. 1: done, *ret_st is what was copied; 0: gone meanwhile, or left out. */
int copy_one(struct copy_run *c, const char *name, const struct stat *st, struct stat *ret_st);
/* Owner, mode, attributes and times of a directory. */
int copy_dir_meta(struct copy_run *c, int from_fd, int to_fd, const struct stat *st);
/* Before that, of one that another is laid over: all but that it is opaque goes. */
int copy_clear_attrs(struct copy_run *c, int to_fd);
