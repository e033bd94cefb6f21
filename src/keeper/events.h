/*
 * The box's own events: logs/events.jsonl, one JSON object a line (store/event.h). When it reaches
 * half of KEEPER_EVENTS_MAX it becomes events.1.jsonl and a new one is begun. Each row has a
 * number, "seq", one more than the last: over rotations and the keeper's own restarts.
 */
#pragma once

#include "store/event.h"

#include <stdint.h>

struct shell_place;

enum { EVENTS_LINE_MAX = 64 << 10 };

struct keeper_events {
	int fd; /* owned, -1 while closed */
	uint64_t bytes;
	uint64_t seq;		    /* of the last row */
	uint64_t generation;	    /* how many files were begun */
	struct shell_place *shells; /* owned; where each shell was last */
	unsigned shell_count;
};

void keeper_events_init(struct keeper_events *e);
void keeper_events_done(struct keeper_events *e);

/* Numbers one event and appends it; logs_fd is the directory, negative: it is only numbered and
 * formatted. The row, without its newline, is in *row. Negative errno on failure. */
int keeper_events_add(struct keeper_events *e, int logs_fd, const struct event *event,
		      struct buf *row);
/* Opens the current file, or with another generation than that the older one. The caller closes. */
int keeper_events_open(const struct keeper_events *e, int logs_fd, uint64_t generation);

/* Remembers where a shell is now. True if it was somewhere else before. */
bool keeper_events_shell_moved(struct keeper_events *e, const char *shell, const char *cwd);
