/*
 * .dockerignore: which files of the context a build does not see. One pattern a line, # begins a
 * comment, ! takes back what an earlier line left out; the last line that matches a path, or a
 * directory above it, decides. No I/O.
 */
#pragma once

#include "base/err.h"
#include "build/glob.h"

struct build_rule {
	struct build_glob glob;
	bool is_exception;
};

struct build_ignore {
	struct build_rule *rules; /* owned */
	size_t count;
	bool has_exceptions;
};

/* -EINVAL names the line; -E2BIG. Nothing is owned then. */
int build_ignore_parse(struct build_ignore *ret, const char *text, size_t len, struct err *e);
void build_ignore_done(struct build_ignore *g);

/* 1: it is left out. The path is relative, without "." or "..". -E2BIG where *steps, which grow by
 * what it takes, pass their maximum. */
int build_ignore_has(const struct build_ignore *g, const char *path, uint64_t steps_max,
		     uint64_t *steps);
