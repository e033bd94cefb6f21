/*
 * A box's policy: what may leave, and what is added on the way. docs/policy.md is its grammar; some
 * are built in (presets.h).
 *
 *	version: 1
 *	connections: 64            # at once; the lower of this and --net-conns holds
 *	bytes: 1GiB                # both ways together, for the box's life
 *	ask_timeout: 5m
 *	tls: intercept             # for every rule that does not say "tls: pass"
 *	resolver: 127.0.0.1:5353   # instead of the host's; an address, port 53 unless given
 *	use: [balanced, conda]     # the rules of presets and groups, as if they stood below
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
 *	    ranges: true           # parts of an answer may be asked for beside `inject`
 *	    ech: true              # a hello with an encrypted name passes, whatever it hides
 *	    pass: [Cookie]         # credentials that the box sends and that are not removed
 *	    client_cert: {cert: "{{ secret.CERT }}", key: "{{ secret.KEY }}"}
 *
 * Judging: any matching deny wins; otherwise the most specific of allow and ask (an exact name or
 * address before a longer suffix or prefix before a shorter one before "*"; then with methods or
 * paths before without; then a longer path pattern); ask wins ties, then `private: true`. Nothing
 * matching: deny. An unknown key, a key twice, a wrong type or an empty list is an error
 * with its line: nothing is guessed.
 */
#pragma once

#include "base/err.h"
#include "net/host.h"

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
	unsigned line;	  /* 0: a grant's */
	enum action action;
	bool private, plain_http, intercept;
	bool ranges;	/* with inject: Range passes, so an answer may come in parts */
	bool ech;	/* passed through: a hidden name beside the judged one is no matter */
	bool reuse;	/* its upstreams read bodies: a connection outlives a request with one */
	bool pass;	/* said so: passed through, and no Host is compared */
	bool once;	/* a grant for one connection: grants_spend uses it up */
	bool by_method; /* it lists methods */
	/* Credentials of the box itself that a rule that injects does not remove. */
	const char *const *kept;
	size_t kept_count;
	const struct rule_inject *inject;
	size_t inject_count;
	struct value_template client_cert, client_key; /* text NULL: none */
	uint64_t ask_timeout_ms;
	/* Budgets; what was used of them is in the ledger. 0: none. */
	unsigned rate_count;
	uint64_t rate_window_ms;
	uint64_t bytes_up, bytes_down;
};

/* It adds a credential of ours to what it lets through: to its requests, or as the identity of the
 * connection, where requests stay as they are. */
static inline bool rule_injects(const struct rule *r)
{
	return r->inject_count > 0 || r->client_cert.text;
}

/* Never changes once it was read. */
struct policy;

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
/* `tls: intercept` at the top: grants intercept too. */
bool policy_grants_intercept(const struct policy *p);
