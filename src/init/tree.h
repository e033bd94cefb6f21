/*
 * The tree of one command: made so that it can be ended exactly.
 *
 * With a cgroup: a group e<ID> below the box's; a kill is one write to cgroup.kill, `setsid` or
 * not. Without: the command's first process is a subreaper, and a kill stops and kills its
 * descendants in a /proc walk that is repeated until none is left; what an earlier line of the
 * same shell left is told apart by a list taken before. Not exact against a process that reparents
 * while we look, nor for what is left once the first process has ended: its orphans are init's
 * children like all others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TREE_KEEP_MAX = 1024 };

/* A process by pid and start time, so that a reused pid is another one. */
struct tree_proc {
	pid_t pid;
	uint64_t start;
};

struct tree {
	int fd;	       /* group directory, owned; -1 without */
	int parent_fd; /* borrowed */
	uint32_t id;
	pid_t root;		/* without cgroup: walk from here; 0 once it has been reaped */
	struct tree_proc *keep; /* owned; descendants that were there before and stay */
	size_t keep_count;
};

/* Makes the group e<id> below box_group_fd (or remembers there is none). */
int tree_init(struct tree *t, int box_group_fd, uint32_t id);
/* Removes the group if it is empty; a group with live members (a left daemon) is marked as left and
 * stays until tree_sweep finds it empty. */
void tree_done(struct tree *t);

/* Moves a process (a persistent shell) into the group. */
int tree_enter(struct tree *t, pid_t pid);

/* Without cgroup: everything now below `shell` belongs to earlier lines. */
void tree_keep_current(struct tree *t, pid_t shell);

/* SIGKILL to every member but `spare` (0: none). Returns how many were seen, 0 when none is
 * left. */
int tree_kill(struct tree *t, pid_t spare);
/* Any other signal, once, to every member but `spare`; 0 only counts. Returns how many it saw. */
int tree_signal(struct tree *t, int sig, pid_t spare);
/* The members but `spare`, at most max of them. Returns how many were written. */
size_t tree_members(struct tree *t, pid_t spare, pid_t *ret, size_t max);

/* Removes left groups that have become empty. Called after orphans ended. */
void tree_sweep(int box_group_fd);
