/*
 * Names to addresses, by the door itself: /etc/hosts, then the resolvers of /etc/resolv.conf (or
 * the policy's own), over UDP with TCP where an answer was cut. Random ids and source ports,
 * answers only from who was asked, CNAMEs followed within one answer, answers kept as long as they
 * say (1 s to 5 min). No search domains, no other sources of nsswitch.conf.
 */
#pragma once

#include "base/err.h"
#include "ev/ev.h"
#include "net/host.h"

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
	struct lookup *lookup; /* NULL: not under way */
	struct resolve *next;
};

/* Reads the host's files now, before the door confines itself. */
int resolver_new(struct resolver **ret, struct ev *ev, struct err *e);
/* Another server than the host's from now on; ss_family 0: the host's. What was known is forgotten.
 * */
void resolver_use(struct resolver *r, const struct sockaddr_storage *server);
void resolver_free(struct resolver *r); /* not from within on_done; what is under way is dropped */
/* The name is known, or asked for already: resolve_start would send no query. */
bool resolver_knows(struct resolver *r, const struct host *name);
/* -ENOBUFS beyond DOOR_LOOKUPS_MAX. An address is its own answer. */
int resolve_start(struct resolver *r, struct resolve *q, const struct host *name);
void resolve_cancel(struct resolve *q); /* not under way: fine */
