/*
 * /proc as it is for the box: meminfo, cpuinfo, loadavg, uptime and stat, made from the box's own
 * limits and numbers. They are small files in the runtime directory, shown read-only over those of
 * the kernel; the keeper writes them anew before a command starts and every second while one runs,
 * so an idle box costs nothing. Each is written with one call and never changes its length, so a
 * reader sees one state or the next.
 *
 * cpuinfo is the host's, cut to as many processors as the box has. The load is how many processors
 * the box kept busy, averaged as the kernel averages.
 */
#pragma once

#include "base/err.h"
#include "cgroup/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRUTH_FILES = 5 };

struct truth {
	int dir_fd;	     /* owned, -1 before truth_make */
	int fd[TRUTH_FILES]; /* owned */
	char path[600];	     /* the directory, for the wall; empty before truth_make */
	uint64_t mem_bytes;  /* limit; 0: the host's own numbers are shown */
	unsigned cpus;
	uint64_t started_ms, written_ms; /* monotonic; written_ms 0: never */
	uint64_t started_s;		 /* wall clock */
	uint64_t cpu_us;		 /* when last written */
	double load[3];
};

#define TRUTH_NONE ((struct truth){.dir_fd = -1, .fd = {-1, -1, -1, -1, -1}})

/* Makes <run>/<box>/proc/ with the files in it. On failure truth_remove takes back what is
 * there. */
int truth_make(struct truth *t, int run_fd, const char *run_path, const char *box,
	       uint64_t mem_bytes, unsigned cpus, struct err *e);
/* From here on they are written to these descriptors, in the order of wall_proc_names, which it
 * takes; what is on the host goes. -1 among them: nothing changes. */
int truth_take(struct truth *t, int *fds);
/* Is what is written older than that? */
bool truth_is_old(const struct truth *t, uint64_t now_ms, uint64_t max_age_ms);
/* Writes them anew. running: commands. Negative errno of the first write that failed. */
int truth_write(struct truth *t, uint64_t now_ms, const struct cgroup_stats *now, unsigned running);
/* Removes files and directories, <run>/<box> too if nothing else is in it. Twice is fine. */
void truth_remove(struct truth *t, int run_fd, const char *box);
