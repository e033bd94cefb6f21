/*
 * WebSocket frames (RFC 6455), sans-I/O: enough to pass them on checked. A frame's header is read,
 * checked and written again; its payload passes as it is (masked stays masked, with the same key).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_relay {
	bool from_client; /* must be masked; the other way must not be */
	bool extended;	  /* an extension was agreed: reserved bits may be set */
	uint64_t left;	  /* of the payload */
	uint8_t head[14]; /* WS_HEAD_MAX */
	unsigned have, need;
	bool in_message, closed;
};

void ws_relay_init(struct ws_relay *w, bool from_client, bool extended);
/* Eats p, appends to out what may be passed on. *ret_used < n when out is full: call again.
 * Negative: refused (wrong mask, length over 2^62 or not in its shortest form, a control frame that
 * is long or cut, an unknown opcode, a message in a message, anything after a close). */
int ws_relay_feed(struct ws_relay *w, const void *p, size_t n, size_t *ret_used, struct buf *out,
		  struct err *e);

enum ws_op {
	WS_OP_MORE = 0,
	WS_OP_TEXT = 1,
	WS_OP_BINARY = 2,
	WS_OP_CLOSE = 8,
	WS_OP_PING = 9,
	WS_OP_PONG = 10,
};

struct ws_frame {
	uint8_t op; /* an enum ws_op; MORE of a message */
	bool is_last, is_control;
	uint64_t len;
	uint8_t mask[4]; /* of a client's frame */
};

enum { WS_HEAD_MAX = 14, WS_CONTROL_MAX = 125 };

/* The same for a caller that passes payloads on itself: eats p up to the end of a header. 1: it is
 * whole and good, and `left` bytes of payload follow, of which the caller subtracts what it takes;
 * 0: more is needed. */
int ws_relay_head(struct ws_relay *w, const void *p, size_t n, size_t *ret_used,
		  struct ws_frame *ret, struct err *e);
/* A server's header: not masked. Returns how long it is. */
size_t ws_frame_write(const struct ws_frame *f, uint8_t out[WS_HEAD_MAX]);

/* A client's handshake and the answer to it: 0, or -EINVAL with a sentence. */
struct http_head;
int ws_check_request(const struct http_head *h, struct err *e);
int ws_check_response(const struct http_head *request, const struct http_head *response,
		      struct err *e);
/* The first subprotocol that the client offers and that begins with `prefix`, which case matters
 * to: it stands in the head, *ret_len bytes of it. NULL: none. */
const char *ws_offer_find(const struct http_head *request, const char *prefix, size_t *ret_len);
/* Appends the agreement to a request that ws_check_request accepted, with the subprotocol of n
 * bytes, or none (NULL). Extensions are declined. -EINVAL if it was not offered; else as
 * http_response_write. */
int ws_accept_write(const struct http_head *request, const char *protocol, size_t n,
		    struct buf *out);
