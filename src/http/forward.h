/*
 * Heads that a reverse proxy passes on: a client's request to the server behind it, and that
 * server's answer back. Each is a head of its own, made of the parts of one that was parsed; what
 * concerns a hop, frames a body, or says who asked and how, is never the other side's word.
 */
#pragma once

#include "http/http.h"

/* What the proxy says in place of the client. */
struct http_hop {
	const char *target; /* for the server: "/path?query" */
	const char *host;   /* that it is called by */
	const char *client; /* the client's address; NULL: there is none */
	const char *scheme; /* that the client asked with */
	const char *asked;  /* the Host that it asked for */
	const char *prefix; /* that was taken off the path; NULL: none */
	bool upgrades;	    /* to a WebSocket */
	enum http_framing framing;
	uint64_t length; /* of HTTP_LENGTH */
};

/* Of `from` go on: the method, and the fields but those of the hop, those that frame or route, and
 * all that says who the client is. Credentials are the caller's to remove. http_head_done also
 * after a failure. */
int http_forward_request(const struct http_head *from, const struct http_hop *hop,
			 struct http_head *ret);

/* Whose name the client knows the answer by. */
enum http_site {
	HTTP_SITE_OWN, /* the server's alone: cookies are for that name, and no other */
	/* The proxy's and other servers' too: nothing that a browser would keep for all of it, or
	 * apply to that, goes on, and it is no page. */
	HTTP_SITE_SHARED,
};

/* Of `from` go on: the status, and the fields but those of the hop and those that frame. own: names
 * of cookies that are the proxy's, ended by NULL. http_head_done also after a failure. */
int http_forward_answer(const struct http_head *from, enum http_site site, const char *const *own,
			struct http_head *ret);
