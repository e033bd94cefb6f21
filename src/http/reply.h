/*
 * The head of an answer, as a server writes it: one way to write all of them. The caller says the
 * status, its own fields and how long the body is; how the body is framed and whether the
 * connection stays is decided here, for the version that the client speaks.
 */
#pragma once

#include "http/http.h"

struct http_response {
	unsigned status;    /* 101, or 200 to 599 */
	const char *reason; /* NULL: the usual one */
	enum http_framing
		framing; /* NO_BODY, LENGTH, CHUNKED; with 101, and only there, SWITCHED */
	uint64_t length; /* of HTTP_LENGTH */
	bool close;	 /* nothing follows on this connection */
	const struct http_field *fields;
	size_t field_count;
};

/* How it was written. */
struct http_sent {
	enum http_framing framing; /* for http_body_write and http_body_write_end */
	bool close;		   /* when it is out, the connection is to be closed */
};

/* Appends the head of an answer to that request; NULL: it could not be read, so the connection
 * ends. A body has no framing for 204 and 304 and is not sent to HEAD: *ret says NO_BODY then, with
 * which http_body_write refuses content. One of unknown length goes to a client of HTTP/1.0 until
 * the connection closes. All or, with a negative errno, nothing: -EINVAL for a status, framing or
 * reason that cannot be, 2xx to a CONNECT, 101 to HTTP/1.0, a bad field, or one that is decided
 * here (Connection, Content-Length, Keep-Alive, Transfer-Encoding). */
int http_response_write(struct buf *out, const struct http_head *request,
			const struct http_response *r, struct http_sent *ret);

/* "Not Found"; "" where there is none. */
const char *http_reason(unsigned status);
