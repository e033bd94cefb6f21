/*
 * A box's cgroups: limits, numbers, freezing, and ending exactly one tree. One interface for
 *
 *	v2	one tree with controllers, at /sys/fs/cgroup
 *	hybrid	a v2 tree without controllers (kill and freeze), and a v1 tree per controller
 *	v1	only the latter
 *	none	neither may be written to: nothing is limited, init walks descendants
 *
 *	<tree>/cove/<box>		box: memory (with a reserve for init), cpu, pids, io
 *	<tree>/cove/<box>/init		init itself, from birth; only where v2 has controllers: in a
 *					tree without, and on v1, it is in the box's group
 *	<tree>/cove/<box>/work		commands: memory. An out-of-memory in here never takes init
 *	<tree>/cove/<box>/work/e<ID>	one command; made and removed by init
 *
 * As root <tree> is the mount itself, for an ordinary user the group that was delegated to it.
 * Limits are in files that stay ours; init is given (by ownership) only the right to make groups
 * below work/ and to move processes into them.
 *
 * A process is moved as seldom as can be: a write to cgroup.procs waits for the whole machine, 8 ms
 * and more after a quiet moment. On v2 a process is born in its group (CLONE_INTO_CGROUP); on v1 it
 * writes "0" to `tasks` itself, the one kind of move that takes no global lock.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_part {
	CGROUP_TREE, /* v2: kill, freeze, cpu time */
	CGROUP_MEMORY,
	CGROUP_CPU,
	CGROUP_PIDS,
	CGROUP_IO,
	CGROUP_PART_COUNT
};

/* 0: no limit. */
struct cgroup_limits {
	uint64_t mem_bytes;
	uint64_t cpu_milli;
	uint64_t pids;	   /* init comes on top */
	uint64_t io_bytes; /* per second and direction, on io_dev */
	dev_t io_dev;
	bool brief; /* for one command only: on v1, where it costs groups, its I/O is not counted */
};

enum { CGROUP_RESERVE_BYTES = 32 << 20, CGROUP_WHY_MAX = 160, CGROUP_JOIN_MAX = 8 };

/* Of its memory a box may have a quarter in CGROUP_TCP_LIMIT. */
enum { CGROUP_TCP_SHARE = 4, CGROUP_TCP_LEAST = 4 << 20 };

struct cgroup_kind; /* v1 or v2; see parts.h */
struct cgroup_view; /* what the box is shown of its groups; see view.h */

/* One for every part that there is. */
struct cgroup {
	/* Where each part is: its kind of tree, and the box's group there, which is one of those
	 * below (borrowed). NULL and -1 without. */
	const struct cgroup_kind *kind[CGROUP_PART_COUNT];
	int group_fd[CGROUP_PART_COUNT];
	int fd;	     /* owned; v2 group of the box, -1 without */
	int init_fd; /* owned; v2: where init is born, -1 without */
	int work_fd; /* owned; v2: work/, for init; -1 without */
	/* owned; v1 group of the box, -1 where not v1. CGROUP_TREE: the freezer, without v2 */
	int v1_fd[CGROUP_PART_COUNT];
	/* owned; v1, where init makes groups: memory's work/; io's group where io has no limit */
	int v1_work_fd[CGROUP_PART_COUNT];
	int v1_acct_fd; /* owned; cpuacct where there is no v2, else -1 */
	/* owned; v1 `tasks` files that the first process writes "0" to before it is anybody */
	int join_fd[CGROUP_JOIN_MAX];
	unsigned join_count;
	unsigned can;	    /* 1 << part: works here */
	unsigned limits;    /* 1 << part: a limit was asked for and holds */
	bool tcp_uncounted; /* v1, with a memory limit: network buffers are not in it */
	char why[CGROUP_PART_COUNT][CGROUP_WHY_MAX]; /* where it does not: the reason and remedy */
	struct cgroup_view *view;		     /* owned; NULL: nothing */
	struct layout *layout; /* owned; where the groups are, until its keeper has one, too; of a
			        * brief box to its end. NULL: to be looked up */
};

/* Makes the groups of a box, sets what can be set, and gives init's part to that owner. Success
 * also where nothing can be used: *ret says what holds and why the rest does not. Without any limit
 * only the tree for kill and freeze is made; with one, memory, pids and io are also counted. */
int cgroup_make(const char *box, const struct cgroup_limits *limits, uid_t owner_uid,
		gid_t owner_gid, struct cgroup *ret, struct err *e);

/* Other limits for a box that was made with `was`: of memory, processors and processes, where both
 * have one. The first part whose new limit cannot be set is *ret_part; what did not hold before is
 * left as it is. 0 or -errno. */
int cgroup_change(const struct cgroup *cg, const struct cgroup_limits *was,
		  const struct cgroup_limits *now, enum cgroup_part *ret_part);

/* No groups at all, for that reason. */
void cgroup_none(struct cgroup *ret, const char *why);

/* Removes the groups of a box and all below, killing what is left. Missing is success. */
int cgroup_remove(const char *box, struct err *e);

/* The same of a box in which nothing runs, and which may have another name by now: its groups, and
 * those of its helpers. Kills nothing; -EBUSY where somebody is in there. */
int cgroup_remove_empty(const char *box);

/* The same for the box that it was made for, by a process that ends next: cg stays open. */
int cgroup_end(struct cgroup *cg, const char *box, struct err *e);

void cgroup_done(struct cgroup *cg); /* closes; a zeroed one is not valid, a failed make is */

/* ERR_UNSUPPORTED with the remedy where it cannot be done. Returns when all of them are frozen. */
int cgroup_freeze(const struct cgroup *cg, bool on, struct err *e);

struct cgroup_stats {
	uint64_t cpu_us, throttled_us;
	uint64_t mem_bytes, mem_peak_bytes, oom_kills;
	uint64_t mem_cache_bytes; /* of mem_bytes: page cache that can be given back */
	uint64_t pids, pids_hits; /* how often a fork was refused */
	uint64_t io_read_bytes, io_write_bytes;
};
/* What is known of the box as a whole; the rest is 0. */
void cgroup_stats(const struct cgroup *cg, struct cgroup_stats *ret);
/* Only what changes from moment to moment and costs little to ask: time, memory, processes. */
void cgroup_stats_now(const struct cgroup *cg, struct cgroup_stats *ret);

/* Does init have groups that count each command's I/O? */
bool cgroup_counts_commands(const struct cgroup *cg);

/* The processor time alone. */
uint64_t cgroup_cpu_us(const struct cgroup *cg);

/* From now on it takes its turn after the boxes that do not yield (cpu.idle, which counts among the
 * boxes only). 0 or -errno: -ENOTSUP without a cpu group, -ENOENT before Linux 5.15. */
int cgroup_yield(const struct cgroup *cg, bool on);

/* Calls on_box for every group below cove/, in any tree, for sweeping up after a crash. A box may
 * come more than once. */
int cgroup_each(void (*on_box)(const char *box, void *arg), void *arg);

/* What this host offers to this caller, tried and taken back; for `cove doctor`. */
struct cgroup_offer {
	char layout[8]; /* "v2", "hybrid", "v1", "none" */
	unsigned can;
	char why[CGROUP_PART_COUNT][CGROUP_WHY_MAX];
};
void cgroup_probe(struct cgroup_offer *ret);
