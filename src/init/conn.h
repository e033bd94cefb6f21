/*
 * One connection: a socket on this side, an id on the wire on the other, bytes both ways.
 *
 *	socket -> DATA(id, 1)	as far as the door's credit and the room on the link go
 *	DATA(id, 0) -> socket	what it does not take waits, at most a window; then comes credit
 *	end of file <-> EOF	each way for itself; after both the connection is over
 *	reset <-> CANCEL	at once, from either side; the socket's peer sees a reset too
 *
 * What begins one (CONNECT, PORT) and what is answered first is the owner's: net.c and port.c.
 */
#pragma once

#include "ev/ev.h"
#include "init/init.h"
#include "wire/link.h"

enum { CONN_BUCKETS = 512 };

struct conn {
	/* It is over, and the wire knows; the socket is closed. The owner frees it. */
	void (*on_over)(struct conn *c);
	struct init *in;
	uint32_t id;
	struct ev_io io; /* io.fd is owned */
	struct wire_flow out, back;
	struct buf waiting; /* for the socket */
	struct room_wait room;
	uint32_t chunk;	   /* size of the next read */
	bool held;	   /* the socket is not to be touched yet: what comes waits */
	bool read_end;	   /* EOF was read and sent */
	bool wire_end;	   /* EOF came */
	bool shut;	   /* and was passed on */
	struct conn *next; /* of its bucket */
};

struct conn_table {
	struct conn *buckets[CONN_BUCKETS];
	unsigned count;
};

struct conn *conn_find(const struct conn_table *t, uint32_t id);
void conn_add(struct conn_table *t, struct conn *c);
void conn_remove(struct conn_table *t, struct conn *c);

/* Takes fd, on failure too; set on_over first. Held: nothing is read or written before conn_go. */
int conn_init(struct conn *c, struct init *in, int fd, uint32_t id, bool held);
void conn_go(struct conn *c);
/* Closes; the peer sees a reset unless the connection came to its end. Tells nobody. */
void conn_done(struct conn *c);

/* DATA, EOF, CREDIT and CANCEL. May call on_over. */
void conn_frame(struct conn *c, const struct wire_frame *f);
