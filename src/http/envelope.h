/*
 * Envelopes of the Connect protocol, sans-I/O: how the messages of a stream follow each other in a
 * body. One is a byte of flags, its length in four bytes (the highest first), and the message.
 *
 * Compressed ones are refused: a server that never says it knows a compression is sent none.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

enum { ENVELOPE_HEAD = 5, ENVELOPE_COMPRESSED = 0x01, ENVELOPE_END = 0x02 };

struct envelope {
	const uint8_t *data; /* until the next call */
	size_t len;
	bool is_end; /* the last of the stream, as a server sends it: how the call ended */
};

struct envelope_reader {
	size_t message_max;
	uint8_t head[ENVELOPE_HEAD];
	unsigned have;	    /* of it */
	size_t left;	    /* of the message */
	struct buf message; /* so far */
	bool is_reported, ended;
};

void envelope_reader_init(struct envelope_reader *r, size_t message_max);
void envelope_reader_done(struct envelope_reader *r);

/* Eats *ret_used bytes. 1: a message is there, call again with the rest; 0: more is needed;
 * negative: refused, and that is the end. The kind is ERR_UNSUPPORTED for a compressed message,
 * ERR_LIMIT for one that is too long (both as soon as its head says so), ERR_PROTOCOL for unknown
 * flags or anything behind the last message. */
int envelope_feed(struct envelope_reader *r, const void *p, size_t n, size_t *ret_used,
		  struct envelope *ret, struct err *e);
/* The body has ended: -EBADMSG in the middle of a message. */
int envelope_close(const struct envelope_reader *r, struct err *e);

/* Appends a message. All or nothing: -ENOBUFS, -ENOMEM; -EMSGSIZE beyond what a length can say. */
int envelope_write(struct buf *out, bool is_end, const void *p, size_t n);
