/*
 * A link: frames over a pair of descriptors in an event loop. One socket or two pipes, it does not
 * matter. Used by init for its keeper, and by the keeper for init and for each client.
 *
 * Sending appends to a bounded queue which is written at the end of the turn. Frames are handed to
 * on_frame one by one; on_close comes once, with 0 at a clean end of file or the negative errno
 * that ended it, and nothing is called after it. on_drained comes whenever the queue has become
 * empty.
 * A callback may call link_done, and free the link's owner. Large buffers are given back when they
 * were not used for LINK_IDLE_MS.
 */
#pragma once

#include "ev/ev.h"
#include "wire/frame.h"

struct wire_link {
	void (*on_frame)(struct wire_link *l, const struct wire_frame *f);
	void (*on_close)(struct wire_link *l, int error);
	void (*on_drained)(struct wire_link *l); /* may be NULL */

	struct ev *ev;
	int rfd, wfd; /* owned; the same number for a socket */
	struct ev_io rio, wio;
	struct ev_defer flush;
	struct ev_timer idle; /* armed while a buffer is large */
	struct wire_decoder decoder;
	struct buf out; /* append with wire_encode or wire_*_encode, then link_flush */
	bool paused, closed;
	bool held;  /* the frame handed out last is still in use: see wire_link_hold */
	bool busy;  /* a large buffer was used since idle was armed */
	bool *gone; /* set by link_done while a callback runs */

	/* wire_link_pass: frames in another's decoder that are to be written, and whose they are.
	 */
	const uint8_t *lent;
	size_t lent_len;
	struct wire_link *lender, *borrower;
	int lost; /* negative: a frame that was cut has no place to wait; the next flush says so */
};

/* Takes both descriptors (equal for a socket) and makes them non-blocking. Set the callbacks
 * first. */
int wire_link_init(struct wire_link *l, struct ev *ev, int rfd, int wfd);
void wire_link_done(struct wire_link *l);

/* Writes what is queued before the loop sleeps again. */
void wire_link_flush(struct wire_link *l);

/* Writes what can be written at this moment; the rest, and any failure, are for the flush that
 * comes. For what must be said before something else is done. */
void wire_link_push(struct wire_link *l);

/* wire_encode into the queue and flush. */
int wire_link_send(struct wire_link *l, enum wire_type type, uint8_t stream, uint32_t id,
		   const void *p, size_t n);

/* From within from's on_frame: passes that frame on as it is. Where nothing is queued it is not
 * copied: it is written, with those that follow it, when from has handed out its last. It may so
 * come behind what is queued meanwhile; wire_link_write_lent writes it before something that must
 * not come first. */
int wire_link_pass(struct wire_link *l, struct wire_link *from, const struct wire_frame *f);
void wire_link_write_lent(struct wire_link *l);

/* Stops or resumes reading, for back-pressure. */
void wire_link_pause(struct wire_link *l, bool on);

/* From within on_frame: the frame stays valid and no other is handed out until it is let go. For an
 * owner that does not run its loop meanwhile: the descriptor stays watched. */
void wire_link_hold(struct wire_link *l, bool on);

/* Bytes queued and not yet written. */
size_t wire_link_queued(const struct wire_link *l);

/* Credit of one stream. The sender starts with a window, spends it and gets more; the receiver
 * gives back what it took in halves of the window, so that frames stay few. */
struct wire_flow {
	uint64_t window;
	uint64_t left;	  /* sender: bytes it may still send */
	uint64_t pending; /* receiver: bytes taken and not yet given back */
};

void wire_flow_init(struct wire_flow *f);     /* WIRE_WINDOW */
void wire_flow_init_net(struct wire_flow *f); /* WIRE_NET_WINDOW: connections */
/* Receiver: n bytes were consumed. Returns how many to put in a CREDIT frame now, or 0. */
uint64_t wire_flow_took(struct wire_flow *f, uint64_t n);
/* Sender: a CREDIT came. -EBADMSG if it would pass any sane window. */
int wire_flow_credit(struct wire_flow *f, uint64_t n);
