/*
 * File operations that take long or a lot of memory: read, edit, glob and grep. Each runs in a copy
 * of init, as the user and with bounds of its own, so that neither a search nor a hostile pattern
 * can hold init up or make it grow.
 *
 *	init: work_start --fork--> the copy: tool_<what>(w) --> _exit
 *	      out pipe   <-- frames (wire/msg_tool.h), passed on as DATA as credit allows
 *	      report     <-- one struct err: how it went
 *
 * The copy has a soft end, at which a search stops and says that there may be more, and init a hard
 * one a little later, at which it is killed: what a regular expression does cannot be asked to
 * stop. CANCEL kills it too, or where it writes (ends_itself) asks it to end.
 */
#pragma once

#include "init/files.h"

/* In the copy. */
struct work {
	const struct file_op *op;
	const struct wire_file *m;
	struct buf out;		     /* frames not yet written */
	uint64_t end_ms, flushed_ms; /* of the monotonic clock */
	struct wire_summary summary; /* sent at the end */
};

/* In the copy. Is its time over? Also writes what waits for long. */
bool work_is_late(struct work *w);
int work_fail_late(const struct work *w, struct err *e);
/* A part of the answer was encoded into w->out, which gave r: writes it if it is much. */
int work_sent(struct work *w, int r, struct err *e);
int work_send_text(struct work *w, const void *p, size_t n, struct err *e);
/* Opens the operation's path if it is a regular file; a FIFO or device is an error. */
int work_open_file(const struct work *w, int *ret_fd, struct stat *ret_st, struct err *e);
/* Does the beginning of a file (all: all of it) look like something else than text? */
bool work_is_binary(const void *p, size_t n, bool all);
uint64_t work_mtime_ns(const struct stat *st);

/* tool_*.c: what is done in copies. */
int tool_read(struct work *w, struct err *e);
int tool_edit(struct work *w, struct err *e);
int tool_glob(struct work *w, struct err *e);
int tool_grep(struct work *w, struct err *e);
