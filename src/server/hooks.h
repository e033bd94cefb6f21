/*
 * Webhooks: events of the host, sent to URLs (store/webhook.h).
 *
 *	the loop    looks which are there and which are due, when there are new events or it is time
 *	a thread    reads the events after a webhook's cursor, sends those that are for it, one
 *		    request each, and writes the cursor after each that was taken (status 2xx)
 *
 * What is not taken is tried again, later each time; the events after it wait. After so many
 * failures in a row the webhook is disabled, with the reason; so is one whose key was removed,
 * before anything more is sent. What keeps the server itself from sending (a damaged file) is in
 * its log, once, and tried again after the first wait. The server may be killed at any moment: what
 * was sent last may then be sent twice, with the same Cove-Event-Id.
 *
 *	Cove-Event-Id: 42		the event's number
 *	Cove-Event-Type: box.stopped
 *	Cove-Signature: t=<seconds since 1970>,v1=<hex of HMAC-SHA256(secret, t "." body)>
 *
 * What is looked at by a thread and by the loop is guarded by `busy`: while it is set the webhook
 * is the thread's.
 */
#pragma once

#include "api/api.h"

#include <stdbool.h>

enum {
	HOOKS_THREADS = 8,
	HOOKS_OF_KEY = 2, /* of one key under way at once; the rest of the threads is others' */
	HOOKS_BATCH_MS = 5000,	   /* then another one's turn */
	HOOKS_ROWS = 256,	   /* read in one turn, whoever they are for */
	HOOKS_LATEST_MS = 3600000, /* between two tries */
};

struct hooks;
struct hooks_options {
	uint64_t retry_ms;     /* the first wait; twice as long each time */
	uint64_t failures_max; /* in a row; then it is disabled */
};
int hooks_new(struct hooks **ret, struct api *api, const struct hooks_options *o, struct err *e);
/* Nothing more is sent; what is under way is waited for. Then hooks_counts may still be asked, and
 * hooks_free ends it, which needs neither loop nor API. NULL is fine for both. */
void hooks_stop(struct hooks *h);
void hooks_free(struct hooks *h);
/* Requests that were taken, and those that were not, since the server started. From any thread. */
void hooks_counts(const struct hooks *h, uint64_t *ret_delivered, uint64_t *ret_failed);
/* In the loop: there may be new events. */
void hooks_wake(struct hooks *h);
