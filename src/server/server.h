/*
 * cove-server: the API on sockets. One loop; what blocks is in ev's threads (api/api.h).
 *
 *	main.c	    configuration -> listeners -> loop -> an orderly end
 *	config.c    flags and the file that has them too
 *	setup.c	    what a configuration makes, at the start and when it is read again (SIGHUP)
 *	ready.c	    what is said when it serves: addresses, a first key, how clients find it
 *	notify.c    messages to systemd
 *	listen.c    sockets of our own, or systemd's; accepting
 *	conn.c	    one connection: requests in, answers out; conn_socket.c where it is a WebSocket
 *	idle.c	    which of them make room where all are taken
 *	log.c	    one line of JSON per request
 *
 * Nothing of a box is in this process: a box has its keeper, a command its log. So it may be killed
 * at any moment, and another takes over where it stood.
 */
#pragma once

#include "api/api.h"
#include "net/channel.h"
#include "server/config.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SERVER_HEAD_MAX = 64 << 10,
	SERVER_FIELDS_MAX = 100,
	SERVER_IN_MAX = 128 << 10,   /* read and not yet handed on, of a connection */
	SERVER_OUT_MAX = 80 << 20,   /* an answer that is not a stream is written at once */
	SERVER_OUT_HIGH = 256 << 10, /* a stream waits while so much is not yet sent; */
	SERVER_OUT_LOW = 16 << 10,   /* or so much, where its account has no room */
	SERVER_KEEP_MAX = 128 << 10, /* of a buffer that is empty */
	SERVER_HEAD_MS = 10000,	     /* from the first byte of a head to its last */
	SERVER_IDLE_MS = 300000,     /* between two requests; where there was no key yet: */
	SERVER_STRANGER_MS = 10000,
	SERVER_STALL_MS = 60000,      /* a client that neither reads nor sends what is awaited */
	SERVER_READ_MIN = 64,	      /* bytes in a ms beside, of an answer that is no stream */
	SERVER_LINGER_MS = 2000,      /* what it still sends is read, so that it sees the answer */
	SERVER_MESSAGE_MAX = 1 << 20, /* of a WebSocket */
	SERVER_PING_MS = 30000,
	SERVER_LISTEN_MAX = 2 * (CONFIG_LIST_MAX + 1), /* addresses, a Unix socket; old and new */
	SERVER_URL_MAX = 136,
	SERVER_LOCAL_PART = 32,	      /* of all connections are kept for the Unix socket */
	SERVER_IDLE_BYTES = 64 << 20, /* what connections that are idle have sent so far */
};

enum { SERVER_IDLE_STRANGER, SERVER_IDLE_KEY, SERVER_IDLE_LOCAL, SERVER_IDLE_LISTS };

struct server_idle {
	struct server_conn *first, *last; /* the first has been idle for longest */
};

struct server_conn;
struct tls;

/* One configuration, and what was made of its files. */
struct server_setup {
	struct server_setup *before; /* owned: what connections or calls may still refer to */
	struct server_config config;
	struct tls *tls; /* owned; NULL: none */
};

struct server {
	struct ev *ev;
	struct api *api;
	struct hooks *hooks;		    /* owned */
	struct otlp *otlp;		    /* owned; NULL: no traces */
	char *const *argv;		    /* flags, for when they are read again */
	struct server_setup *setup;	    /* owned; the present one */
	const struct server_config *config; /* its own */
	struct tls *tls;		    /* its own; NULL: none */
	struct server_listener *listeners[SERVER_LISTEN_MAX]; /* owned */
	size_t listener_count;
	struct server_conn *conns;
	unsigned conn_count, tcp_count;
	uint64_t files_max; /* descriptors that it may have */
	struct server_idle idle[SERVER_IDLE_LISTS];
	uint64_t idle_bytes;
	bool ending; /* no new requests; ends when the last connection has */
};

/* ---- listen.c ---- */

/* Listens where c says: what is new is opened, what c has no more is closed. On failure all is as
 * it was. takes_given: systemd's sockets, once. */
int server_listen_change(struct server *s, const struct server_config *c, bool takes_given,
			 struct err *e);
/* Accepts nothing more. A socket file of ours goes. */
void server_listen_end(struct server *s);
/* Where a listener is: "http://127.0.0.1:7070", "unix:/run/..."; false after the last. */
bool server_listener_url(const struct server *s, size_t i, char ret[SERVER_URL_MAX]);
/* The first TCP port; 0: there is none, or systemd has it. */
unsigned server_listener_port(const struct server *s);
/* A connection has ended, or may for another, so there is room for another. */
void server_listen_again(struct server *s);

/* ---- setup.c ---- */

/* Reads the flags and their file again, with the certificate; 0 and all of it holds, or nothing has
 * changed. */
int server_setup_load(struct server *s, struct err *e);
/* Frees what was before, where no connection and no call is left that may refer to it. */
void server_setup_drop_old(struct server *s);
/* Once it listens: what the API says of addresses. */
void server_setup_ports(struct server *s);
void server_setup_free(struct server *s);

/* ---- ready.c ---- */

/* To stdout: where it listens, the first key if there is none yet, and how to ask it. */
int server_say_ready(struct server *s, struct err *e);

/* ---- notify.c ---- */

/* Tells systemd, if it started us. */
void server_notify(const char *text);

/* ---- conn.c ---- */

/* Takes the channel. is_local: by its Unix socket. */
int server_conn_new(struct server *s, struct channel *ch, const struct api_client_info *client);
/* Closes what is idle, and streams that are resumed elsewhere; the rest is answered first. */
void server_conn_end_idle(struct server *s);
void server_conn_free_all(struct server *s);

/* ---- idle.c ---- */

bool server_is_full(const struct server *s, bool is_local);
/* How many of them those over TCP may be. */
unsigned server_tcp_max(const struct server *s);
/* For one more, by the end of those that are idle; false where there is none. */
bool server_make_room(struct server *s, bool is_local);

/* ---- log.c ---- */

void server_log_call(void *arg, const struct api_call *c);
/* From a thread. */
void server_log_reaped(void *arg, const char *action, const char *box, const char *cause);
/* Of warm pools. */
void server_log_filled(void *arg, uint64_t made, uint64_t dropped, const char *why);
/* level: "info", "error". */
void server_log(const char *level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
