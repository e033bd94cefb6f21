/*
 * Blocking calls: one request at a time over a connection with a loop of its own (async.h).
 *
 * The loop runs only while somebody waits in one of these functions. A frame is handed out where it
 * lies: the link is held until the caller comes for the next one, so nothing is copied and what is
 * not taken slows its sender through the socket.
 */
#pragma once

#include "core/async.h"

struct core_call {
	struct core_request q;
	struct core_conn *conn; /* borrowed */
	struct wire_frame frame;
	bool has_frame; /* the caller holds it */
	bool done;
	int result; /* when done */
	struct err why;
};

/* Gives the call an id: q.id. Encode its first frame into core_out, then core_call_flush. */
void core_call_begin(struct core_call *c, struct core_conn *conn);

/* The call is over, or (not over) the caller gives it up: then it is cancelled, at the latest
 * with the next flush. Idempotent. */
void core_call_end(struct core_call *c, bool over);

/* 1 and the next frame, valid until the next call; 0 when timeout_ms passed (-1: never). ERROR, and
 * the end of the connection, become the return value and *e. */
int core_call_next(struct core_call *c, int timeout_ms, struct wire_frame *ret, struct err *e);

/* Waits for OK and nothing else. */
int core_call_wait_ok(struct core_call *c, int timeout_ms, struct err *e);

/* After its first frame was encoded, which gave r: sends it. */
int core_call_send(struct core_call *c, int r, struct err *e);
/* And waits for OK, and ends the call. */
int core_call_finish(struct core_call *c, int r, int timeout_ms, struct err *e);

/* Writes all that is queued. A keeper that is gone is no error here: what it said before it went
 * may still be there to read. */
int core_conn_flush(struct core_conn *c, struct err *e);

/* Waits for HELLO, or for the sentence that says why the box did not start. timeout_ms -1: for
 * ever. */
int core_conn_wait_ready(struct core_conn *c, int timeout_ms, struct err *e);

/* Sends nothing more, and waits until the keeper has closed its side. */
void core_conn_wait_end(struct core_conn *c, int timeout_ms);
