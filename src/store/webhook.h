/*
 * Webhooks: URLs that the host's events (store/feed.h) are sent to.
 *
 *	webhooks/<id>			what it is: lines under a sum, 0600 below a 0700 directory,
 *					with the secret of its signatures. Written once
 *	webhooks/sent/<id>.state	how far it is: written by the server after each delivery
 *	webhooks/sent/<id>.log		the last deliveries, lines of JSON; half of it goes when it
 *					is full
 *
 * What the server writes is apart, so that webhooks/ itself changes only when somebody makes,
 * removes or enables one: the server looks at its time. Who makes one holds flock(2) on it.
 *
 * An id is 16 random hex digits. What is to be delivered is not copied: it is all rows after
 * `cursor`, so a queue costs nothing and outlives the server.
 */
#pragma once

#include "base/limits.h"
#include "store/key.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	WEBHOOK_ID_SIZE = 17,
	WEBHOOK_SECRET_SIZE = 7 + 64 + 1, /* whsec_ and 32 bytes in hex */
	WEBHOOK_URL_MAX = 1024,
	WEBHOOK_TEXT_MAX = 512,
	WEBHOOKS_MAX = 256, /* of the machine, and */
	WEBHOOKS_OF_KEY = 16,
	WEBHOOK_LOG_BYTES = 64 << 10,
};

struct webhook {
	char id[WEBHOOK_ID_SIZE];
	char owner[KEY_ID_SIZE]; /* of a key; "": the operator's */
	char url[WEBHOOK_URL_MAX + 1];
	char types[WEBHOOK_TEXT_MAX + 1]; /* with commas; "": all */
	char box[BOX_NAME_MAX + 1];	  /* "": all */
	char label[WEBHOOK_TEXT_MAX + 1]; /* NAME or NAME=VALUE; "": any */
	char secret[WEBHOOK_SECRET_SIZE];
	uint64_t created_ms;
	uint64_t after; /* the event that was the last one when it was made */
};

struct webhook_state {
	uint64_t cursor;	      /* all events up to it were delivered, or are not for it */
	uint64_t delivered, failures; /* failures: since the last delivery */
	uint64_t next_ms;	      /* wall clock: not before */
	uint64_t disabled_ms;	      /* 0: it is not */
	char reason[WEBHOOK_TEXT_MAX + 1];
};

/* Makes one of url, types, box, label and owner; id, secret and the rest are filled in. Durable.
 * ERR_INVALID names what is wrong with the URL; ERR_LIMIT. */
int webhook_make(struct state *st, struct webhook *w, struct err *e);
/* Oldest first. Free with free. A damaged one is left out. */
int webhook_list(struct state *st, struct webhook **ret, size_t *ret_count, struct err *e);
/* owner NULL: whosever it is. -ENOENT. */
int webhook_read(struct state *st, const char *id, const char *owner, struct webhook *ret,
		 struct err *e);
int webhook_remove(struct state *st, const char *id, const char *owner, struct err *e);
/* One that was never written is at its beginning. */
int webhook_state_read(struct state *st, const struct webhook *w, struct webhook_state *ret);
int webhook_state_write(struct state *st, const char *id, const struct webhook_state *s);
/* One line of JSON, with its newline. And all of them; *ret is owned, "" where there are none. */
int webhook_log_add(struct state *st, const char *id, const char *line, size_t len);
int webhook_log_read(struct state *st, const char *id, char **ret);
/* It was disabled, and failures count anew. */
int webhook_enable(struct state *st, const char *id, const char *owner, struct err *e);
/* Another one when one is made, removed or enabled; 0: there is no directory. Two changes within a
 * few milliseconds may have the same: who looks then looks once more. */
uint64_t webhook_changed_ns(struct state *st);
