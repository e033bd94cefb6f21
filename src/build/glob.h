/*
 * Patterns for paths, as Go's filepath.Match has them (*, ?, [a-z], [^a-z], \x; none of them is a
 * slash) and, where asked for, with Docker's ** for any number of directories. No I/O.
 *
 * A pattern is compiled once. Matching takes time in proportion to pattern times path, whatever
 * they are, and far less where the path soon cannot match any more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct build_glob_part;
struct build_glob {
	struct build_glob_part *parts; /* owned */
	size_t count;
	char *suffix; /* owned; not NULL: it is **suffix, which needs only the end of a path */
};

/* -EINVAL where it is no pattern; -E2BIG, -ENOMEM. */
int build_glob_init(struct build_glob *g, const char *pattern, bool double_star);
void build_glob_done(struct build_glob *g);
bool build_glob_matches(const struct build_glob *g, const char *path);
/* The path, or a directory above it. *steps grows by what it took. */
bool build_glob_covers(const struct build_glob *g, const char *path, uint64_t *steps);

/* Has it none of the characters that mean something in a pattern? */
bool build_glob_is_plain(const char *pattern);
