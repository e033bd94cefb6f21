/*
 * The groups of a box's helpers on the host, beside the box's own: what a box makes its keeper and
 * its door use is bounded by them, and shown by `cove stats`.
 *
 *	<tree>/cove/<box>+keeper	the keeper and its launcher
 *	<tree>/cove/<box>+door		both processes of the door; made when one is first started
 *
 * On v2 with controllers a helper is born in its group (CLONE_INTO_CGROUP with v2_fd). On v1 it
 * writes "0" to `tasks` itself, in the trees of memory and cpu. A group cannot be removed by who is
 * in it: the last one leaves it first, for where it could have come from. What a crash leaves is
 * removed with the box's groups (cgroup_remove), or found by a sweep: cgroup_each names it.
 */
#pragma once

#include "cgroup/cgroup.h"

enum cgroup_helper_kind { CGROUP_KEEPER, CGROUP_DOOR };

/* A helper's share: of processor time what the box may have, but at least so much that it can work
 * at all; of memory the keeper has a fixed maximum, and the door half of the box's memory within
 * two bounds. On v1 its network buffers come on top, as a box's do. */
enum {
	CGROUP_KEEPER_BYTES = 256 << 20,
	CGROUP_DOOR_BYTES_LEAST = 64 << 20,
	CGROUP_DOOR_BYTES_MAX = 512 << 20,
	CGROUP_KEEPER_CPU_LEAST = 500, /* thousandths of a processor */
	CGROUP_DOOR_CPU_LEAST = 100,
	CGROUP_KEEPER_WEIGHT = 10, /* times that of a box: it is to answer while boxes work */
	CGROUP_HELPER_TREES = 4,
};

/* Files of a group that tell what is used; they work in a process that may open nothing. */
struct cgroup_meter {
	int mem_fd, tcp_fd, time_fd; /* owned, -1 where it is not counted */
};
#define CGROUP_METER_NONE ((struct cgroup_meter){-1, -1, -1})
void cgroup_meter_read(const struct cgroup_meter *m, uint64_t *mem_bytes, uint64_t *cpu_us);
void cgroup_meter_done(struct cgroup_meter *m);

struct cgroup_helper {
	char name[96];
	int v2_fd; /* owned; where to be born, -1 without */
	struct {
		int tree;      /* enum layout_tree, which begins with the parts of a box */
		int parent_fd; /* owned: the directory that it is in */
		int join_fd;   /* owned; v1: the file that it writes "0" to, -1 on v2 */
		int leave_fd;  /* owned: the file of another group that takes it */
	} trees[CGROUP_HELPER_TREES];
	unsigned count;
	struct cgroup_meter meter;
	unsigned limits;	  /* 1 << part: a limit that was due holds */
	char why[CGROUP_WHY_MAX]; /* where one does not */
};

/* The directory that holds its group and the box's for a part, CGROUP_TREE: of v2; -1 without. */
int cgroup_helper_parent(const struct cgroup_helper *h, enum cgroup_part part);

/* What that kind of helper of a box with these limits may have; 0: no limit. */
uint64_t cgroup_helper_bytes(enum cgroup_helper_kind kind, const struct cgroup_limits *box);
uint64_t cgroup_helper_cpu_milli(enum cgroup_helper_kind kind, const struct cgroup_limits *box);

/* Makes (or finds) the groups and sets the limits. Never fails: where nothing can be used ret->why
 * says so, and there is nothing to join. Done with cgroup_helper_done. */
void cgroup_helper_make(const char *box, enum cgroup_helper_kind kind,
			const struct cgroup_limits *limits, struct cgroup_helper *ret);
/* The keeper's, beside a box's that was just made: what was found out then is not asked again. */
void cgroup_helper_make_beside(struct cgroup *cg, const char *box,
			       const struct cgroup_limits *limits, struct cgroup_helper *ret);
/* The calling process goes into the v1 groups. 0 or -errno. */
int cgroup_helper_join(const struct cgroup_helper *h);
/* It goes elsewhere (if it is in there), and the groups are removed if they are empty then. */
void cgroup_helper_leave(const struct cgroup_helper *h);
/* In a child: closes all descriptors from first on but those that it takes to leave. */
int cgroup_helper_close_others(const struct cgroup_helper *h, unsigned first);
/* Removes the groups if they are empty, without having been in them. */
void cgroup_helper_remove(const struct cgroup_helper *h);
void cgroup_helper_done(struct cgroup_helper *h);

/* Where a keeper is to be born, before it is there: a descriptor, or -1 where it is not born in any
 * (v1, no limits). The keeper finds the same group by cgroup_helper_make. */
int cgroup_helper_cradle(const char *box, const struct cgroup_limits *limits);
/* The clone that is born there, as fork does; 0 in the child. Without a group, fork. */
pid_t cgroup_helper_fork(const struct cgroup_helper *h);

/* "a-b+door" -> "a-b"; false if that is no helper's. */
bool cgroup_helper_box(const char *group, char *ret, size_t size);
