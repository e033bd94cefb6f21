/*
 * Names to addresses, by the door itself: /etc/hosts, then the resolvers of /etc/resolv.conf (or
 * the policy's own), over UDP with TCP where an answer was cut. Random ids and source ports,
 * answers only from who was asked, CNAMEs followed within one answer, answers kept as long as they
 * say (1 s to 5 min). No search domains, no other sources of nsswitch.conf.
 */
#pragma once

#include "base/err.h"
#include "door/host.h"
#include "ev/ev.h"

struct resolver;
enum { RESOLVE_ADDRS_MAX = 16 };

struct resolved {
	int family;
	uint8_t addr[16];
};

/* Embedded in whoever asks. on_done comes once and never from within resolve_start: count 0 and r
 * -ENOENT (no such name), -ETIMEDOUT, -EAGAIN (servers failed). */
struct resolve {
	void (*on_done)(struct resolve *q, int r, const struct resolved *addrs, size_t count);
	struct resolver *resolver;
	struct resolve *next;
	bool active;
};

/* server: see policy.h; ss_family 0 for the host's. Reads the host's files now, before the door
 * confines itself. */
int resolver_new(struct resolver **ret, struct ev *ev, const struct sockaddr_storage *server,
		 struct err *e);
void resolver_free(struct resolver *r);
void resolve_start(struct resolver *r, struct resolve *q, const struct host *name);
void resolve_cancel(struct resolve *q); /* not active: fine */
