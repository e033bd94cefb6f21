/*
 * Events of a box's life, in two forms: a human-readable line and a JSON line for a program. Every
 * piece of text that came from a user or a box is escaped (str_escape), so no text can forge or
 * break a line.
 *
 *	[cove] open   dev  image=base workspace=dev
 *	[cove] $ make -j4
 *	[cove] -> exit 0, 1204 B out, 0 B err, 1.2 s, cwd /tmp (changed)
 *	[cove] timeout after 5.0 s
 *	[cove] fail   no image 'x'
 *	[cove] pause  dev  by cove pause
 *	[cove] resume dev  by cove resume
 *	[cove] door   dev  ended (signal 9)
 *	[cove] snapshot dev  dev-before, frozen 3 ms by uid 1000 inside
 *	[cove] close  dev  stopped by cove stop
 */
#pragma once

#include "base/buf.h"
#include "wire/exec_record.h"

#include <stdbool.h>
#include <stdint.h>

enum event_kind {
	EVENT_OPEN,
	EVENT_COMMAND,
	EVENT_RESULT,
	EVENT_TIMEOUT,
	EVENT_FAIL,
	EVENT_CLOSE,
	EVENT_PAUSE,
	EVENT_RESUME,
	EVENT_DOOR,
	EVENT_SNAPSHOT /* that the box itself asked for */
};

struct event {
	enum event_kind kind;
	uint64_t at_ms; /* wall clock */
	const char *box;
	const char *image, *workspace;	/* open */
	const struct exec_record *exec; /* command, result, timeout; NULL is as an empty one */
	const char *command; /* in place of the record's; only its first line is shown, cut at 80 */
	bool cwd_changed;
	const char *cause, *by; /* close, fail, pause, resume, door, snapshot */
	uint64_t cpu_us;	/* close: of the whole run, where it is known */
	uint64_t seq;		/* its number in the box's log; 0: none */
};

/* The box's log of them, below logs/: one JSON object a line; and its older half. */
#define EVENT_LOG     "events.jsonl"
#define EVENT_LOG_OLD "events.1.jsonl"

/* The number of a row of that log; 0: it has none. */
uint64_t event_row_seq(const char *row);

/* Each appends one line with its newline. */
int event_format(const struct event *ev, struct buf *out);
int event_format_json(const struct event *ev, struct buf *out);
