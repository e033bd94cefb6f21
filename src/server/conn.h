/*
 * One connection, and what its two halves share.
 *
 *	HEAD --> BODY --> WAIT --> HEAD ...
 *	  |	  |	   |
 *	  |	  +--------+--> SOCKET (conn_socket.c)
 *	  |		   +--> RAW: bytes of a protocol that the API passes on
 *	  +--> LINGER: all is written, what still comes is dropped, for a moment
 *
 * A request is read only when the one before it was answered. Its bytes are handed on where they
 * lie; what the API does not take waits in `in`, and the socket is not read meanwhile.
 */
#pragma once

#include "http/reply.h"
#include "http/ws_end.h"
#include "server/server.h"

enum request_state {
	REQUEST_HEAD,
	REQUEST_BODY,
	REQUEST_WAIT,
	REQUEST_SOCKET,
	REQUEST_RAW,
	REQUEST_LINGER
};

struct server_conn {
	struct server *server;
	struct server_conn *next, **at;
	struct channel *ch; /* owned */
	struct api_client_info client;
	char address[64];
	struct api_sink sink;
	enum request_state state;
	struct buf in, out;    /* secret while such a request is under way (api_route.secret) */
	struct http_head head; /* until a call takes it */
	struct http_body body;
	struct api_call *call; /* under way; it is freed here */
	const uint8_t *data;   /* of the body, in `in`: not taken yet */
	size_t data_len, used; /* used: of `in`, with data */
	struct http_sent sent;
	uint64_t left;	  /* of an answer of known length */
	bool begun, over; /* the answer: its head is written; all of it is */
	bool waits;	  /* the API waits for on_room */
	bool continues;	  /* the client waits for 100 (Continue) */
	bool in_ended;	  /* the client sends nothing more */
	bool busy;	  /* in conn_go: others leave the work to it */
	bool dead;	  /* to be freed */
	bool is_known;	  /* a request of it had a key that is one, or it is the operator's */
	struct api_charge charge;    /* of who asked, until the answer is sent; none: it is idle */
	struct server_idle *idle_in; /* the list that it is in; NULL: none */
	size_t idle_bytes;
	struct server_conn *idle_before, *idle_next;
	struct ev_timer timer;
	struct ev_defer later;
	struct ws_end *ws; /* owned; a WebSocket */
	struct ev_timer ping;
};

/* Goes on with whatever can be done: what is in `in`, what is in `out`. */
void conn_go(struct server_conn *c);
void conn_go_soon(struct server_conn *c); /* at the end of this turn of the loop */
/* Ends it without a word more. */
void conn_kill(struct server_conn *c);
void conn_free(struct server_conn *c);
/* As far as there is time for the other side. */
void conn_set_timer(struct server_conn *c, uint64_t ms);

/* idle.c: what it holds has changed: it may have become idle, or known. A request of it begins, or
 * it ends. Its call is there: it counts in that one's account. */
void conn_idle_note(struct server_conn *c);
void conn_idle_leave(struct server_conn *c);
void conn_idle_call(struct server_conn *c);
/* How much may wait to be sent of what can be made later. */
size_t conn_out_high(const struct server_conn *c);

/* conn_socket.c: the sink's half, and bytes that came. */
int conn_socket_accept(struct api_sink *s, struct api_call *call, struct err *e);
bool conn_socket_message(struct api_sink *s, struct api_call *call, bool is_text, const void *p,
			 size_t n);
void conn_socket_end(struct api_sink *s, struct api_call *call, unsigned code, const char *reason);
void conn_socket_read(struct server_conn *c);
