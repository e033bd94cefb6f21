/*
 * A client's connection to a keeper: frames over one blocking socket, one request at a time.
 *
 * Sending appends to `out` (wire_encode, wire_*_encode) and conn_flush writes it all. Reading
 * filters: frames of earlier requests, which may still trickle in after a command ended, are
 * dropped. The keeper never stops reading, so a blocking write cannot deadlock with its writes to
 * us.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

struct conn {
	int fd;	      /* owned */
	int claim_fd; /* owned; a starting box's claim, let go when HELLO came. -1: none */
	struct wire_decoder decoder;
	struct buf out;
	uint32_t last_id;
	bool ready;  /* HELLO came */
	bool broken; /* no further request can be made on it */
	bool first;  /* the socket a keeper was born with: its end is the end of a one-shot box */
};

/* Takes fd. */
int conn_new(int fd, struct conn **ret, struct err *e);
void conn_free(struct conn *c); /* NULL is fine */

/* Connects to the keeper of a box. -ENOENT or -ECONNREFUSED where there is none. HELLO is not yet
 * waited for. */
int conn_connect(int run_fd, const char *box, struct conn **ret, struct err *e);

/* Waits for HELLO, or for the sentence that says why the box did not start. timeout_ms -1: for
 * ever. */
int conn_hello(struct conn *c, int timeout_ms, struct err *e);

/* True if the other side is gone. */
bool conn_is_dead(const struct conn *c);

/* An id for the next request. */
uint32_t conn_id(struct conn *c);

/* Writes all that is queued. */
int conn_flush(struct conn *c, struct err *e);

/* 1 and the next frame of that request, 0 when timeout_ms passed (-1: never). An ERROR frame of the
 * request, or one for the connection, becomes the return value and *e. */
int conn_next(struct conn *c, uint32_t id, int timeout_ms, struct wire_frame *ret, struct err *e);

/* Waits for OK and nothing else. */
int conn_wait_ok(struct conn *c, uint32_t id, int timeout_ms, struct err *e);

/* The caller gives a request up: says so with the next bytes sent. */
void conn_cancel(struct conn *c, uint32_t id);

/* Sets *e for a frame that should not have come. */
int conn_unexpected(struct conn *c, const struct wire_frame *f, struct err *e);
