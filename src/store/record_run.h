/*
 * What a box's record says of its last run: one block of lines with their sum, always written
 * whole; see record.h. Of an older Cove's box it is the text of a file of its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RECORD_RUN_BYTES = 1024, RECORD_BOOT_LEN = 36 };

struct record_run {
	char boot[RECORD_BOOT_LEN + 1];
	char cause[64], by[64];
	uint64_t pid, started_ms, ended_ms, init, paused, visit;
	char asleep[16]; /* paused as its time was over: which, "ttl" or "idle" */
	/* What was set since the box was made, in place of its spec's; 0: nothing, UINT64_MAX:
	 * none. They outlive the run. */
	uint64_t ttl_ms, idle_ms;
	uint64_t ttl_from_ms; /* in this run: since when that ttl counts; 0: since its start */
	/* Of a run for one client alone: when the run before it began, and why that ended. */
	uint64_t before_ms;
	char before[64];
	uint64_t on_start; /* the number of the command that its spec has run at its start */
};

/* The kernel's name for this boot; empty where it does not say. */
void record_boot_id(char ret[RECORD_BOOT_LEN + 1]);

/* Where the run stands in a lock (0) or in a record; negative errno. */
off_t record_run_place(int fd);
/* 1 and what the open file says, 0 if there is nothing; -EBADMSG or -EFBIG where it is damaged. */
int record_run_read(int fd, struct record_run *ret);
/* In one write, which needs no room on the disk. */
int record_run_write(int fd, const struct record_run *l, bool durable);

/* The same of RECORD_RUN_BYTES that were read already, and of one line. */
int record_run_parse(const char *block, struct record_run *ret);
int record_run_line(struct record_run *l, const char *key, const char *value);
