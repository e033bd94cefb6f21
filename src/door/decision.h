/*
 * The one decision path: may this name be resolved, this connection be made, this request be sent?
 *
 *	subject (name | connection | request)  --policy, grants-->  verdict: action and rule
 *	                                                            explain: reason and remedy
 *
 * Any matching deny wins; otherwise the most specific of allow and ask (see policy.h). Deciding
 * changes nothing: whoever acts on a verdict takes of the rule's budget (ledger.h).
 */
#pragma once

#include "base/err.h"
#include "door/policy.h"
#include "net/host.h"
#include "store/denial.h"

struct grants;

enum subject_kind { SUBJECT_NAME, SUBJECT_CONNECTION, SUBJECT_REQUEST };

/* path is normalised; query may be NULL. websocket: it would switch to one, which sends as much as
 * it fetches: a rule that allows GET does not mean it, and one that denies GET does. */
struct request {
	const char *method, *path, *query;
	bool websocket;
};

struct subject {
	enum subject_kind kind;
	const struct host *host;
	uint16_t port;		       /* 0 for a name: any */
	const struct request *request; /* of a request; NULL otherwise */
};

struct verdict {
	enum action action;
	const struct rule *rule; /* borrowed from the policy or the grants; NULL: nothing matched */
	bool inspect;  /* connection: allowed as far as it goes, and each request is decided */
	bool any_name; /* connection: at this port every name is allowed, as it is */
};

/* granted may be NULL. now_ms is wall clock. */
void decision_make(const struct policy *p, const struct grants *granted, const struct subject *s,
		   uint64_t now_ms, struct verdict *ret);
/* For what addr_refused says of one. */
enum denial denial_of_address(const char *refused);
/* Why a verdict denies, and what its owner can do about it, as an ERR_DENIED. Of a request `path`
 * is what is shown. */
enum denial decision_explain(const struct verdict *v, const struct subject *s, const char *box,
			     struct err *e);
/* Some rule that matches host and port looks at paths: only then is a path brought into its one
 * form, or refused because it has none. */
bool policy_has_paths(const struct policy *p, const struct host *h, uint16_t port);
