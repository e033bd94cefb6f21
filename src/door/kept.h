/*
 * What commands printed that provide secrets, kept for the time that the secret says: in locked
 * memory of the broker, wiped when that time is over. One that was set again or removed meanwhile
 * is not given out: its stamp is another, or there is no file any more.
 */
#pragma once

#include "store/secret.h"

struct kept_value {
	const char *name;
	struct secret_stamp stamp;
	const void *data;
	size_t len;
	uint64_t for_ms;
};

struct kept_secrets {
	struct kept_secret *first; /* owned */
};

/* Copies it; one of that name goes. now_ms is of a clock that never goes back, wall_ms of one that
 * goes on while the host sleeps: the first that is over ends it. -ENOMEM. */
int kept_put(struct kept_secrets *k, const struct kept_value *v, uint64_t now_ms, uint64_t wall_ms);
/* NULL: none. One that is over, or of another stamp, goes. Valid until the next call. */
const struct kept_value *kept_find(struct kept_secrets *k, const char *name,
				   const struct secret_stamp *stamp, uint64_t now_ms,
				   uint64_t wall_ms);
void kept_drop(struct kept_secrets *k, const char *name);
/* Wipes those that are over. */
void kept_sweep(struct kept_secrets *k, uint64_t now_ms, uint64_t wall_ms);
/* When the next one will be over (now_ms); 0: there is none. */
uint64_t kept_next_end(const struct kept_secrets *k);
void kept_done(struct kept_secrets *k);
