/* The two ways to find the members of a tree, between tree*.c only; see tree.h for what they do. */
#pragma once

#include "init/tree.h"

/* tree_walk.c: from t->root down, in /proc. */
int init_walk_kill(const struct init_tree *t, pid_t except_pid);
int init_walk_signal(const struct init_tree *t, int sig, pid_t except_pid);
size_t init_walk_members(const struct init_tree *t, pid_t except_pid, pid_t *ret, size_t max);
void init_walk_keep_current(struct init_tree *t, pid_t shell);

/* tree_group.c: in a cgroup. */
int init_group_kill(const struct init_tree *t, pid_t except_pid);
int init_group_signal(const struct init_tree *t, int sig, pid_t except_pid);
size_t init_group_members(const struct init_tree *t, pid_t except_pid, pid_t *ret, size_t max);
