/* The two ways to find the members of a tree, between tree*.c only; see tree.h for what they do. */
#pragma once

#include "init/tree.h"

/* tree_walk.c: from t->root down, in /proc. */
int walk_kill(const struct tree *t, pid_t spare);
int walk_signal(const struct tree *t, int sig, pid_t spare);
size_t walk_members(const struct tree *t, pid_t spare, pid_t *ret, size_t max);
void walk_keep_current(struct tree *t, pid_t shell);

/* tree_group.c: in a cgroup. */
int group_kill(const struct tree *t, pid_t spare);
int group_signal(const struct tree *t, int sig, pid_t spare);
size_t group_members(const struct tree *t, pid_t spare, pid_t *ret, size_t max);
