/*
 * Strict HTTP/1.1, sans-I/O: bytes in, heads and body parts out. Shared by the door and, later, the
 * server.
 *
 * Strict means that whatever two programs could read in two ways is refused: a bare LF or CR,
 * folded lines, space before a colon, control bytes or NUL anywhere, an unknown transfer coding,
 * both Content-Length and Transfer-Encoding, two lengths (also equal ones), a length that is not
 * plain digits, no Host or two, a chunk size that is not plain hex or over 2^62, anything but
 * nothing after a chunk's size (extensions are dropped), trailers that would change framing. A head
 * that was accepted is written again from its parts: no byte of the original is passed on.
 *
 * How the bytes were cut never changes the verdict.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_field {
	const char *name;  /* as it was sent; compare with http_name_is */
	const char *value; /* without the space around it; no control bytes but tab */
};

/* The head of a request or a response. All strings live in `text`. */
struct http_head {
	/* request */
	const char *method; /* a token, at most 32 bytes; case matters */
	const char *target; /* origin, absolute, authority or asterisk form; visible ASCII only */
	/* response */
	unsigned status; /* 100..599; 0: this is a request */
	const char *reason;
	unsigned minor;		   /* HTTP/1.minor: 0 or 1 */
	struct http_field *fields; /* owned */
	size_t field_count;
	char *text; /* owned */
};

/* 1: a whole head stood in the first *ret_used bytes; 0: more bytes are needed; negative: refused,
 * *e says why and e->code is the HTTP status to answer with (400, 414, 431, 501, 505). At most
 * DOOR_HEAD_MAX bytes and DOOR_HEADERS_MAX fields. One empty line before a request is allowed. */
int http_request_parse(struct http_head *ret, const void *p, size_t n, size_t *ret_used,
		       struct err *e);
int http_response_parse(struct http_head *ret, const void *p, size_t n, size_t *ret_used,
			struct err *e);
void http_head_done(struct http_head *h); /* wipes: a head may hold a credential */

bool http_name_is(const char *name, const char *other); /* ASCII case does not matter */
/* The first value, or NULL; and whether a comma list (of all fields of that name) has a token. */
const char *http_head_find(const struct http_head *h, const char *name);
bool http_head_has_token(const struct http_head *h, const char *name, const char *token);
/* Removes all fields of that name; appends one. Name and value are copied and checked: -EINVAL for
 * what may not stand in a head. */
void http_head_remove(struct http_head *h, const char *name);
int http_head_add(struct http_head *h, const char *name, const char *value);
/* Removes what concerns one hop only: Connection and what it names, Keep-Alive, Proxy-*, TE,
 * Trailer, Transfer-Encoding, Upgrade. */
void http_head_strip_hop(struct http_head *h);
/* Appends the head and its empty line, HTTP/1.1 always. */
int http_head_write(const struct http_head *h, struct buf *out);

/* Where a request goes: origin form with Host, or absolute form, which must agree with Host. */
struct http_target {
	char scheme[6];	  /* "http", "https", or "" for origin form */
	char host[256];	  /* lower case, without a port, an IPv6 address without brackets */
	unsigned port;	  /* 0: none was given */
	const char *path; /* of the head: from '/' to before '?', or "*" */
	size_t path_len;
	const char *query; /* after '?', or NULL */
};

/* -EINVAL (e->code 400) for user information, a fragment, a bad port, two hosts that differ. For
 * CONNECT host and port are those of the target. */
int http_target_parse(const struct http_head *h, struct http_target *ret, struct err *e);

/* The one normal form of a path, for rules: percent escapes of unreserved characters decoded, hex
 * in upper case, dot segments and doubled slashes resolved. -EINVAL for what could be read in two
 * ways: an escaped slash, backslash, NUL or control byte, a bad escape, a backslash, ".." above the
 * root, a segment with ';' that would be a dot segment without it. */
int http_path_normalise(const char *path, size_t n, struct buf *out);

/* How a body is framed. */
enum http_framing { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED, HTTP_UNTIL_CLOSE, HTTP_SWITCHED };

struct http_body {
	enum http_framing framing;
	uint64_t left; /* of the length, or of this chunk */
	int state;
	bool ended;
	struct buf line; /* a chunk's size or a trailer, cut off */
	struct http_head trailers;
};

/* request: from its head. response: also from the method that it answers (HEAD has none, CONNECT
 * with 2xx and 101 are switched). */
int http_body_init_request(struct http_body *b, const struct http_head *h, struct err *e);
int http_body_init_response(struct http_body *b, const struct http_head *h, const char *method,
			    struct err *e);
void http_body_done(struct http_body *b);

/* Eats bytes: *ret_used of them, of which *ret_data (may be NULL) and *ret_len are content,
 * borrowed from p. Returns 1 when the body has ended (b->ended; trailers are then there), 0 to be
 * called again, negative when it is refused. */
int http_body_feed(struct http_body *b, const void *p, size_t n, size_t *ret_used,
		   const uint8_t **ret_data, size_t *ret_len, struct err *e);
/* The connection ended: fine for HTTP_UNTIL_CLOSE, -EBADMSG in the middle of anything else. */
int http_body_close(struct http_body *b, struct err *e);

/* Content on its way out, framed anew: as one chunk, or as it is. http_body_write_end appends the
 * last chunk and trailers (may be NULL). */
int http_body_write(enum http_framing framing, struct buf *out, const void *p, size_t n);
int http_body_write_end(enum http_framing framing, const struct http_head *trailers,
			struct buf *out);
