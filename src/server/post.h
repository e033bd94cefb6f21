/*
 * A request to somebody else's server, for webhooks and traces: one POST, its status, and no more.
 * It blocks, for a thread of its own pool: a server that takes long, or for ever, holds up others
 * of these and nothing else.
 *
 * Addresses are looked up, all checked, and dialled as they were checked, one after the other until
 * one is connected; all of it within POST_MS. Certificates are verified
 * against the host's store. A redirect is an answer like another and is not followed; of an answer
 * the head is read, and the rest is not.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	POST_MS = 10000,
	POST_DIAL_MS = 2000, /* of an address, while there is another one */
	POST_ADDRESSES_MAX = 4,
	POST_ANSWER_MAX = 32 << 10,
};

struct poster; /* what a thread has of its own */
int poster_new(struct poster **ret, struct err *e);
void poster_free(struct poster *p); /* NULL is fine */

struct post {
	const char *url;
	const char *fields; /* further lines of the head, each with its \r\n; Content-Type too */
	const void *body;
	size_t len;
	bool only_public; /* no address of this machine, of a private network, ... */
	int cancel_fd;	  /* readable: give up; -1: none */
};
/* 0 and the status of the answer; ERR_DENIED for an address that it may not have. */
int post_send(struct poster *p, const struct post *q, unsigned *ret_status, struct err *e);
