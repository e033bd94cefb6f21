/*
 * What in a directory of the host makes the host run something: hooks, tasks of editors, settings
 * of agents, start files of shells. A box gets it read-only (keeper/pins.c), and what a box made of
 * it does not come back (core/merge.h), unless --trust-dir.
 *
 * This guards against accidents and is no wall: a Makefile is as dangerous.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct guarded {
	const char *parent; /* NULL: the directory itself */
	const char *path;
	bool file_only;
};

/* At the top of a directory; the last has no path. Those of one parent stand together. */
extern const struct guarded guarded_list[];

/* Is a path (relative, "a/b") one of these or below one, at any depth? In a repository that is
 * anything called hooks or config, those of its modules and worktrees too. */
bool guarded_is(const char *path);

/* Is ".git" on the way, or the end of it? */
bool guarded_is_in_git(const char *path);

/* Of a path that would be one of these if a directory on its way were a repository: how long the
 * directory's path is. 0: it would be none (or the top's, which ".git" is for). */
size_t guarded_in_repository(const char *path);
