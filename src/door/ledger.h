/*
 * The ledger: what a box has used of its rules' budgets, keyed by the rule's name. It stands beside
 * the policy, which says what the budgets are and never changes: a policy that replaces another
 * finds what rules of the same names have used. Grants have no budgets and are not in it.
 *
 * It outlives the door: what has changed is reported to the broker (used.h), and a new door loads
 * it. Nothing that is loaded gives anything back. now_ms is wall clock.
 */
#pragma once

#include "base/buf.h"
#include "door/policy.h"
#include "door/used.h"

struct ledger_line {
	struct used_line now, reported;
	unsigned prepaid; /* see ledger_take_name */
	bool is_limited;  /* its rule has a budget */
};

/* A struct of zeros is empty. */
struct door_ledger {
	struct ledger_line *lines; /* owned */
	size_t count;
};

void ledger_done(struct door_ledger *l);
/* This policy holds now: lines of rules that it does not have are forgotten, and those of rules
 * that have a budget now are reported with all that was used before. */
void ledger_retain(struct door_ledger *l, const struct policy *p);

/* Takes one of the rule's rate: false when it is used up, or (also below) without memory. */
bool ledger_take(struct door_ledger *l, const struct rule *r, uint64_t now_ms);
/* Takes one for a name that is asked for outside. It pays for the first that is taken after it,
 * which is the connection that the name is for. */
bool ledger_take_name(struct door_ledger *l, const struct rule *r, uint64_t now_ms);
/* The last one taken was for something that is decided anew. */
void ledger_give_back(struct door_ledger *l, const struct rule *r);
/* Counts bytes: false when the budget is over, and then the connection is cut. */
bool ledger_count(struct door_ledger *l, const struct rule *r, uint64_t up, uint64_t down);
/* How many more bytes its budget lets go that way; UINT64_MAX without one. */
uint64_t ledger_room(const struct door_ledger *l, const struct rule *r, bool is_up);

/* Lines of rules with a budget of which more was used than was reported: as many as fit into out,
 * the others with the next call. */
void ledger_report(struct door_ledger *l, struct buf *out);
/* No rule has used less than is said here. ret is the line of the box. -EBADMSG, -ENOMEM. */
int ledger_load(struct door_ledger *l, const char *text, size_t len, struct used_line *ret);
