/*
 * What ended commands read and wrote.
 *
 * A v1 group takes its count with it when it is removed, so the count of the whole box falls back
 * with every command that ends. What each of them reported is kept here, and counts from the moment
 * its group is gone: before that the box's own count still has it. The group of a persistent shell
 * stays from line to line, so its lines count when the shell ends.
 */
#pragma once

#include "keeper/journal.h"

#include <stdbool.h>
#include <stdint.h>

enum { ENDED_IO_GROUPS = 64 };

/* One command, or all lines of one shell, whose group may still be there. */
struct ended_io_group {
	uint32_t id;			/* 0: of a shell */
	char shell[SHELL_NAME_MAX + 1]; /* empty: a command of its own */
	uint64_t bytes[2];		/* read, written */
};

struct ended_io {
	struct ended_io_group open[ENDED_IO_GROUPS];
	unsigned count;
	uint64_t gone[2];     /* of groups that are not there any more */
	uint64_t reported[2]; /* what was answered last: it only grows */
};

/* A command has ended. Where there are too many with groups the oldest counts as gone. */
void ended_io_add(struct ended_io *l, const struct exec_record *r);
/* Before the box's own count is read. has_group: is the group of that command there? */
void ended_io_update(struct ended_io *l, bool (*has_group)(void *arg, uint32_t id), void *arg);
/* From what the box's groups count now to what the box has used in all. */
void ended_io_sum(struct ended_io *l, uint64_t *read_bytes, uint64_t *write_bytes);
