/*
 * /proc as it is for the box: meminfo, cpuinfo, loadavg, uptime and stat, made from the box's own
 * limits and numbers. They are small files in memory that the wall shows read-only over those of
 * the kernel; the keeper writes them anew before a command starts and every second while one runs,
 * less often while only what it left behind is there, so an idle box costs nothing. Each is written
 * with one call and never changes its length, so a reader sees one state or the next.
 *
 * cpuinfo is the host's, cut to as many processors as the box has. The load is how many processors
 * the box kept busy, averaged as the kernel averages. The boot is the machine's: the kernel says in
 * /proc/PID/stat how long after it a process began. uptime is ahead by the second that passes until
 * it is written again: of a process that began after it, ps would make an age below zero.
 */
#pragma once

#include "base/err.h"
#include "cgroup/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

enum { PROC_FILES_COUNT = 5 };

struct proc_files {
	int fd[PROC_FILES_COUNT]; /* owned; -1 where the wall has none */
	uint64_t mem_kb;	  /* the box has; 0: the host's own numbers are shown */
	unsigned cpus;
	uint64_t started_ms, written_ms; /* monotonic; written_ms 0: never */
	uint64_t booted_ms;		 /* the kernel, since the host was */
	uint64_t cpu_us;		 /* when last written */
	double load[3];
};

#define PROC_FILES_NONE ((struct proc_files){.fd = {-1, -1, -1, -1, -1}})

/* Takes the files, in the order of wall_proc_names, and writes them. All of them -1: nothing is
 * ever written. mem_asked: the caller's word, which may be more than the machine has; a default
 * never is. own_kernel: the box's, which counts time from now on. */
int proc_files_open(struct proc_files *t, int *fds, uint64_t mem_bytes, bool mem_asked,
		    unsigned cpus, bool own_kernel, struct err *e);
/* The same files for a box with other numbers, which begins now. */
int proc_files_again(struct proc_files *t, uint64_t mem_bytes, bool mem_asked, unsigned cpus,
		     struct err *e);
/* Is what is written older than that? */
bool proc_files_is_old(const struct proc_files *t, uint64_t now_ms, uint64_t max_age_ms);
/* Writes them anew. running: commands. Negative errno of the first write that failed. */
int proc_files_write(struct proc_files *t, uint64_t now_ms, const struct cgroup_stats *now,
		     unsigned running);
