/*
 * Grants: what a person allowed or denied while the box runs (`cove allow`, `cove deny`). Each
 * counts as a rule before all others; a deny still wins, also a written one. Of two for the same
 * host and port the later holds for as long as it lasts.
 *
 * The door has one set at a time, and builds another when it reads its policy again; a rule of a
 * grant is borrowed until then, used up or not. Moments are of the wall clock.
 */
#pragma once

#include "door/policy_form.h"

struct grant {
	struct entry entry;
	const char *aim;   /* as it was given */
	uint64_t until_ms; /* 0: for ever */
	bool is_spent;	   /* for one connection, and that was there */
	struct grant *older;
};

struct grants;

/* intercepts: as `tls: intercept` at the top of the policy (policy_grants_intercept). */
struct grants *grants_new(bool intercepts);
void grants_free(struct grants *all); /* NULL is fine */
/* pattern is "HOST[:PORT]" as in a rule, for any method and path. once: used up by the first
 * grants_spend. At most DOOR_GRANTS_MAX that are still good. */
int grants_add(struct grants *all, enum action action, const char *pattern, uint64_t until_ms,
	       bool once, struct err *e);
/* Those of another set that are for once and not used, the older first. */
int grants_carry_once(struct grants *to, const struct grants *from, struct err *e);

/* The next one that lasts, the newest first; before NULL: the first. NULL after the last. */
const struct grant *grants_next(const struct grants *all, const struct grant *before,
				uint64_t now_ms);
/* No later one for the same lasts. */
bool grants_holds(const struct grants *all, const struct grant *g, uint64_t now_ms);
/* Uses up the one that this rule is of, where it is for once: false if it was used before. */
bool grants_spend(struct grants *all, const struct rule *r);
/* It was for something that is decided anew. */
void grants_give_back(struct grants *all, const struct rule *r);
/* The pattern of the i-th for once that was not used, the newest first; NULL after the last. */
const char *grants_once(const struct grants *all, size_t i, enum action *ret_action);
/* The first moment after after_ms when one ends; 0: none does. */
uint64_t grants_next_end(const struct grants *all, uint64_t after_ms);
