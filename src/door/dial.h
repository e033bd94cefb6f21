/*
 * From a name that was judged to a connection: paid for, resolved by the door, every address
 * checked, and the checked one dialled. Addresses are tried in turn.
 */
#pragma once

#include "door/door.h"

#include <netinet/in.h>

struct dial {
	/* Once, never from within dial_start: a connected channel, which is the owner's, or NULL
	 * and why. ERR_DENIED: no address of it may be dialled. */
	void (*on_done)(struct dial *d, struct channel *up, struct err *e);

	struct door *door;
	struct host host;
	uint16_t port;
	bool private; /* the rule lets it have a private address */
	struct resolve resolve;
	struct host *addrs; /* owned: what may be dialled */
	size_t count, next;
	struct channel *up; /* owned, while it connects */
	struct ev_timer timer;
	struct ev_defer step;
	struct err error;
	enum denial why;		/* where that is ERR_DENIED */
	char address[INET6_ADDRSTRLEN]; /* that was dialled last; "" before */
};

void dial_init(struct dial *d, struct door *door);
/* rule (may be NULL) allows it: it pays for the name, and says whether a private address may be
 * dialled. It is not kept. */
void dial_start(struct dial *d, const struct host *host, uint16_t port, const struct rule *rule);
void dial_done(struct dial *d); /* ends what is under way; idempotent */

/* May what this rule (may be NULL) lets pass have an address that is not public? */
bool dial_may_be_private(const struct rule *rule, const struct host *host);
/* May this address be dialled? NULL, or what it is. */
const char *dial_refused(struct door *door, const struct host *address, uint16_t port,
			 bool private);

/* Before a name is asked for outside: its bytes are counted, as they leave. One that is known, or
 * asked for already, costs nothing. False: a budget is used up, *e says which. */
bool name_pay(struct door *d, const struct rule *r, const struct host *h, bool takes_rate,
	      struct err *e);
