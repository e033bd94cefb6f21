/*
 * /proc as it is for the box: meminfo, cpuinfo, loadavg, uptime and stat, made from the box's own
 * limits and numbers. They are small files in the runtime directory, shown read-only over those of
 * the kernel; the keeper writes them anew before a command starts and every second while one runs,
 * so an idle box costs nothing. Each is written with one call and never changes its length, so a
 * reader sees one state or the next.
 */
#pragma once

#include "base/err.h"
#include "cgroup/cgroup.h"

#include <stdint.h>

enum { TRUTH_FILES = 5 };

struct truth {
	int dir_fd;	     /* owned, -1 before truth_make */
	int fd[TRUTH_FILES]; /* owned */
	char path[600];	     /* the directory, for the wall */
	uint64_t mem_bytes;  /* limit; 0: the host's own numbers are shown */
	unsigned cpus;
	uint64_t started_ms; /* monotonic */
	uint64_t written_ms; /* monotonic; when last written */
	double load[3];
	uint64_t load_ms;
};

/* Makes <run>/<box>/proc/ with the files in it. */
int truth_make(struct truth *t, int run_fd, const char *run_path, const char *box,
	       uint64_t mem_bytes, unsigned cpus, struct err *e);
/* Writes them anew if what is there is older than max_age_ms. running: threads that can run. */
void truth_refresh(struct truth *t, const struct cgroup_stats *now, unsigned running,
		   uint64_t max_age_ms);
/* Removes files and directory. Twice is fine. */
void truth_remove(struct truth *t, int run_fd, const char *box);
