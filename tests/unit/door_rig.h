/*
 * A door's front in the test's own process, with a keeper's end of its link that the test drives,
 * upstreams on loopback in processes of their own, and doubles for what has tests of its own: the
 * broker (rows are kept in memory), the resolver (a table) and web (which only keeps what it got).
 */
#pragma once

#include "tap.h"

#include "base/buf.h"
#include "door/ask.h"
#include "door/conn.h"
#include "door/door.h"
#include "door/used.h"
#include "wire/link.h"
#include "wire/msg.h"

enum { RIG_IDS_MAX = 1100, RIG_ROWS_MAX = 8192 };
#define RIG_ID(n) (WIRE_NET_BIT | (uint32_t)(n))

/* What the box saw of one id. */
struct seen {
	bool ok, failed, eof, cancelled, hold; /* hold: give no credit */
	struct wire_error error;
	char msg[256];
	struct buf data;
	uint64_t bytes; /* also what was not kept */
	struct wire_flow in, out;
};

struct rig_row {
	char kind[16], verdict[16], host[256], rule[64], reason[256], address[64], by[32];
	uint64_t seq, about, port, up, down;
};

struct rig {
	struct door door;
	struct wire_link box;
	struct seen ids[RIG_IDS_MAX];
	struct rig_row rows[RIG_ROWS_MAX];
	unsigned row_count;
	bool link_closed;
	unsigned denials; /* DENIED notices; the last one: */
	char denied[DNS_NAME_MAX + 1], denied_remedy[DENIAL_REMEDY_MAX];
	uint64_t denied_port, denied_exec;
	bool ids_again; /* ids may be used again: what the box sees of them is not checked */
	unsigned says, verb_ok, verb_failed;
	struct wire_frame said; /* the last SAY */
	uint8_t said_payload[4096];
	/* the broker's double */
	const char *policy, *grants;
	struct used used;
	bool record_fails;
	/* the resolver's: what every name but "nowhere.test" leads to; how often it was asked */
	struct resolved addrs[4];
	size_t addr_count;
	unsigned lookups;
	bool knows; /* all names already */
	/* web's */
	unsigned webs;
	char web_first[4096];
	bool web_tls, web_proxied, web_asked, web_allows;
	unsigned web_ups; /* it got one that was dialled already */
	struct host web_host;
};

extern struct rig rig;

/* It is closed when the test returns; before that by what holds locals of the test. */
void rig_open(const char *policy);
void rig_close(void);
void rig_reload(const char *policy);
/* Runs the loop for a moment; until something is so, or fails the test after a long while. */
void rig_step(void);
#define UNTIL(what)                                                     \
	do {                                                            \
		for (unsigned left_ = 20000; !(what); rig_step())       \
			if (--left_ == 0)                               \
				FAIL("not after a long while: " #what); \
	} while (0)
/* Long enough for what is on its way to arrive: for things that must not happen. */
void rig_settle(void);

void box_connect(unsigned n, const char *host, unsigned port);
void box_proxy(unsigned n);
void box_name(unsigned n, const char *name);
void box_send(unsigned n, const void *p, size_t len);
void box_eof(unsigned n);
void box_cancel(unsigned n);
void box_verb(const char *a, const char *b, const char *c, const char *d, const char *e);

const struct rig_row *rig_row(const char *kind, const char *verdict); /* the last such, or NULL */
unsigned rig_rows(const char *kind, const char *verdict);

enum upstream {
	UP_ECHO,  /* says what it hears, ends when that ends */
	UP_GREET, /* "220 hello\r\n" first, then echo */
	UP_FLOOD, /* 8 MiB, then the end, whatever it hears */
	UP_SINK,  /* reads all, then says how much */
	UP_RESET, /* a reset after the first byte */
	UP_HALF,  /* ends its side at once, then reads all and keeps the count for nobody */
	UP_MUTE,  /* accepts and never reads */
};
/* Its port; it lives until the test ends. */
unsigned upstream_start(enum upstream what);
