/* What a client's connection gets of the API, in the loop. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct api_call;
struct buf;
struct err;

struct api_sink {
	/* The whole answer is in c->status, c->type and c->out. The call is over. */
	void (*on_reply)(struct api_sink *s, struct api_call *c);
	/* An answer of unknown length begins: c->status, c->type; c->length if it is known. Bytes
	 * come by on_bytes; false from it: come back when api_call_has_room was called. on_end:
	 * cut says that it broke off in the middle. The call is over then. */
	void (*on_begin)(struct api_sink *s, struct api_call *c);
	bool (*on_bytes)(struct api_sink *s, struct api_call *c, const void *p, size_t n);
	void (*on_end)(struct api_sink *s, struct api_call *c, bool cut);
	/* The request's body has room again. */
	void (*on_body_room)(struct api_sink *s, struct api_call *c);
	/* The caller's key was revoked: the connection is to end, and the call with it. */
	void (*on_cut)(struct api_sink *s, struct api_call *c);
	/* It becomes a WebSocket; then whole messages. on_socket_end closes it. */
	int (*on_socket)(struct api_sink *s, struct api_call *c, struct err *e);
	bool (*on_message)(struct api_sink *s, struct api_call *c, bool is_text, const void *p,
			   size_t n);
	void (*on_socket_end)(struct api_sink *s, struct api_call *c, unsigned code,
			      const char *reason);
};

/* The one shape of an error, of what is no call: a head or a body that is not HTTP. Negative: no
 * memory. */
int api_refusal(struct buf *out, unsigned status, const char *message, const char *id);
