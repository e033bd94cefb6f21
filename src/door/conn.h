/* One connection of the box: what conn*.c share. The way it goes is in door.h. */
#pragma once

#include "door/ask.h"
#include "door/dial.h"
#include "door/door.h"
#include "door/hello_watch.h"
#include "door/sniff.h"
#include "door/tunnel.h"
#include "door/web.h"

/* How one ends that was over already: the reason in its row. */
#define CONN_RESET "it ended with a reset"

enum conn_state {
	CONN_HEAD,   /* proxy: the head of its request is awaited */
	CONN_ASK,    /* a person decides */
	CONN_RECORD, /* the row is being written */
	CONN_DIAL,   /* resolving, checking, connecting */
	CONN_FIRST,  /* to be intercepted: its first bytes are awaited */
	CONN_TUNNEL,
	CONN_WEB,
};

struct door_conn {
	struct door *door;
	struct door_conn *next, **at;
	enum conn_state state;
	uint32_t id;
	uint64_t exec_id;
	struct host host;
	uint16_t port;
	bool is_proxied;	 /* it came to the proxy port */
	bool said_connect;	 /* and said CONNECT */
	bool is_answered;	 /* HTTP: the 200 was sent, so no other answer can be */
	bool has_ok;		 /* the box knows that bytes may flow */
	bool was_asked;		 /* a person allowed it, */
	uint64_t asked_until_ms; /* so long; 0: while it lasts */
	bool was_once;		 /* a grant let in this one, and no other */
	bool is_tls;		 /* the box spoke TLS, and it is intercepted */
	struct verdict verdict;
	struct channel *box; /* owned, until tunnel or web has it */
	struct buf first;    /* of the box, looked at and not yet passed on */
	struct sniff sniff;  /* of what was passed on while it was watched */
	bool is_watched;
	struct hello_watch hellos; /* of TLS that passes through, after the first */
	bool is_asking; /* all that was passed on asks the server whether it speaks TLS */
	struct ev_timer timer;
	struct ev_defer later;
	struct ask_wait wait;
	struct broker_call call;
	struct dial dial;
	struct tunnel *tunnel; /* owned */
	struct web *web;       /* owned */
	uint64_t seq;	       /* of the row that allowed it; 0: none */
	uint64_t started_ms, bytes_up, bytes_down;
};

/* conn.c */
/* Judges host and port, and goes on from there. */
void door_conn_judge(struct door_conn *c);
/* Frees it. verdict and reason are for the row about its end, if one allowed it. */
void door_conn_end(struct door_conn *c, const char *verdict, const char *reason);
/* A row of its own that says no, an answer to the box in the form that it understands, the end. */
void door_conn_deny(struct door_conn *c, enum denial why, const struct err *e);

/* conn_first.c */
void door_conn_read_head(struct door_conn *c);	/* CONN_HEAD */
void door_conn_read_first(struct door_conn *c); /* CONN_FIRST */
void door_conn_to_tunnel(struct door_conn *c, struct channel *up);
/* Takes up: dialled for a tunnel that passed nothing; NULL: none. */
void door_conn_to_web(struct door_conn *c, bool is_tls, struct channel *up);
