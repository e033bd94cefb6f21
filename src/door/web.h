/*
 * HTTP between a box and an upstream, intercepted: every request is judged by method and path, gets
 * what the rule injects, and is written anew; every answer is written anew and loses what was
 * injected. Bodies stream with bounded memory. Keep-alive on both sides; one request at a time per
 * connection, pipelined ones wait.
 *
 *	box  --head-> judge (ask?) -> secrets -> record -> head' --> upstream
 *	     --body->                                   ----------->
 *	     <-head'- redact <-------------------------- head --
 *	     <-body-  redact <-------------------------- body --
 *
 * What follows a body on its connection a server might read as part of it, or the body as the next
 * request: one that does not read bodies, that answers early, or that counts otherwise. So a
 * request with a body, with Expect or with an Upgrade is the last on its upstream connection and
 * says so (Connection: close), unless its rule says `reuse: true`; and requests with a credential
 * share a connection with those of the same rule only. TLS sessions are resumed, which makes the
 * next one cheap.
 *
 * The upstream is dialled when the first request was allowed, and again where it closed a kept
 * connection before anything was sent. A request is never sent twice. A redirect is the client's
 * business: the next request is judged by itself, so a credential never follows it elsewhere.
 *
 * An answer is searched for what was injected in its head, its trailers, its content whatever its
 * type and length, and the frames of a WebSocket, each by itself. One in gzip or deflate, which was
 * not asked for, is inflated first (inflate.h); in another coding it is a 502. Compressed answers
 * are not asked for since their lengths would tell a box that has guesses echoed which are right.
 * What waits meanwhile, and so in which pieces the rest goes on, depends on lengths and line ends
 * alone: see injection_redact.
 */
#pragma once

#include "door/door.h"
#include "net/channel.h"

struct web;

struct web_config {
	struct door *door;
	struct host host; /* that the connection is for: every Host must be this */
	uint16_t port;
	bool tls;		 /* the box spoke TLS: so does the upstream */
	bool proxied;		 /* requests come in absolute form */
	bool asked;		 /* a person allowed the whole connection, */
	uint64_t asked_until_ms; /* so long; 0: while it lasts */
	uint64_t exec_id;
	/* Taken: an upstream that was dialled already, for the first request; NULL: none. */
	struct channel *up;
	const char *up_address;	    /* where to; may be NULL. Copied */
	bool up_private;	    /* as the rule said */
	void (*on_done)(void *arg); /* the web has ended; free it */
	void *arg;
};

/* Takes box, whose bytes from here on are HTTP; first (n bytes) was read from it already. */
int web_new(struct web **ret, const struct web_config *c, struct channel *box, const void *first,
	    size_t n, struct err *e);
/* The policy changed: false if what is under way now would not be allowed; the caller then frees.
 * */
bool web_judge_again(struct web *w);
void web_free(struct web *w); /* cuts both sides if they are still there */
