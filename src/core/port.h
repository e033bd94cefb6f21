/*
 * A connection to a port in a box, on the loop of its owner: bytes both ways over the connection to
 * the box's keeper, each way with credit of its own. In the box init connects to 127.0.0.1 or ::1.
 *
 *	begin -> write, took ... -> over		refused, reset, the box has ended
 *			   |
 *			   +-> let_go		both ends as a program would: the end of our bytes,
 *			   |			and a moment for the box's
 *			   +-> cancel		at once: the program in the box sees a reset
 *
 * A callback may let it go or cancel it; it is never used again then. One that is over is freed by
 * cancelling it.
 */
#pragma once

#include "core/client.h"

struct core_port {
	/* From the box. At most WIRE_NET_WINDOW comes without core_port_took. */
	void (*on_bytes)(struct core_port *p, const void *data, size_t n);
	void (*on_end)(struct core_port *p);  /* no more bytes from the box */
	void (*on_room)(struct core_port *p); /* it is connected, or takes more again */
	/* Once: nothing comes any more. -ECONNREFUSED: nothing listens there. -ECONNRESET: cut. */
	void (*on_over)(struct core_port *p, int r, const struct err *e);
	void *arg;

	struct core_request q;
	struct core_client_wait room; /* for the keeper's queue */
	struct ev_timer linger;
	struct ev *ev;
	struct wire_flow out, back;
	uint64_t owed; /* came, and was not taken yet */
	bool is_open, in_ended, out_ended, was_cut;
};

/* Connects: what is written before on_room waits in the box. conn has said HELLO. */
int core_port_begin(struct core_conn *conn, unsigned port, const struct core_port *callbacks,
		    struct core_port **ret, struct err *e);
/* As much as the box's credit and the keeper's queue take; for the rest on_room comes. */
size_t core_port_write(struct core_port *p, const void *data, size_t n);
void core_port_took(struct core_port *p, size_t n);
void core_port_let_go(struct core_port *p);
void core_port_cancel(struct core_port *p); /* NULL is fine */
