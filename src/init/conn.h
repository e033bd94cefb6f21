/*
 * One connection of the box: a socket and an id on the wire (wire/socket.h). A reset is a CANCEL,
 * at once, from either side. What begins one (CONNECT, PORT) and what is answered first is the
 * owner's: net.c and port.c.
 */
#pragma once

#include "ev/ev.h"
#include "init/init.h"
#include "wire/socket.h"

enum { CONN_BUCKETS = 512 };

struct conn {
	/* It is over, and the wire knows; the socket is closed. The owner frees it. */
	void (*on_over)(struct conn *c);
	struct init *in;
	struct wire_socket s;
	struct room_wait room;
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
