/*
 * cove-door: the only way out of one box. Two processes: the broker (broker.h) and this, the proxy,
 * which has the link to the keeper, the policy and every connection.
 *
 *	keeper --NAME----> names.c: judge, resolve -> OK | ERROR
 *	       --CONNECT-> conn.c: judge -> ask? -> row -> resolve, check, dial -> tunnel.c | web.c
 *	       --DOOR----> control.c: reload, asks, answer, allow, deny, status
 *
 * A connection's first bytes decide how it goes on (conn.c):
 *	a proxy's       CONNECT, or a request in absolute form: then as below for that host
 *	TLS             its SNI must be the name. A rule that intercepts: TLS both ways and web.c;
 *	                otherwise the bytes pass as they are (tunnel.c)
 *	other           a rule that intercepts: HTTP without TLS, web.c; otherwise tunnel.c, which
 *	                waits for nothing: a server that speaks first is dialled at once and what
 *	                the box says first is looked at when it comes
 *
 * Judged before dialled, recorded before the first byte leaves. Without a policy that could be read
 * everything is denied.
 */
#pragma once

#include "door/broker.h"
#include "door/channel_wire.h"
#include "door/config.h"
#include "door/decision.h"
#include "door/grants.h"
#include "door/ledger.h"
#include "door/policy.h"
#include "door/resolve.h"
#include "ev/ev.h"
#include "http/http.h"
#include "net/channel.h"
#include "net/channel_tcp.h"
#include "net/tls.h"
#include "store/denial.h"
#include "store/net.h"
#include "wire/link.h"
#include "wire/msg.h"

/* For all heads that the door reads, from boxes and from upstreams. */
extern const struct http_limits door_http_limits;

struct door_conn;
struct door_ask;
struct name_query;
struct reload;

/* Who changed what, for the audit log. */
struct policy_change {
	const char *by;	     /* NULL: the door begins */
	const char *verdict; /* allow or deny: a grant was made; NULL: it is another policy */
	const char *pattern; /* of a grant; otherwise what the policy is called, or NULL */
	uint64_t for_ms;     /* 0: for ever */
};

struct door {
	struct ev *ev;
	struct door_config config;
	struct wire_link keeper;
	struct exchange exchange; /* the box's connections on it */
	struct broker *broker;
	struct policy *policy;	   /* owned, never NULL; replaced, not changed */
	struct grants *grants;	   /* owned; NULL: none */
	struct door_ledger ledger; /* of the policy's rules */
	struct resolver *resolver;
	struct tcp_room tcp_room;
	struct tls *tls;
	struct door_conn *conns; /* owned, all of them */
	unsigned conn_count;
	struct name_query *names;	/* owned */
	struct door_ask *asks;		/* owned */
	uint64_t bytes_up, bytes_down;	/* of the box's life, earlier doors included in bytes_up */
	struct reload *reloads;		/* owned */
	char policy_name[NET_NAME_MAX]; /* a preset's, a file's as it was typed, or "file" */
	struct err trouble;		/* why the policy is closed although another was meant */
	unsigned cut;			/* connections, by the last policy */
	bool keeps_once;		/* judging again leaves alone what a grant let in once */
	uint64_t next_ask;
	uint64_t own_ms;       /* when the host's own addresses were read last */
	struct ev_timer ends;  /* armed while a grant or an answer has an end */
	uint64_t ends_seen_ms; /* wall clock: ends until then were looked at */
	struct ev_timer used;  /* armed while bytes were counted that the broker does not know of */
	uint64_t said_bytes;   /* of bytes_up and bytes_down */
	struct ev_signals signals;
	bool is_open; /* it said HELLO */
	bool ending;
	bool failed; /* it ends because it must, not because it may */
};

/* The lower of what the policy and the box's limits say; 0: none. */
uint64_t door_bytes_max(const struct door *d);
uint64_t door_conns_max(const struct door *d);
/* decision_make with what holds now. */
void door_decide(const struct door *d, const struct subject *s, struct verdict *ret);
/* Counts bytes of a connection for the box and for its rule. False: over, cut it. */
bool door_count(struct door *d, const struct rule *r, uint64_t up, uint64_t down);
/* Takes one of a rule's rate (NULL: none), and has it written down that it is gone. */
bool door_take(struct door *d, const struct rule *r);
void door_give_back(struct door *d, const struct rule *r); /* it is decided anew */
void door_say_used(struct door *d);			   /* what has changed, to the broker */
/* How many bytes may still go that way: no more than these are written, or a budget would let a
 * piece out with every connection. */
uint64_t door_room(const struct door *d, const struct rule *r, bool is_up);

/* Records a row that denies (call may be NULL), and tells the keeper; before the box has its
 * answer, so that the command it is for has not ended yet. */
/* Why the door denies by this verdict, or by none because the policy cannot be read, as an
 * ERR_DENIED. */
enum denial door_explain(const struct door *d, const struct verdict *v, const struct subject *s,
			 struct err *e);
void door_deny(struct door *d, struct broker_call *call, struct audit_row *row, enum denial why);

/* conn.c */
void door_conn_start(struct door *d, uint32_t id, const struct wire_connect *m);
/* A new policy or grant: every open connection, or (one more allow) those that wait for a person,
 * is judged again, and cut if it would not be allowed now. Returns how many were cut. */
unsigned door_conns_judge(struct door *d, bool only_asked);
void door_conns_free(struct door *d);

/* names.c */
void name_start(struct door *d, uint32_t id, const struct wire_name *m);
bool name_cancel(struct door *d, uint32_t id);
/* Every name that is on its way to the resolver is judged again. */
void names_judge_again(struct door *d);
void names_free(struct door *d);

/* ends.c */
/* Grants, or answers that hold for a time, may have changed: their next end is waited for. */
void door_watch_ends(struct door *d);
/* One has ended that was not asked about before. */
bool door_has_ended(struct door *d);

/* control.c: answers with SAY frames, then OK, or ERROR. Verbs:
 *	status                     struct wire_door_status
 *	reload [policy [NAME] | allow|deny HOST[:PORT] [for MS]]
 *	                           reads policy and grants again, and records what changed; struct
 *	                           wire_cut. Grants for once outlive others, but not another policy;
 *	                           answers hold as long as they were to, where a rule still asks
 *	once allow|deny HOST[:PORT]  for one connection, not kept; struct wire_cut
 *	grants                     "allow|deny HOST[:PORT]" for each of those, not yet used
 *	asks                       struct wire_ask for each held request
 *	answer ID allow|deny [for MS|once]  struct wire_ask: what the answer is for
 */
void control_start(struct door *d, uint32_t id, const struct wire_door *m);
/* Policy and grants from the broker; what cannot be read becomes policy_closed, and is said in *e.
 * */
void door_reload(struct door *d, const struct policy_change *change,
		 void (*on_done)(struct door *d, void *arg, struct err *e), void *arg);
void reloads_free(struct door *d);

/* door.c: a whole life, with descriptors 3 and 4 as config.h says; the exit status. */
int door_run(void);
/* The last answer to a request of the keeper's: OK, or where r is negative *e. */
void door_reply(struct door *d, uint32_t id, int r, const struct err *e);
/* A frame of the keeper's: false if it breaks the protocol. */
bool door_frame(struct door *d, const struct wire_frame *f);
