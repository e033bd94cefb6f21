/*
 * The input stream of a command: DATA frames from the keeper on their way into a pipe or a
 * terminal. What the process has not yet taken waits in a buffer of one window; credit goes back
 * as it takes. A process that does not read, or closed its input, is no error: what comes for it
 * is dropped and credited, so the asker can go on.
 */
#pragma once

#include "base/buf.h"
#include "ev/ev.h"
#include "init/init.h"

#include <stdbool.h>
#include <stdint.h>

struct in_stream {
	struct ev *ev;
	struct wire_link *link;
	struct ev_io io; /* io.fd is owned; -1 once nothing more goes in */
	struct wire_flow flow;
	struct buf waiting;
	uint32_t id;
	bool held;    /* no descriptor yet: everything waits */
	bool tty;     /* an end is a typed end-of-file character, and the terminal stays */
	bool ending;  /* the asker sent its end; it follows what is waiting */
	uint8_t last; /* last byte written */
};

/* Takes fd; -1 for a command without input: everything is dropped. link is that of a struct
 * init. */
int in_stream_start(struct in_stream *s, struct wire_link *link, int fd, uint32_t id, bool tty);
/* With `held` set after a start with -1: what comes waits, a window of it, until this takes the
 * descriptor it goes to; -1: there is none after all. */
int in_stream_adopt(struct in_stream *s, int fd);
void in_stream_done(struct in_stream *s);

void in_stream_data(struct in_stream *s, const uint8_t *p, size_t n);
void in_stream_eof(struct in_stream *s);
