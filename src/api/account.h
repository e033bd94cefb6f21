/*
 * What each caller holds of the server while requests are under way: connections, and memory that
 * grows with what a client sends, or does not read. There is one account for
 *
 *	a key		    a quarter of the connections, API_BODIES_KEY_MAX
 *	a key's visitors    who ask for ports of its boxes without that key: as much again
 *	the operator	    as many connections as there are, API_BODIES_KEYS_MAX
 *
 * and all but the operator's together have three quarters of the connections and
 * API_BODIES_KEYS_MAX, beyond which each still gets one connection and API_BODIES_LEAST, so that
 * several who take what they can leave something to the others. An account is there as long as
 * something counts in it.
 *
 * Three count: a call, its body; a command, its stdin and the output that is collected (exec.c);
 * and a connection, itself and what it has read and not sent (src/server/idle.c), from a call's
 * head until that call's answer is sent. What asks before it grows is refused; what is there
 * already, as an answer is, counts however much it is, and where that is a quarter too much new
 * calls are refused.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_account;
struct api_call;

struct api_accounts {
	struct api_account *first;
	uint64_t bytes; /* of all but the operator's, as connections are */
	unsigned connections;
};

/* A part of an account; zero is none, in which nothing is bounded. */
struct api_charge {
	struct api_account *of;
	size_t bytes;
	bool is_connection;
};

/* A call begins: gets c->charge, or ERR_LIMIT where its account holds as much as it may. Without a
 * key nothing is counted but what visitors of ports do. */
int api_account_enter(struct api_call *c, struct err *e);

/* g is none yet; then it is of the same account. */
void api_charge_begin(struct api_charge *g, struct api_account *of);
void api_charge_connection(struct api_charge *g, struct api_account *of);
/* To so many bytes, of which a few count as none. False: there is no room, and nothing changes. */
bool api_charge_grow(struct api_charge *g, size_t bytes);
/* The same for what is there already. */
void api_charge_set(struct api_charge *g, size_t bytes);
/* May more be held? */
bool api_charge_has_room(const struct api_charge *g);
void api_charge_end(struct api_charge *g);

/* Before a body takes so many bytes of memory: ERR_LIMIT where there is no room. They count until
 * the call ends. */
int api_body_hold(struct api_call *c, size_t bytes, struct err *e);
/* As many as a body of bytes that is one text of JSON may come to. */
int api_body_hold_all(struct api_call *c, struct err *e);
