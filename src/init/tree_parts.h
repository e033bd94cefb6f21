/* The two ways to find the members of a tree, between tree*.c only; see tree.h for what they do. */
#pragma once

#include "init/tree.h"

/* A visit sends sig, unless it is 0, to every member but except_pid, writes the first max of them
 * to ret, and returns how many there are. */

/* tree_walk.c: from t->root down, in /proc. */
int init_walk_kill(const struct init_tree *t, pid_t except_pid);
int init_walk_visit(const struct init_tree *t, int sig, pid_t except_pid, pid_t *ret, int max);
void init_walk_keep_current(struct init_tree *t, pid_t shell);

/* tree_group.c: in a cgroup. */
int init_group_kill(const struct init_tree *t, pid_t except_pid);
int init_group_visit(const struct init_tree *t, int sig, pid_t except_pid, pid_t *ret, int max);
