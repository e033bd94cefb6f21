/*
 * One end of a WebSocket (RFC 6455), sans-I/O: the other end's bytes in, its messages out; and the
 * frames that this one writes. A server's unless it is made as a client's; what is said here of
 * the client is the other end then.
 *
 * Messages come whole, up to a maximum that the owner names, or in pieces as they arrive. What is
 * text is valid UTF-8. A ping is answered here, and so is the client's close, once. Whatever breaks
 * the protocol is answered with a close that says why (1002, 1007, 1009), and that is the end.
 *
 * How the bytes were cut never changes the messages, only where pieces end.
 */
#pragma once

#include "http/ws.h"

enum ws_event_kind {
	WS_TEXT,
	WS_BINARY,
	WS_PONG,   /* to a ping of ours, or unasked */
	WS_CLOSED, /* the client closes, or agrees to close: nothing more will come */
};

struct ws_event {
	enum ws_event_kind kind;
	const uint8_t *data; /* content, or the reason of a close; until the next call */
	size_t len;
	bool is_last;  /* the message ends with it */
	unsigned code; /* of a close; WS_CODE_NONE where the client gave none */
};

enum ws_code {
	WS_CODE_NORMAL = 1000,
	WS_CODE_GOING_AWAY = 1001,
	WS_CODE_PROTOCOL = 1002,
	WS_CODE_UNSUPPORTED = 1003,
	WS_CODE_NONE = 1005, /* never written */
	WS_CODE_NOT_UTF8 = 1007,
	WS_CODE_POLICY = 1008,
	WS_CODE_TOO_BIG = 1009,
	WS_CODE_INTERNAL = 1011,
};

struct ws_end {
	struct ws_relay relay;
	struct ws_frame frame; /* under way */
	uint64_t at;	       /* bytes of its payload that were taken */
	size_t message_max;    /* 0: pieces */
	struct buf message;    /* unmasked, what was not reported yet */
	uint8_t control[WS_CONTROL_MAX];
	uint8_t op;			 /* of the message under way: text or binary */
	uint8_t need, least, most;	 /* of a UTF-8 sequence under way */
	bool in_frame;			 /* its header was read */
	bool is_reported;		 /* what message holds was */
	bool is_waiting;		 /* its end waits for room in out */
	bool close_sent, closed, failed; /* closed: by the client */
	bool is_client;
};

/* message_max 0: messages of any length come in pieces of at most WS_PIECE_MAX bytes. */
void ws_end_init(struct ws_end *w, size_t message_max);
/* A client's end: it masks what it writes, and refuses what is masked. */
void ws_end_init_client(struct ws_end *w, size_t message_max);
void ws_end_done(struct ws_end *w);

/* Eats *ret_used bytes of p. 1: *ret is there, call again with the rest; 0: all was eaten, or an
 * answer waits for room in out (w->is_waiting): call again when there is some, be it with n = 0.
 * Negative: refused (-EBADMSG; -ENOMEM), *e says why and e->code is the code of the close, which
 * was appended if there was room. After a close all that comes is dropped, and after a refusal
 * refused. Once we closed, messages are read and dropped until the client closes too. */
int ws_end_feed(struct ws_end *w, const void *p, size_t n, size_t *ret_used, struct ws_event *ret,
		struct buf *out, struct err *e);

/* Append a whole message or a ping. All or nothing: -ENOBUFS or -ENOMEM; -EINVAL for a text that is
 * not UTF-8 or a ping of more than WS_CONTROL_MAX bytes; -EPIPE once a close was sent. */
int ws_end_send(struct ws_end *w, enum ws_event_kind kind, const void *p, size_t n,
		struct buf *out);
int ws_end_ping(struct ws_end *w, const void *p, size_t n, struct buf *out);
/* Begins to close; the rest is WS_CLOSED, for which the owner waits only so long. The reason is cut
 * to what fits. -EINVAL for a code that may not be written, or a reason that is not UTF-8. */
int ws_end_close(struct ws_end *w, unsigned code, const char *reason, struct buf *out);
