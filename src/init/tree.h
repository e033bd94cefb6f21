/*
 * The tree of one command: made so that it can be ended exactly, and measured.
 *
 * With a cgroup: a group e<ID> below the box's; a kill is one write to cgroup.kill, `setsid` or
 * not. Where the host has a hierarchy per controller (v1) the same group is made in each of them.
 * Without: the command's first process is a subreaper, and a kill stops and kills its descendants
 * in a /proc walk that is repeated until none is left; what an earlier line of the same shell left
 * is excluded by a list taken before. Not exact against a process that reparents while we look,
 * nor for what is left once the first process has ended: its orphans are init's children like all
 * others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TREE_KEEP_MAX = 1024 };

enum init_tree_kind { TREE_V2, TREE_MEMORY, TREE_IO, TREE_KINDS };

/* Files of a group that are read, at most. */
enum { TREE_STATS = 5 };

/* Where the groups of commands are made: one for all of a box. */
struct init_tree_groups {
	int fd[TREE_KINDS]; /* owned; work/ of each hierarchy, -1 where there is none */
	int pids_events_fd; /* owned; how often a fork was refused in the box, or -1 */
	/* v2: the box's limits, for each command's group to say again; or NULL. A runtime reads the
	 * limits of its own group, and mostly of none above. */
	const char *memory_max, *cpu_max;
	bool left; /* some group still had members: init_tree_sweep has something to do */
	/* One command comes at once, and most likely no other: its groups go with the box. Where
	 * v2 has its tree, v1 counts its memory in work/ itself. */
	bool once;
	struct init_tree *premade; /* owned; groups for a command that may come, or NULL */
};

#define TREE_GROUPS_NONE ((struct init_tree_groups){.fd = {-1, -1, -1}, .pids_events_fd = -1})

/* Lets go of what does not work and says so in notes, in lines. */
void init_tree_groups_check(struct init_tree_groups *g, char *notes, size_t size);

/* A process by pid and start time, so that a reused pid is another one. */
struct tree_proc {
	pid_t pid;
	uint64_t start;
};

struct init_tree {
	int fd[TREE_KINDS];	 /* group directories, owned; -1 without */
	int join_fd[TREE_KINDS]; /* v1: what a new member writes to, if open; owned */
	int stat_fd[TREE_STATS]; /* usage.c: owned, open from the first look on; or -1, -2 */
	struct init_tree_groups *groups; /* borrowed; NULL: none */
	uint32_t id;
	pid_t root;		/* without cgroup: walk from here; 0 once it has been reaped */
	struct tree_proc *keep; /* owned; descendants that were there before and stay */
	size_t keep_count;
};

#define TREE_NONE            \
	((struct init_tree){ \
		.fd = {-1, -1, -1}, .join_fd = {-1, -1, -1}, .stat_fd = {-1, -1, -1, -1, -1}})

/* Makes the groups e<id>, or remembers that there are none. A tree that failed is to be done. */
int init_tree_init(struct init_tree *t, struct init_tree_groups *g, uint32_t id);
/* Makes them ahead for an id that probably comes next (commands are numbered in order), in the
 * place of those made before: to make three groups costs as much as to start a process. A failure
 * is found again by init_tree_init. */
void init_tree_premake(struct init_tree_groups *g, uint32_t id);
void init_tree_drop_premade(struct init_tree_groups *g);
/* Removes the groups if they are empty; one with live members (a left daemon) is marked as left and
 * stays until init_tree_sweep finds it empty. */
void init_tree_done(struct init_tree *t);

bool init_tree_has_group(const struct init_tree *t);
/* The calling process, before it is a command, puts itself where it was not born. */
int init_tree_join(const struct init_tree *t, bool v2_too);
/* Moves a process (a persistent shell) of that user into the groups. One of a v1 hierarchy that it
 * cannot be moved to is closed: there it stays where it was. */
int init_tree_enter(struct init_tree *t, pid_t pid, uid_t uid);

/* Without cgroup: everything now below `shell` belongs to earlier lines. */
void init_tree_keep_current(struct init_tree *t, pid_t shell);

/* SIGKILL to every member but `except_pid` (0: none). Returns how many were seen, 0 when none is
 * left. */
int init_tree_kill(struct init_tree *t, pid_t except_pid);
/* Any other signal, once, to every member but `except_pid`; 0 only counts. Returns how many it
 * saw. */
int init_tree_signal(struct init_tree *t, int sig, pid_t except_pid);
/* The same, and writes the first max of them to ret. */
int init_tree_visit(struct init_tree *t, int sig, pid_t except_pid, pid_t *ret, int max);

/* Removes left groups that have become empty. Called after orphans ended. */
void init_tree_sweep(struct init_tree_groups *g);
