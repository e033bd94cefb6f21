/*
 * A web (door/web.h) between two sockets that the test holds, with doubles for the broker (secrets
 * from a table, rows kept in memory), for the resolver and for the sockets and TLS of upstreams (a
 * connect gives one end of a socketpair). What the sides are told is a list of texts; what they
 * hear is gathered.
 */
#pragma once

#include "tap.h"

#include "base/buf.h"
#include "door/ask.h"
#include "door/policy.h"
#include "door/web.h"

enum { WR_UPS = 16, WR_ROWS = 4096, WR_GOT = 8 << 20, WR_WRITES = 4096 };

struct wr_end {
	int fd; /* the test's own end; -1: none */
	struct buf got;
	bool ended;	/* the web ended its side */
	bool cut;	/* the web's channel was freed with abort */
	bool freed;	/* or without */
	bool deaf;	/* the test does not read */
	bool break_end; /* the end of what the test says is no clean one */
	unsigned turns; /* calls of on_ready */
	/* how much each write of the web's had, the first of them */
	size_t writes[WR_WRITES];
	unsigned write_count;
};

struct wr_row {
	char kind[16], verdict[16], reason[256], credential[64], method[40], path[256], rule[64];
	uint64_t seq, about, up, down, status;
};

struct wr_secret {
	const char *name, *value;
	size_t len; /* 0: strlen */
};

struct wr {
	struct door door;
	struct web *web;
	struct wr_end box, ups[WR_UPS];
	unsigned up_count, dials; /* connected, looked up */
	bool done;
	struct wr_row rows[WR_ROWS];
	unsigned row_count;
	uint64_t now;
	/* set before */
	size_t chunk; /* bytes of one read or write of the web's; 0: any */
	bool plain, proxied, has_up;
	struct wr_secret secrets[4];
	uint8_t address[4]; /* of up.test; all 0: one that may be dialled */
	int connect_error;  /* 0: it works */
	bool record_fails, hold_secrets;
	const char *identity_cert;
};

extern struct wr wr;

/* For up.test port 443. first: what was read before; may be NULL. Closed when the test returns. */
void wr_open(const char *policy, const char *first);
void wr_close(void);
/* Until nothing moves any more. */
void wr_settle(void);
void box_says(const char *text);
void box_says_bytes(const void *p, size_t n);
void up_says(unsigned i, const char *text);
void up_says_bytes(unsigned i, const void *p, size_t n);
void box_ends(void);
void up_ends(unsigned i);
/* What was heard since the last time, as text; settles first. */
const char *box_hears(void);
const char *up_hears(unsigned i);
void wr_policy(const char *text); /* another one; the web is not told */
unsigned wr_rows(const char *kind, const char *verdict);
const struct wr_row *wr_row(const char *kind, const char *verdict); /* the last, or NULL */
