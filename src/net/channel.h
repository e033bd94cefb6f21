/*
 * A channel: one end of a byte stream that never blocks, whatever carries it. The box's connection
 * (frames on the wire, with credit), a socket to an upstream, or TLS over either. What is above it
 * reads and writes and does not care.
 *
 *	struct channel *box = channel_wire_new(...), *up = channel_tcp_connect(...);
 *	box = channel_tls_accept(box, ...);
 *
 * Interest is level-triggered: as long as a wanted thing is true, on_ready comes once per turn of
 * the loop. A callback may free the channel. Nothing is called after channel_free.
 */
#pragma once

#include "base/err.h"
#include "ev/ev.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	CHANNEL_IN = 1 << 0,  /* a read gives bytes, the end, or the error */
	CHANNEL_OUT = 1 << 1, /* a write takes bytes; also: connected, or the error */
	CHANNEL_END = 1 << 2, /* of the box's own: its end came, whatever is still to be read */
};

struct channel;

struct channel_ops {
	ssize_t (*read)(struct channel *c, void *p, size_t n);
	ssize_t (*write)(struct channel *c, const void *p, size_t n);
	int (*finish)(struct channel *c);
	void (*want)(struct channel *c, unsigned what);
	void (*free)(struct channel *c, bool abort);
	/* Both or neither: a write without a copy. */
	uint8_t *(*space)(struct channel *c, size_t *ret_room);
	void (*put)(struct channel *c, size_t n);
};

struct channel {
	const struct channel_ops *ops;
	void (*on_ready)(struct channel *c, unsigned what);
	void *owner; /* for on_ready; borrowed */
	unsigned wanted;
	struct err error; /* why a read or write failed, where there is more to say than an errno */
};

/* Bytes read, 0 at the clean end, -EAGAIN, or the negative errno that ended it (for TLS: an end
 * without close_notify is -ECONNRESET). */
ssize_t channel_read(struct channel *c, void *p, size_t n);
/* Bytes taken (may be fewer), -EAGAIN, or negative. */
ssize_t channel_write(struct channel *c, const void *p, size_t n);
/* Where the next bytes go, and how many fit; then how many came. NULL: write them instead, which
 * knows why. Nothing else may be done with any channel in between. */
uint8_t *channel_space(struct channel *c, size_t *ret_room);
void channel_put(struct channel *c, size_t n);
/* No more writes: FIN, close_notify, EOF. 0, -EAGAIN (call again when CHANNEL_OUT) or negative. */
int channel_finish(struct channel *c);
/* What on_ready is to come for; 0 for nothing. */
void channel_want(struct channel *c, unsigned what);
/* Ends it. With abort the other side sees that it was cut (RST, CANCEL); otherwise what was
 * accepted still goes out as far as its carrier allows without waiting. NULL is fine. Frees what it
 * stands on. */
void channel_free(struct channel *c, bool abort);
