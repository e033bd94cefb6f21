/*
 * The clerk: the door's back room, a process of its own. The front meets the network and the box,
 * and can open no file at all. What it needs from disk it asks the clerk for, over a socketpair:
 *
 *	the policy and the live grants of this box, and what it has used of budgets
 *	the value of a secret that this policy names, and no other: the clerk reads the policy
 *	itself rows for the record, written before the answer
 *
 * So a front that was taken over still has only this box's credentials, and cannot change a row
 * that was written. The clerk is forked before the front confines itself, reads nothing from the
 * network, and ends with the front. If it ends first, the front ends: nothing passes unrecorded.
 *
 * One request after another each way; a command that provides a secret runs beside them, with a
 * limit of CLERK_COMMAND_MS. Rows reach the disk itself (fdatasync) within half a second and at
 * the end. A box that causes too many of them waits (AUDIT_RATE).
 */
#pragma once

#include "base/err.h"
#include "door/config.h"
#include "door/secret.h"
#include "ev/ev.h"
#include "store/audit.h"

struct clerk;

/* Embedded in whoever asks. on_answer comes once, never from within the asking call; r is 0 or
 * -errno, with a sentence in *e. */
struct clerk_call {
	void (*on_answer)(struct clerk_call *c, int r, struct err *e);
	uint64_t seq;	      /* of a row that was recorded */
	struct secret secret; /* owned by the call: its value; take it or secret_done it */
	char *text;	      /* owned by the call: a policy, or grants */
	size_t len;
	uint32_t id; /* 0: not under way */
	struct clerk_call *next;
};

/* Forks. Must be called before anything is confined or threaded. */
int clerk_start(struct clerk **ret, struct ev *ev, const struct door_config *config, struct err *e);
/* Set by the owner: the clerk is gone. */
void clerk_on_gone(struct clerk *k, void (*on_gone)(void *arg), void *arg);
/* More waits for it than it took so far: nothing that makes rows should be begun. Whoever was told
 * so hears of it when there is room again, never from within a call here. */
bool clerk_is_busy(struct clerk *k);
void clerk_on_room(struct clerk *k, void (*on_room)(void *arg), void *arg);
/* Why rows are refused, and with them all that is to be let through: they cannot be written.
 * ERR_NONE while all is well. */
const struct err *clerk_trouble(const struct clerk *k);
/* False once its process held a value in memory that could not be locked. */
bool clerk_memory_is_locked(const struct clerk *k);
struct ev *clerk_ev(const struct clerk *k);
void clerk_free(struct clerk *k); /* waits until all rows are written */

void clerk_ask_policy(struct clerk *k, struct clerk_call *c);
void clerk_ask_grants(struct clerk *k, struct clerk_call *c);
void clerk_ask_secret(struct clerk *k, struct clerk_call *c, const char *name);
/* What was used of budgets, and more of it: text of used.h, no more than CLERK_USED_MAX bytes. It
 * is on the disk half a second later, or when the front has ended, however it did. */
enum { CLERK_USED_MAX = 32 << 10 };
void clerk_ask_used(struct clerk *k, struct clerk_call *c);
void clerk_say_used(struct clerk *k, const char *text, size_t len);
/* c may be NULL: nobody waits. */
void clerk_record(struct clerk *k, struct clerk_call *c, const struct audit_row *row);
void clerk_cancel(struct clerk *k, struct clerk_call *c); /* the answer is dropped and wiped */
