/*
 * The hellos of a TLS connection that passes through, after its first: a server may ask for another
 * one (HelloRetryRequest, RFC 8446, 4.1.4), and that one may name another host.
 *
 *	client  hello ----> [change_cipher_spec] [early data] ----> hello 2 ----> anything
 *	server           <---- HelloRetryRequest                <---- ServerHello
 *
 * Until the server has said a ServerHello that is no such request, what the client sends must be
 * whole records, and every handshake record in them belongs to a ClientHello, which the caller
 * judges. After it no hello is in clear text any more, and nothing is looked at. Bytes go on as
 * they come: a hello whose last byte was held back is none to the server.
 * How the bytes are cut changes nothing.
 */
#pragma once

#include "base/buf.h"
#include "door/hello.h"

enum { WATCH_RECORD_HEADER = 5, WATCH_SERVER_HELLO = 38 };

struct hello_watch {
	bool is_on;
	bool is_lost; /* the server speaks no TLS that is known here: the watch does not end */
	struct {
		uint8_t header[WATCH_RECORD_HEADER];
		unsigned have; /* of the header */
		size_t left;   /* of the record */
	} client, server;
	unsigned hellos;		     /* of the client, the first among them */
	struct buf hello;		     /* the records of the one that is under way */
	uint8_t message[WATCH_SERVER_HELLO]; /* how the server's message begins */
	unsigned message_have;
	size_t message_left;
};

/* After the client's first hello. */
void hello_watch_start(struct hello_watch *w);
void hello_watch_done(struct hello_watch *w);

/* Bytes of the client, *ret_used of them. 1: a hello has ended there, *ret; 0: all were used;
 * -EBADMSG: not what a TLS client sends. Call it until all are used. */
int hello_watch_client(struct hello_watch *w, const uint8_t *p, size_t n, size_t *ret_used,
		       struct hello *ret);
/* Bytes of the server. When it has chosen, is_on becomes false. */
void hello_watch_server(struct hello_watch *w, const uint8_t *p, size_t n);
