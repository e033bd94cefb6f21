/* One connection of the box: what conn*.c share. The way it goes is in door.h. */
#pragma once

#include "door/ask.h"
#include "door/dial.h"
#include "door/door.h"
#include "door/hello_watch.h"
#include "door/pump.h"
#include "door/sniff.h"
#include "door/web.h"

enum conn_state {
	CONN_HEAD,   /* proxy: the head of its request is awaited */
	CONN_ASK,    /* a person decides */
	CONN_RECORD, /* the row is being written */
	CONN_DIAL,   /* resolving, checking, connecting */
	CONN_FIRST,  /* to be looked into: its first bytes are awaited */
	CONN_PUMP,
	CONN_WEB,
};

struct conn {
	struct door *door;
	struct conn *next, **at;
	enum conn_state state;
	uint32_t id;
	uint64_t exec_id;
	struct host host;
	uint16_t port;
	bool is_proxied;	 /* it came to the proxy port */
	bool is_tunnel;		 /* and said CONNECT */
	bool is_answered;	 /* HTTP: the 200 was sent, so no other answer can be */
	bool has_ok;		 /* the box was told that bytes may flow */
	bool was_asked;		 /* a person allowed it, */
	uint64_t asked_until_ms; /* so long; 0: while it lasts */
	bool was_once;		 /* a grant let in this one, and no other */
	bool is_tls;		 /* the box spoke TLS, and it is looked into */
	bool for_web;		 /* the upstream that is dialled is web's */
	struct verdict verdict;
	struct channel *box; /* owned, until pump or web has it */
	struct buf first;    /* of the box, looked at and not yet passed on */
	struct sniff sniff;  /* of what was passed on while it was watched */
	bool is_watched;
	struct hello_watch hellos; /* of TLS that passes through, after the first */
	bool is_asking;	      /* all that was passed on asks the server whether it speaks TLS */
	struct channel *kept; /* owned: dialled for a pump, for web's first request */
	struct ev_defer give; /* it to web */
	struct ev_timer timer;
	struct ev_defer later;
	struct ask_wait wait;
	struct clerk_call call;
	struct dial dial;
	struct pump *pump;	      /* owned */
	struct web *web;	      /* owned */
	struct tls_identity identity; /* of web's dial; borrowed from it */
	bool has_identity;
	uint64_t seq; /* of the row that allowed it; 0: none */
	uint64_t started_ms, bytes_up, bytes_down;
};

/* conn.c */
/* Judges host and port, and goes on from there. */
void conn_judge(struct conn *c);
/* Frees it. verdict and reason are for the row about its end, if one allowed it. */
void conn_end(struct conn *c, const char *verdict, const char *reason);
/* A row of its own that says no, an answer to the box in the form that it understands, the end. */
void conn_deny(struct conn *c, const struct err *e);
/* The same without the row: it was allowed, and did not work. */
void conn_fail(struct conn *c, const struct err *e);

/* conn_first.c */
void conn_read_head(struct conn *c);  /* CONN_HEAD */
void conn_read_first(struct conn *c); /* CONN_FIRST */
void conn_to_pump(struct conn *c, struct channel *up);
void conn_to_web(struct conn *c, bool is_tls);
void conn_give(struct ev_defer *d);
