/*
 * Channels over the keeper's link: the connections that something in the box made.
 *
 * All of them share the link; the exchange finds the one that a frame is for. Towards the box no
 * more is sent than it gave credit for, nor while the link's queue is long; from the box no more is
 * held than the window that it was given.
 *
 * A channel that was let go in peace before the box ended its side is remembered until it does;
 * what still comes is dropped and gets no credit, and after some seconds it gets a CANCEL.
 */
#pragma once

#include "net/channel.h"
#include "wire/link.h"

enum { EXCHANGE_SLOTS = 512 };

struct wire_channel;

struct exchange {
	struct ev *ev;
	struct wire_link *link;			    /* borrowed */
	struct wire_channel *slots[EXCHANGE_SLOTS]; /* by id */
	struct ev_timer sweep;
	unsigned ended; /* remembered only */
};

void exchange_init(struct exchange *x, struct ev *ev, struct wire_link *link);
/* All channels must be gone. */
void exchange_done(struct exchange *x);
/* DATA, EOF, CREDIT and CANCEL. False: no channel has that id. */
bool exchange_frame(struct exchange *x, const struct wire_frame *f);
/* The link's queue is empty again. */
void exchange_drained(struct exchange *x);
bool exchange_has(const struct exchange *x, uint32_t id);

/* on_cancel: the box gave it up, or broke the rules. It comes whatever is wanted and whoever owns
 * the channel by then; reads and writes fail from then on. */
int channel_wire_new(struct channel **ret, struct exchange *x, uint32_t id,
		     void (*on_cancel)(void *arg), void *arg);

/* Without a copy, for bytes that are passed on as they are. Peek gives what is there now: its
 * length, 0 at the end, -EAGAIN or why not; took says how much of that is done with. */
ssize_t channel_wire_peek(struct channel *c, const uint8_t **ret);
void channel_wire_took(struct channel *c, size_t n);
/* Where the next bytes to the box go, and how many fit; then how many came. NULL: none now. Nothing
 * else may be sent on the link in between. */
uint8_t *channel_wire_space(struct channel *c, size_t *ret_room);
void channel_wire_put(struct channel *c, size_t n);

/* The box gave it up, which breaks no rule; *ret_has_ended: it had said its end before, and all up
 * to that was taken. */
bool channel_wire_is_given_up(const struct channel *c, bool *ret_has_ended);

/* An ERROR instead of a CANCEL: it ends the channel, which is still to be freed. */
void channel_wire_refuse(struct channel *c, const struct err *e);
