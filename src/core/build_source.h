/*
 * Where COPY and ADD take files from: the context of a build, or the tree of a stage. Everything is
 * resolved beneath one directory, which no link leads out of, and visited in one order.
 *
 * A source that is itself a link is followed, beneath the directory; links below it are links.
 */
#pragma once

#include "base/err.h"
#include "build/ignore.h"

#include <sys/stat.h>

struct build_source {
	int root_fd;			   /* borrowed */
	const struct build_ignore *ignore; /* NULL: nothing is left out */
	int cancel_fd;			   /* readable: give up; none: 0 or less */
	uint64_t visited;		   /* of all calls; at most TAR_ENTRIES_MAX */
	uint64_t steps;			   /* of matching, of all calls */
};

/* One thing below a source. */
struct build_found {
	const char *path; /* relative to the source; "" for the source itself */
	const char *name; /* its own, below dir_fd; "" where dir_fd is the thing itself */
	int dir_fd;	  /* borrowed; O_PATH will do for fstatat and readlinkat */
	const struct stat *st;
};

/* 0, or a negative errno (with a sentence) that ends the walk. */
typedef int build_on_found(void *arg, const struct build_found *found, struct err *e);

/* What a word of COPY names: one path, or with a pattern any number, in the order of their bytes,
 * and not one is an error. *ret is a list of relative paths ("." is the root), owned. */
struct build_words;
int build_source_find(struct build_source *s, const char *word, struct build_words *ret,
		      struct err *e);

/* The thing at a path and all that is below it, directories before what they hold. */
int build_source_walk(struct build_source *s, const char *path, build_on_found *fn, void *arg,
		      struct err *e);

/* The bytes of a plain file that was found; -EAGAIN where it is none any more. */
int build_source_open(const struct build_found *found);
