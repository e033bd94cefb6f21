/*
 * Strict HTTP/1.1, sans-I/O: bytes in, heads and body parts out. Shared by the door and, later, the
 * server.
 *
 * Strict means that whatever two programs could read in two ways is refused: a bare LF or CR,
 * folded lines, space before a colon, control bytes or NUL anywhere, a byte beyond ASCII in a name,
 * an unknown transfer coding or one in HTTP/1.0, both Content-Length and Transfer-Encoding, two
 * lengths (also equal ones), a length that is not plain digits, a name that a gateway would turn
 * into one of these (Content_Length), no Host or two, an Expect that is not 100-continue of a body
 * to come, a length where there is no body (CONNECT, 1xx, 204), a chunk size that is not plain hex
 * or over 2^62, anything after it but an extension (which is dropped), trailers that would change
 * framing, routing or identity. TRACE and TRACK are refused: they echo a request, with what was
 * added to it. A head that was accepted is written again from its parts: no byte of the original is
 * passed on.
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

/* The head of a request or a response, or trailers. All strings live in `text`, but those of a head
 * that was made by hand (zeroed, then set) may live anywhere as long as the head. */
struct http_head {
	/* request */
	const char *method; /* a token, at most HTTP_METHOD_MAX bytes; case matters */
	const char *target; /* origin, absolute, authority or asterisk form; visible ASCII only */
	/* response */
	unsigned status; /* 100..599; 0: this is a request */
	const char *reason;
	unsigned minor;		   /* HTTP/1.minor: 0 or 1 */
	struct http_field *fields; /* owned */
	size_t field_count, field_room;
	char *text; /* owned */
	size_t text_len, text_room;
	bool is_secret; /* its text is in locked memory; it is wiped in either case */
};

enum { HTTP_METHOD_MAX = 32 };

/* What a reader takes of a head, and of the trailers of a body. */
struct http_limits {
	size_t head_max; /* bytes, first line and empty line included; at least HTTP_HEAD_LEAST */
	unsigned fields_max;
};

enum { HTTP_HEAD_LEAST = 16 };

/* 1: a whole head stood in the first *ret_used bytes; 0: more bytes are needed, call again with all
 * of them; negative: refused (-EBADMSG, or -ENOMEM), *e says why and e->code is the HTTP status to
 * answer with (400, 414, 417, 431, 501, 505; 500 without memory). One empty line before a request
 * is allowed. HTTP/1.0 may leave Host out of a CONNECT. */
int http_request_parse(struct http_head *ret, const void *p, size_t n,
		       const struct http_limits *limits, size_t *ret_used, struct err *e);
/* is_secret: into locked memory. */
int http_response_parse(struct http_head *ret, const void *p, size_t n,
			const struct http_limits *limits, bool is_secret, size_t *ret_used,
			struct err *e);
/* From now on its text is in locked memory. -ENOMEM. */
int http_head_set_secret(struct http_head *h);
void http_head_done(struct http_head *h); /* wipes: a head may hold a credential */

bool http_name_is(const char *name, const char *other); /* ASCII case does not matter */
/* The first value, or NULL; how often a field is there; and whether a comma list (of all fields of
 * that name) has a token. */
const char *http_head_find(const struct http_head *h, const char *name);
size_t http_head_count(const struct http_head *h, const char *name);
bool http_head_has_token(const struct http_head *h, const char *name, const char *token);
/* May another message follow on the connection, by what this head says of it? In HTTP/1.1 unless it
 * says "close", in 1.0 only where it says "keep-alive" and not "close". */
bool http_keep_alive(const struct http_head *h);
/* Does the client of this request wait for 100 (Continue) before it sends the body? Not once some
 * of the body has come, which the head cannot say. http_continue_write appends that answer. */
bool http_expects_continue(const struct http_head *h);
int http_continue_write(struct buf *out);
/* Removes all fields of that name, also where it is spelled with '_' for '-', since gateways make
 * no difference; appends one. Name and value are copied and checked: -EINVAL for what may not stand
 * in a head, space at either end of the value included. */
void http_head_remove(struct http_head *h, const char *name);
int http_head_add(struct http_head *h, const char *name, const char *value);
/* Another target, copied. -EINVAL if it is empty or has a byte that is not visible ASCII. */
int http_head_set_target(struct http_head *h, const char *target);
/* Removes what concerns one hop only: Connection and what it names (but never Host or
 * Content-Length), Keep-Alive, Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade, HTTP2-Settings,
 * Max-Forwards; and Proxy, which CGI would take for a setting. A writer of chunks adds its own
 * Transfer-Encoding. */
void http_head_strip_hop(struct http_head *h);
/* Removes what some servers obey in place of the method, path or host that was judged:
 * X-HTTP-Method-Override, X-Original-URL, X-Forwarded-Host and their like. */
void http_head_strip_overrides(struct http_head *h);
/* Appends the head and its empty line, HTTP/1.1 always. All or, with a negative errno, nothing. */
int http_head_write(const struct http_head *h, struct buf *out);

/* Where a request goes: origin form with Host, or absolute form, which must agree with Host. */
struct http_target {
	char scheme[6];	  /* "http", "https", or "" for origin form */
	char host[256];	  /* lower case, without a port or a last dot; IPv6 without brackets */
	unsigned port;	  /* 0: none was given */
	const char *path; /* of the head: from '/' to before '?', or "*"; "" for CONNECT */
	size_t path_len;
	const char *query; /* after '?', or NULL */
};

/* -EINVAL (e->code 400) for a form that does not suit the method, another scheme, user information,
 * a fragment, a bad port, a host that is no plain name or address, two hosts that differ. For
 * CONNECT host and port are those of the target, and the port must be there. */
int http_target_parse(const struct http_head *h, struct http_target *ret, struct err *e);

/* The one normal form of a path, for rules: percent escapes of what may stand in a path as it is
 * decoded, all else escaped, hex in upper case, dot segments and doubled slashes resolved. The case
 * of letters stays. -EINVAL for what could be read in two ways: an escaped slash, backslash, NUL or
 * control byte, an escape of such an escape, a bad escape, escapes that are not UTF-8, a raw
 * backslash, ';' in any form (some servers cut a segment there), a segment that ends in a dot or a
 * space (others drop those), ".." above the root or after a doubled slash. So it is for hosts whose
 * rules have paths; others need not pay with "%2f". out is as it was if it fails. */
int http_path_normalise(const char *path, size_t n, struct buf *out);
/* Does the path differ from its normal form in nothing but escapes of "!$&'()*+,=:@"? Those mean
 * the same to whoever decodes a path, but an address is signed as they were written. */
bool http_path_spells(const char *path, size_t n, const char *normal);

/* Appends the query (without '?') without all parameters of that name; names are compared after
 * percent-decoding ('+' is a space), ';' separates like '&'. Returns how many were removed. */
int http_query_remove(const char *query, const char *name, struct buf *out);
/* Appends "&" where out is not empty, then name=value, percent-encoded. */
int http_query_add(struct buf *out, const char *name, const char *value);

/* For a server's own routes. The next parameter of a query (without '?'; NULL: none), its name and
 * value decoded into buffers that are emptied first: 1, and *query is behind it; 0 at the end;
 * negative: -EINVAL for a bad escape or a NUL in any form, or a buffer's error. '+' is a space,
 * only '&' separates, empty parameters are passed over; one without '=' has an empty value. */
int http_query_next(const char **query, struct buf *name, struct buf *value);
/* Appends the value of the parameter of that name: 1; 0: there is none. -EINVAL if there are two,
 * or if any parameter is spelled wrongly; out is as it was if it fails. */
int http_query_find(const char *query, const char *name, struct buf *out);
/* Appends a segment of a path, which has no '/' itself, decoded; "%2F" is a slash of the value and
 * '+' stays. -EINVAL for a bad escape, a NUL in any form, or a segment that comes to "." or "..",
 * which others resolve. The bytes need not be UTF-8. All or nothing. */
int http_segment_decode(const char *p, size_t n, struct buf *out);

/* How a body is framed. */
enum http_framing { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED, HTTP_UNTIL_CLOSE, HTTP_SWITCHED };

struct http_body {
	enum http_framing framing;
	uint64_t left; /* of the length, or of this chunk */
	int state;
	bool ended;
	unsigned count; /* of digits, or bytes of an extension, or trailers */
	unsigned trailers_max;
	struct buf line; /* the trailers so far */
	struct http_head trailers;
};

/* request: from its head. response: also from the method that it answers (HEAD has none, CONNECT
 * with 2xx and 101 are switched). Before the head loses what concerns the hop. The limits are for
 * its trailers. */
int http_body_init_request(struct http_body *b, const struct http_head *h,
			   const struct http_limits *limits, struct err *e);
int http_body_init_response(struct http_body *b, const struct http_head *h, const char *method,
			    const struct http_limits *limits, struct err *e);
/* Trailers may echo a credential: they are kept in locked memory. */
void http_body_set_secret(struct http_body *b);
void http_body_done(struct http_body *b);

/* Eats bytes: *ret_used of them, of which *ret_data (may be NULL) and *ret_len are content,
 * borrowed from p. Returns 1 when the body has ended (b->ended; trailers are then there), 0 to be
 * called again with what is left or with more, negative when it is refused. */
int http_body_feed(struct http_body *b, const void *p, size_t n, size_t *ret_used,
		   const uint8_t **ret_data, size_t *ret_len, struct err *e);
/* The connection ended: fine for HTTP_UNTIL_CLOSE, -EBADMSG in the middle of anything else. */
int http_body_close(struct http_body *b, struct err *e);

/* Content on its way out, framed anew: as one chunk, or as it is; n may be 0. http_body_write_end
 * appends the last chunk and trailers (may be NULL). All or nothing. */
int http_body_write(enum http_framing framing, struct buf *out, const void *p, size_t n);
int http_body_write_end(enum http_framing framing, const struct http_head *trailers,
			struct buf *out);
