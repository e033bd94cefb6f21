/*
 * Server-sent events (the text/event-stream of HTML), sans-I/O: what a server writes. Each call
 * appends one block with its empty line, all of it or, with a negative errno, nothing: -EINVAL for
 * text that is not UTF-8 or a name that could not stand in its line, else a buffer's error.
 */
#pragma once

#include "base/buf.h"

struct sse_event {
	const char *name; /* NULL: none, which clients call "message" */
	const char *id;	  /* NULL: none; "" makes clients forget the last one */
	const char *data; /* len bytes, of which CR, LF or both end a line and arrive as LF */
	size_t len;
};

int sse_event_write(struct buf *out, const struct sse_event *event);
/* What clients pass over: it keeps a connection from looking dead. The text may have lines. */
int sse_comment_write(struct buf *out, const char *text);
/* How long clients are to wait before they connect again. */
int sse_retry_write(struct buf *out, unsigned retry_ms);
