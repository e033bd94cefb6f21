/*
 * Events of a box's life, in two forms: a line for a person and a JSON line for a program. Every
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
 *	[cove] close  dev  stopped by cove stop
 */
#pragma once

#include "base/buf.h"

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
	EVENT_DOOR
};

struct event {
	enum event_kind kind;
	uint64_t at_ms; /* wall clock */
	const char *box;
	const char *image, *workspace; /* open */
	uint64_t exec_id;	       /* command, result, timeout */
	const char *command;	       /* command: only the first line is shown, cut at 80 */
	const char *shell;
	bool has_exit;
	int exit_code, signal;
	uint64_t stdout_bytes, stderr_bytes, duration_ms;
	const char *cwd;
	bool cwd_changed;
	const char *cause, *by; /* close, fail, pause, resume, door */
};

/* Each appends one line with its newline. */
int event_format(const struct event *ev, struct buf *out);
int event_format_json(const struct event *ev, struct buf *out);
