/*
 * The asynchronous core of libcove: requests to keepers, on the caller's event loop.
 *
 *	connect ---------> link --HELLO--> ready ----> lost (the keeper went, or broke a rule)
 *	   | queue full	    |			         |
 *	   +- retry <-------+ requests may be sent at    +--> on_done of every request,
 *	      timer	      any time: they wait	      then on_lost
 *
 * One connection carries many requests at once, each with its id. A request is an object of its
 * owner with two callbacks; nothing here waits, so one thread serves thousands of boxes and a box
 * that stalls delays no other. What is sent is bounded by WIRE_OUT_MAX per connection, and by the
 * credit of each stream (struct wire_flow), which the owner of the request keeps: it gives credit
 * back when it has really consumed the bytes.
 *
 * The blocking calls of cove.h stand on this with a loop of their own: see call.h.
 */
#pragma once

#include "base/err.h"
#include "ev/ev.h"
#include "wire/hello.h"
#include "wire/link.h"

#include <stdbool.h>
#include <stdint.h>

enum { CORE_BUCKETS = 64 };

struct core_conn;

struct core_request {
	/* A frame of this request, borrowed for the call; never ERROR. 0: more is to come. 1: it
	 * was the last. Negative, with *e: the request is given up, and cancelled at the keeper. It
	 * may begin and cancel requests, but not free the connection. One that cancels this very
	 * request may free it: nothing more comes, whatever is returned. */
	int (*on_frame)(struct core_request *q, const struct wire_frame *f, struct err *e);
	/* The end, called once: 0, or a negative errno and why. The request may be freed or begun
	 * again, and the connection freed. */
	void (*on_done)(struct core_request *q, int r, const struct err *e);

	struct core_conn *conn; /* NULL when it is not under way */
	uint32_t id;
	struct core_request *next; /* of its bucket */
};

struct core_conn {
	void (*on_ready)(struct core_conn *c); /* HELLO came; may be NULL */
	/* After the last on_done. The connection is the owner's to free, here or later. May be
	 * NULL. */
	void (*on_lost)(struct core_conn *c, int r, const struct err *e);
	void (*on_drained)(struct core_conn *c); /* all that was queued is written; may be NULL */
	void *arg;				 /* the owner's */

	struct ev *ev;
	bool owns_ev; /* freed with the connection; quit whenever that becomes another state */
	bool first;   /* the socket a keeper was born with: its end is the end of a one-shot box */
	bool ready;   /* HELLO came */
	struct wire_peer peer; /* what the keeper speaks, then */
	bool lost;	       /* nothing more can be asked; `why` says why */
	bool closing;	       /* the link has ended; what had come before is still handed out */
	bool violated;	       /* a request found a frame out of turn */
	bool visit;	       /* the box is up for this connection alone */
	int start_lock_fd;     /* owned; of a box that starts, closed when HELLO came, or at the
				* end of a visit. -1: none */

	struct wire_link link; /* connected: link.ev is set */
	struct buf early;      /* queued before that */
	struct ev_timer retry;
	int sock, run_fd; /* while it connects: owned, borrowed */
	char box[64];

	struct core_request *requests[CORE_BUCKETS];
	struct core_request *current; /* in its on_frame; NULL once it is off the connection */
	unsigned count;
	uint32_t last_id;
	int why_r; /* why it was lost, and */
	struct err why;
	struct ev_defer late; /* ends requests that were begun after that */
	bool *gone;	      /* set by core_conn_free while a callback runs */
};

/* A connection over fd, which it takes, on failure too. */
int core_conn_new(struct ev *ev, int fd, struct core_conn **ret, struct err *e);

/* Connects to the keeper of a box: -ENOENT or -ECONNREFUSED at once where there is none. A keeper
 * whose queue is full is tried again until it has room. ev NULL: a loop of its own. */
int core_conn_connect(struct ev *ev, int run_fd, const char *box, struct core_conn **ret,
		      struct err *e);

/* Requests that are still under way get -ECANCELED. NULL is fine. */
void core_conn_free(struct core_conn *c);

/* The socket, to be polled or asked about its peer; -1 once the connection is lost. */
int core_conn_fd(const struct core_conn *c);

/* True if no request can succeed any more; asks the kernel. */
bool core_conn_is_dead(const struct core_conn *c);

/* Puts the request on the connection and gives it an id. Then encode its first frame (wire_encode,
 * wire_*_encode) with that id into core_out, and core_send it. HELLO need not have come. Where the
 * connection is lost already, on_done comes from the loop. */
void core_request_begin(struct core_request *q, struct core_conn *c);
struct buf *core_out(struct core_conn *c);
/* Writes what is queued before the loop sleeps. */
void core_send(struct core_conn *c);

/* Takes the request off the connection: no callback comes any more. One that may still be answered
 * is cancelled there; a command goes on, a transfer ends. Not under way: fine. */
void core_request_cancel(struct core_request *q);
/* The same where the keeper knows already: nothing is sent. */
void core_request_forget(struct core_request *q);

/* A closed link whose frames were held (call.h): hands out those that are left, then it is lost. */
void core_conn_drain(struct core_conn *c);

/* For on_frame: sets *e for a frame that should not have come, and ends the connection. */
int core_unexpected(struct core_request *q, const struct wire_frame *f, struct err *e);
