/*
 * What a command used, from the files of its groups, and whether one of the box's limits was why it
 * failed.
 *
 *	cpu		v2 cpu.stat, which needs no controller
 *	peak memory	v1 memory.max_usage_in_bytes, or v2 memory.peak
 *	killed for lack of memory
 *			v1 memory.oom_control, or v2 memory.events
 *	I/O		v1 blkio.throttle.io_service_bytes, or v2 io.stat. On v1 what is written
 *			through the page cache is not counted
 *	refused forks	of the box (v1 and v2 pids.events), and of the group where the kernel counts
 *			them there
 *
 * The files stay open with the tree, so that a line in a persistent shell costs a few reads.
 */
#pragma once

#include "init/init.h"
#include "init/tree.h"

struct usage {
	uint64_t cpu_us;
	uint64_t mem_peak_bytes;
	uint64_t io_read_bytes, io_write_bytes;
	uint64_t oom_kills;
	uint64_t pids_hits; /* of the box as a whole */
};

/* All that was used in the tree so far; 0 what is not known. */
void usage_read(struct init_tree *t, struct usage *ret);
/* Opens the files that usage_read will read. */
void usage_open(struct init_tree *t);
/* How often forks were refused in the box and, if t is not NULL, in that tree. */
uint64_t usage_pids_hits(const struct init_tree_groups *g, struct init_tree *t);
/* Adds to *sum what came between two readings. The peak is the higher one. */
void usage_add(struct usage *sum, const struct usage *before, const struct usage *now);
/* The next reading's peak is that from now on. Where the kernel cannot do that (v2 before Linux
 * 6.12) it stays the peak of the group's whole life. */
void usage_reset_peak(struct init_tree *t);

/* Why a command that ended by itself did not succeed: "oom", "pids", "disk"; otherwise was, "exit"
 * or "signal". failed: it was not exit status 0. cwd may be NULL. */
const char *usage_cause(const struct init *in, const struct usage *u, bool failed, const char *cwd,
			const char *was);
void usage_put(const struct usage *u, struct exec_record *ret);
/* Have commands less than an eighth of their memory free? */
bool usage_is_short_of_memory(const struct init_tree_groups *g);

/* Is the box's own disk limit what bounds the file system of the directory path, or of the nearest
 * one above it that is there? Only its root and a workspace with a disk of its own are: a host
 * directory, /proc or /dev/shm may be full, too, but that is not the box's limit. */
bool disk_is_bounded(const struct init *in, const char *path);
/* And is it reached? */
bool disk_is_full(const struct init *in, const char *path);
