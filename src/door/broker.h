/*
 * The broker: the door's second process. The proxy meets the network and the box,
 * and can open no file at all. What it needs from disk it asks the broker for, over a socketpair:
 *
 *	the policy and the live grants of this box, and what it has used of budgets
 *	the value of a secret that this policy names, and no other: the broker reads the policy
 *	itself rows for the audit log, written before the answer
 *
 * So a proxy that was taken over still has only this box's credentials, and cannot change a row
 * that was written. The broker is forked before the proxy confines itself, reads nothing from the
 * network, and ends with the proxy. If it ends first, the proxy ends: nothing passes unrecorded.
 *
 * One request after another each way; a command that provides a secret runs beside them, with a
 * limit of BROKER_COMMAND_MS. Rows reach the disk itself (fdatasync) within half a second and at
 * the end. A box that causes too many of them waits (AUDIT_RATE).
 */
#pragma once

#include "base/err.h"
#include "door/broker_wire.h"
#include "door/config.h"
#include "door/secret.h"
#include "ev/ev.h"
#include "store/audit.h"

struct broker;

/* Embedded in whoever asks. on_answer comes once, never from within the asking call; r is 0 or
 * -errno, with a sentence in *e. */
struct broker_call {
	void (*on_answer)(struct broker_call *c, int r, struct err *e);
	uint64_t seq;	      /* of a row that was recorded */
	struct secret secret; /* owned by the call: its value; take it or secret_done it */
	char *text;	      /* owned by the call: a policy, or grants */
	size_t len;
	uint32_t id; /* 0: not under way */
	struct broker_call *next;
};

/* Forks. Must be called before anything is confined or threaded. */
int broker_start(struct broker **ret, struct ev *ev, const struct door_config *config,
		 struct err *e);
/* The owner learns that the broker is gone, and when there is room again; either may be NULL. */
void broker_watch(struct broker *k, void (*on_gone)(void *arg), void (*on_room)(void *arg),
		  void *arg);
/* More waits for it than it took so far: nothing that makes rows should be begun. Whoever asked
 * learns when there is room again (on_room), never from within a call here. */
bool broker_is_busy(struct broker *k);
/* Why rows are refused, and with them all that is to be let through: they cannot be written.
 * ERR_NONE while all is well. */
const struct err *broker_trouble(const struct broker *k);
/* False once its process held a value in memory that could not be locked. */
bool broker_memory_is_locked(const struct broker *k);
struct ev *broker_ev(const struct broker *k);
void broker_free(struct broker *k); /* waits until all rows are written */

/* BROKER_POLICY, BROKER_GRANTS or BROKER_USED: a text, in the call. */
void broker_ask(struct broker *k, struct broker_call *c, enum broker_verb verb);
void broker_ask_secret(struct broker *k, struct broker_call *c, const char *name);
/* More of what was used of budgets: text of used.h, no more than BROKER_USED_MAX bytes. It
 * is on the disk half a second later, or when the proxy has ended, however it did. */
enum { BROKER_USED_MAX = 32 << 10 };
void broker_say_used(struct broker *k, const char *text, size_t len);
/* The broker gives the row its time. c may be NULL: no answer is wanted. */
void broker_record(struct broker *k, struct broker_call *c, const struct audit_row *row);
void broker_cancel(struct broker *k, struct broker_call *c); /* the answer is dropped and wiped */
