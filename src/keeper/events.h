/*
 * The box's own events: logs/events.jsonl, one JSON object a line (store/event.h). When it reaches
 * half of KEEPER_EVENTS_MAX it becomes events.1.jsonl and a new one is begun.
 */
#pragma once

#include "store/event.h"

#include <stdint.h>

struct shell_place;

struct events {
	int fd; /* owned, -1 while closed */
	uint64_t bytes;
	struct shell_place *shells; /* owned; where each shell was last */
	unsigned shell_count;
};

void events_init(struct events *e);
void events_done(struct events *e);

/* Appends one event; logs_fd is the directory. Negative errno on failure. */
int events_add(struct events *e, int logs_fd, const struct event *event);

/* Remembers where a shell is now. True if it was somewhere else before. */
bool events_shell_moved(struct events *e, const char *shell, const char *cwd);
