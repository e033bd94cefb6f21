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

struct init_conn {
	/* It is over, and the wire knows; the socket is closed. The owner frees it. */
	void (*on_over)(struct init_conn *c);
	struct init *in;
	struct wire_socket s;
	struct room_wait room;
	struct init_conn *next; /* of its bucket */
	uint32_t name_addr;	/* net.c: the synthetic address that it holds; 0: none */
};

struct init_conn_table {
	struct init_conn *buckets[CONN_BUCKETS];
	unsigned count;
};

struct init_conn *init_conn_find(const struct init_conn_table *t, uint32_t id);
void init_conn_add(struct init_conn_table *t, struct init_conn *c);
void init_conn_remove(struct init_conn_table *t, struct init_conn *c);

/* Takes fd, on failure too; set on_over first. Held: nothing is read or written before
 * init_conn_go. */
int init_conn_init(struct init_conn *c, struct init *in, int fd, uint32_t id, bool held);
void init_conn_go(struct init_conn *c);
/* Closes; the peer sees a reset unless the connection came to its end. Sends nothing. */
void init_conn_done(struct init_conn *c);

/* DATA, EOF, CREDIT and CANCEL. May call on_over. */
void init_conn_frame(struct init_conn *c, const struct wire_frame *f);
