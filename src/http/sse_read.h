/*
 * Server-sent events as a client reads them (the text/event-stream of HTML), sans-I/O: bytes in,
 * events out. Lines end with LF, CR or both; unknown fields and comments are passed over, and so is
 * an event without data. How the bytes were cut never changes the events.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "http/sse.h"

enum { SSE_WORD_MAX = 64 };

struct sse_reader {
	struct buf line, data;
	char name[SSE_WORD_MAX], id[SSE_WORD_MAX]; /* id: the last that was given */
	bool after_cr, has_data, is_reported;
};

/* event_max: of the data of one event, and of a line. */
void sse_reader_init(struct sse_reader *s, size_t event_max);
void sse_reader_done(struct sse_reader *s);

/* Eats *ret_used bytes of p. 1: *ret is an event, valid until the next call; call again with the
 * rest. 0: all was eaten. -EBADMSG: a line, an event, a name or an id is too long, or a name or an
 * id has a NUL; -ENOMEM. */
int sse_reader_feed(struct sse_reader *s, const void *p, size_t n, size_t *ret_used,
		    struct sse_event *ret, struct err *e);
