/*
 * A box's policy: what may leave, and what is added on the way. docs/policy.md is its grammar; the
 * presets (presets/closed.yaml, balanced.yaml, open.yaml) are built in.
 *
 *	version: 1
 *	connections: 64            # at once; the lower of this and --net-conns holds
 *	bytes: 1GiB                # both ways together, for the box's life
 *	ask_timeout: 5m
 *	tls: intercept             # for every rule that does not say "tls: pass"
 *	resolver: 127.0.0.1:5353   # instead of the host's; an address, port 53 unless given
 *	rules:
 *	  - name: openai           # for the audit log; "rule 1" otherwise
 *	    allow: api.openai.com  # or deny, or ask: a host, "*.suffix", "*", an address, a CIDR;
 *	                           # one or a list
 *	    ports: [443]           # 443 and 80 unless given, any for a deny; "any"
 *	    methods: [POST]        # this and the next two: the door intercepts, for requests;
 *	                           # WEBSOCKET is a GET that becomes one, and GET alone is not
 *	    paths: ["/v1/chat**"]  # * within a segment, ** across; see http_path_normalise
 *	    query: ["service=git-upload-pack"]  # of the whole query string, with * as wildcard;
 *	                           # "!..." for one that is not so
 *	    private: true          # may resolve to a private address
 *	    plain_http: true       # inject also where there is no TLS
 *	    rate: 10/s             # requests, or connections: N/s, N/m, N/h
 *	    reuse: true            # upstream connections are kept after a request with a body
 *	    bytes_up: 10MiB        # each for the box's life
 *	    bytes_down: 1GiB
 *	    ask_timeout: 1m
 *	    tls: intercept         # intercept although nothing else asks for it; or "pass":
 *	                           # also plain HTTP passes as it is, for whatever host it names
 *	    inject:
 *	      headers: {Authorization: "Bearer {{ secret.OPENAI }}"}
 *	      query: {key: "{{ secret.KEY }}"}
 *	      basic: {user: x, password: "{{ secret.PW }}"}
 *	    pass: [Cookie]         # credentials that the box sends and that are not removed
 *	    client_cert: {cert: "{{ secret.CERT }}", key: "{{ secret.KEY }}"}
 *
 * Judging: any matching deny wins; otherwise the most specific of allow and ask (an exact name or
 * address before a longer suffix or prefix before a shorter one before "*"; then with methods or
 * paths before without; then a longer path pattern); ask wins ties. Nothing matching: deny. An
 * unknown key, a key twice, a wrong type or an empty list is an error with its line: nothing is
 * guessed.
 */
#pragma once

#include "base/err.h"
#include "door/host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum action { ACTION_DENY, ACTION_ASK, ACTION_ALLOW };

/* Text with {{ secret.NAME }} in it; rendered by inject.h. */
struct value_template {
	const char *text;
};

struct rule_inject {
	const char *header; /* or NULL: a query parameter */
	const char *query;
	struct value_template value;
	const char *basic_user; /* not NULL: Authorization becomes Basic base64(user:value) */
};

struct rule {
	const char *name; /* never NULL */
	unsigned line;	  /* 0: a live grant */
	enum action action;
	bool private, plain_http, intercept;
	bool reuse;	/* its upstreams read bodies: a connection outlives a request with one */
	bool pass;	/* said so: passed through, and no Host is compared */
	bool once;	/* a grant for one connection: rule_take gives it out */
	bool by_method; /* it lists methods */
	/* Credentials of the box itself that a rule that injects does not remove. */
	const char *const *kept;
	size_t kept_count;
	const struct rule_inject *inject;
	size_t inject_count;
	struct value_template client_cert, client_key; /* text NULL: none */
	uint64_t ask_timeout_ms;
	/* Budgets, with what was used so far. 0: none. */
	unsigned rate_count;
	uint64_t rate_window_ms;
	uint64_t bytes_up, bytes_down;
	struct rule_use *use; /* policy.c's; see rule_take, rule_count */
};

struct policy;

/* The text of a preset ("closed", "none", "balanced", "open"), or NULL. */
const char *policy_preset(const char *name);

/* name is for messages: "policy.yaml:12: ...". YAML, of which JSON is a part. Empty text is an
 * error, as is everything that is not understood. */
int policy_parse(struct policy **ret, const char *name, const char *text, size_t len,
		 struct err *e);
void policy_free(struct policy *p); /* NULL is fine */
/* A policy that denies everything: what a door has when it could read none. */
struct policy *policy_closed(void);

/* For the whole box; 0: none given. */
struct policy_limits {
	uint64_t connections, bytes;
	struct sockaddr_storage resolver; /* ss_family 0: the host's */
};
const struct policy_limits *policy_limits(const struct policy *p);
/* Every secret that a rule names, each once, with the first rule that names it; 0 after the last.
 * */
bool policy_secret(const struct policy *p, size_t i, const char **ret_name,
		   const struct rule **ret_rule);
bool policy_intercepts(const struct policy *p); /* some rule intercepts */

/* A live change (`cove allow`, `cove deny`): counts as a rule before all others. pattern is
 * "HOST[:PORT]" as in a rule; allow and deny match any method and path. A deny still wins, also a
 * written one; of two grants for the same pattern the later holds as long as it lasts. until_ms is
 * wall clock, as is every now_ms here; 0 for ever; once: used up by the first rule_take. */
int policy_grant(struct policy *p, enum action action, const char *pattern, uint64_t until_ms,
		 bool once, struct err *e);

/* The pattern of the i-th grant for once that was not used, the newest first; NULL after the last.
 * */
const char *policy_once(const struct policy *p, size_t i, enum action *ret_action);

/* The first moment after after_ms when a grant ends; 0: none does. */
uint64_t policy_next_end(const struct policy *p, uint64_t after_ms);

struct verdict {
	enum action action;
	struct rule *rule; /* borrowed; NULL: nothing matched */
	bool inspect;	   /* connect only: allowed as far as it goes, each request is judged */
	bool addresses;	   /* the rule names the address or a CIDR that has it */
	bool any_name;	   /* connect only: at this port every name is allowed, as it is */
};

/* May the name be resolved: is there an allow or ask for any port, and no deny for all of them. */
void policy_judge_name(const struct policy *p, const struct host *h, uint64_t now_ms,
		       struct verdict *ret);
void policy_judge_connect(const struct policy *p, const struct host *h, uint16_t port,
			  uint64_t now_ms, struct verdict *ret);
/* Some rule that matches host and port looks at paths: only then is a path brought into its one
 * form, or refused because it has none. */
bool policy_has_paths(const struct policy *p, const struct host *h, uint16_t port);
/* path is normalised; query may be NULL. websocket: it would switch to one, which sends as much as
 * it fetches: a rule that allows GET does not mean it, and one that denies GET does. */
struct request {
	const char *method, *path, *query;
	bool websocket;
};
void policy_judge_request(const struct policy *p, const struct host *h, uint16_t port,
			  const struct request *r, uint64_t now_ms, struct verdict *ret);

/* Takes one of the rule's rate, and of a grant's once: false when it is used up. */
bool rule_take(struct rule *r, uint64_t now_ms);
/* Takes one for a name that is asked for outside. It pays for the first that is taken after it,
 * which is the connection that the name is for. */
bool rule_take_name(struct rule *r, uint64_t now_ms);
/* The last one taken was for something that is asked about anew. */
void rule_give_back(struct rule *r);
/* Counts bytes: false when the budget is over, and then the connection is cut. */
bool rule_count(struct rule *r, uint64_t up, uint64_t down);
/* How many more bytes its budget lets go that way; UINT64_MAX without one. */
uint64_t rule_room(const struct rule *r, bool is_up);
/* Budgets go on where they were in a policy that replaces another: rules of the same name. */
void policy_carry_over(struct policy *to, const struct policy *from);
/* So do grants for once that were not used. */
int policy_carry_once(struct policy *to, const struct policy *from, struct err *e);
