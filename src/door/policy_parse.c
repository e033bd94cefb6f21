/*
 * A policy's text, checked against its grammar; see policy.h.
 *
 * How it works: tree.c makes a tree, tables of keys say what may stand where, one small function
 * reads each key. Every complaint has a line, names the key and says what to write. What a rule
 * says twice over or in vain is an error too: a policy does exactly what it looks like.
 */
#include "base/size.h"
#include "base/str.h"
#include "door/policy_form.h"
#include "http/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_MS_MAX = 24 * 3600 * 1000, KEYS_MAX = 24, METHOD_MAX = 32 };

/* read is for what is special; read_at for a value that only has to be put into its place. */
struct policy_key {
	const char *name;
	int (*read)(struct policy_reading *x, struct entry *r, const struct policy_node *v);
	int (*read_at)(struct policy_reading *x, const struct policy_node *v, void *at);
	size_t at; /* in struct entry, or at the top in struct policy */
};

int reading_unknown(struct policy_reading *x, const struct policy_node *v, const char *const *names)
{
	const char *near = str_closest(v->key, names);

	if (near)
		return source_error(&x->src, v->key_line, "no key '%.40s' here; did you mean '%s'?",
				    v->key, near);
	return source_error(&x->src, v->key_line, "no key '%.40s' here; see docs/policy.md",
			    v->key);
}

int reading_map(struct policy_reading *x, const struct policy_node *v)
{
	if (v->kind != NODE_MAP || v->count == 0)
		return source_error(&x->src, v->line, "'%s' must be a mapping (key: value)",
				    v->key);
	return 0;
}

/* Nothing, as YAML writes it. */
static bool is_null(const struct policy_node *v)
{
	return v->kind == NODE_TEXT && !v->quoted &&
	       (!*v->text || !strcmp(v->text, "~") || !strcasecmp(v->text, "null"));
}

int reading_text(struct policy_reading *x, const struct policy_node *v, const char **ret)
{
	const char *key = v->key ? v->key : "an item of a list";

	if (v->kind != NODE_TEXT)
		return source_error(&x->src, v->line, "'%s' must be text", key);
	if (is_null(v) || !*v->text)
		return source_error(&x->src, v->line,
				    "'%s' is empty; give it a value or leave it out", key);
	*ret = arena_strdup(&x->policy->arena, v->text, strlen(v->text));
	return *ret ? 0 : source_no_memory(&x->src);
}

static int read_map(struct policy_reading *x, struct entry *r, const struct policy_node *map,
		    const struct policy_key *keys)
{
	const char *names[KEYS_MAX + 1] = {NULL};

	for (size_t i = 0; keys[i].name; i++)
		names[i] = keys[i].name;
	for (const struct policy_node *v = map->first; v; v = v->next) {
		const struct policy_key *k = keys;
		int rc;

		while (k->name && strcmp(k->name, v->key) != 0)
			k++;
		if (!k->name)
			return reading_unknown(x, v, names);
		if (k->read)
			rc = k->read(x, r, v);
		else
			rc = k->read_at(x, v, (r ? (char *)r : (char *)x->policy) + k->at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

const struct policy_node *reading_find(const struct policy_node *map, const char *key)
{
	for (const struct policy_node *v = map->first; v; v = v->next)
		if (strcmp(v->key, key) == 0)
			return v;
	return NULL;
}

/* The items of a list, or the one text that stands for a list of one. */
static int list_of(struct policy_reading *x, const struct policy_node *v,
		   const struct policy_node **ret_first, size_t *ret_count)
{
	*ret_first = v->kind == NODE_LIST ? v->first : v;
	*ret_count = v->kind == NODE_LIST ? v->count : 1;
	if (v->kind == NODE_MAP)
		return source_error(&x->src, v->line, "'%s' must be text or a list", v->key);
	if (*ret_count == 0 || is_null(v))
		return source_error(&x->src, v->line,
				    "'%s' is empty; give it a value or leave it out", v->key);
	if (*ret_count > POLICY_LIST_MAX)
		return source_error(&x->src, v->line, "'%s' has more than %u items", v->key,
				    POLICY_LIST_MAX);
	return 0;
}

int reading_texts(struct policy_reading *x, const struct policy_node *v, struct texts *ret,
		  const char *(*check)(const char *text))
{
	const struct policy_node *item;
	size_t count;
	int r = list_of(x, v, &item, &count);

	if (r < 0)
		return r;
	ret->items = arena_array(&x->policy->arena, count, sizeof(*ret->items));
	if (!ret->items)
		return source_no_memory(&x->src);
	for (size_t i = 0; i < count; i++, item = item->next) {
		const char *wrong;

		if (item->kind != NODE_TEXT || is_null(item))
			return source_error(&x->src, item->line, "'%s' has an item that is no text",
					    v->key);
		wrong = check(item->text);
		if (wrong)
			return source_error(&x->src, item->line, "%s '%.60s': %s", v->key,
					    item->text, wrong);
		ret->items[i] = arena_strdup(&x->policy->arena, item->text, strlen(item->text));
		if (!ret->items[i])
			return source_no_memory(&x->src);
		ret->count++;
	}
	return 0;
}

static int read_bool(struct policy_reading *x, const struct policy_node *v, void *at)
{
	if (v->kind == NODE_TEXT && !v->quoted && strcmp(v->text, "true") == 0)
		*(bool *)at = true;
	else if (v->kind != NODE_TEXT || v->quoted || strcmp(v->text, "false") != 0)
		return source_error(&x->src, v->line, "'%s' must be true or false", v->key);
	return 0;
}

static int read_size(struct policy_reading *x, const struct policy_node *v, void *at)
{
	uint64_t *ret = at;

	if (v->kind != NODE_TEXT || !size_parse(v->text, ret) || *ret == 0)
		return source_error(&x->src, v->line,
				    "'%s' must be a size above 0, such as 500KiB or 1GiB", v->key);
	return 0;
}

static int read_ask_ms(struct policy_reading *x, const struct policy_node *v, void *at)
{
	uint64_t *ret = at;

	if (v->kind != NODE_TEXT || !str_parse_ms(v->text, ret) || *ret == 0 || *ret > ASK_MS_MAX)
		return source_error(&x->src, v->line,
				    "'%s' must be a time up to 24h, such as 90s or 5m", v->key);
	return 0;
}

bool pattern_is_private(const struct pattern *p)
{
	const char *first_is, *last_is;
	uint8_t last[16];
	unsigned bits = p->cidr.family == AF_INET ? 32 : 128;

	if (p->kind != PATTERN_CIDR)
		return false;
	memcpy(last, p->cidr.addr, sizeof(last));
	for (unsigned i = p->cidr.bits; i < bits; i++)
		last[i / 8] |= (uint8_t)(0x80u >> (i % 8));
	first_is = addr_special(p->cidr.family, p->cidr.addr);
	last_is = addr_special(p->cidr.family, last);
	/* Between two ends of different kinds there may be anything. */
	return first_is && last_is && strcmp(first_is, last_is) == 0;
}

const char *pattern_parse(struct pattern *ret, struct arena *a, const char *text)
{
	bool suffix = str_starts(text, "*.");
	struct host h;

	*ret = (struct pattern){.kind = PATTERN_ANY};
	if (strcmp(text, "*") == 0)
		return NULL;
	if (strstr(text, "://"))
		return "a host is written without http:// or https://";
	if (cidr_parse(&ret->cidr, text) == 0) {
		ret->kind = PATTERN_CIDR;
		return NULL;
	}
	if (strchr(text, '/'))
		return "no network: an address, a slash, a length, and only zeros beyond it; a "
		       "path belongs into `paths`";
	if (strchr(text, ':'))
		return "no IPv6 address; a port belongs into `ports`";
	if (strchr(suffix ? text + 2 : text, '*'))
		return "a star stands alone or first, as in *.example.com";
	if (host_parse(&h, suffix ? text + 2 : text) < 0 || h.is_address)
		return "neither a host name (in other scripts as xn--...) nor an address";
	ret->kind = suffix ? PATTERN_SUFFIX : PATTERN_NAME;
	ret->len = strlen(h.text) + suffix;
	ret->text = arena_alloc(a, ret->len + 1);
	if (!ret->text)
		return "no memory";
	memcpy((char *)(uintptr_t)ret->text, ".", suffix);
	memcpy((char *)(uintptr_t)ret->text + suffix, h.text, strlen(h.text));
	return NULL;
}

/* allow, ask or deny. */
static int read_hosts(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	const struct policy_node *item;
	size_t count;
	int rc = list_of(x, v, &item, &count);

	if (rc < 0)
		return rc;
	if (r->patterns)
		return source_error(&x->src, v->key_line,
				    "'%s': a rule has one of allow, ask and deny; make two rules",
				    v->key);
	r->patterns = arena_array(&x->policy->arena, count, sizeof(*r->patterns));
	if (!r->patterns)
		return source_no_memory(&x->src);
	r->rule.action = strcmp(v->key, "deny") == 0  ? ACTION_DENY
			 : strcmp(v->key, "ask") == 0 ? ACTION_ASK
						      : ACTION_ALLOW;
	for (; item && r->pattern_count < count; item = item->next) {
		const char *wrong = item->kind == NODE_TEXT
					    ? pattern_parse(&r->patterns[r->pattern_count++],
							    &x->policy->arena, item->text)
					    : "must be text";

		if (wrong)
			return source_error(&x->src, item->line, "%s '%.60s': %s", v->key,
					    item->text, wrong);
	}
	return 0;
}

static int read_name(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	int rc = reading_text(x, v, &r->rule.name);
	size_t n;

	if (rc < 0)
		return rc;
	n = strlen(r->rule.name);
	if (n > POLICY_NAME_MAX)
		return source_error(&x->src, v->line, "'name' is longer than %u bytes",
				    POLICY_NAME_MAX);
	for (size_t i = 0, used; i < n; i += used) {
		uint32_t rune = 0;

		used = str_utf8((const uint8_t *)r->rule.name + i, n - i, &rune);
		if (!used || str_is_tricky(rune))
			return source_error(&x->src, v->line,
					    "'name' has a character that cannot be shown");
	}
	return 0;
}

static int read_ports(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	const struct policy_node *item;
	size_t count;
	int rc = list_of(x, v, &item, &count);

	if (rc < 0)
		return rc;
	r->port_count = 0;
	if (v->kind == NODE_TEXT && strcmp(v->text, "any") == 0)
		return 0;
	r->ports = arena_array(&x->policy->arena, count, sizeof(*r->ports));
	if (!r->ports)
		return source_no_memory(&x->src);
	for (; item && r->port_count < count; item = item->next) {
		uint64_t port = 0;

		if (item->kind != NODE_TEXT || !str_parse_u64(item->text, UINT16_MAX, &port) ||
		    port == 0)
			return source_error(&x->src, item->line,
					    "'ports' has numbers from 1 to 65535, or is 'any'");
		r->ports[r->port_count++] = (uint16_t)port;
	}
	return 0;
}

const char *policy_method_wrong(const char *text)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

	return n == 0 || text[n] || n > METHOD_MAX ? "a method is a word in upper case" : NULL;
}

/* What is wrong with a pattern in words, where it is one of the usual things. */
static const char *explain_path(const char *text)
{
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("?#\\\"<>^`{|}", *p))
			return *p == '?' ? "a query string belongs into `query`"
					 : "has a character that stands in no path";
	for (const char *p = text; (p = strchr(p, '/')); p++) {
		size_t n = strcspn(p + 1, "/");

		if ((n == 0 && p[1]) || (n == 1 && p[1] == '.') ||
		    (n == 2 && p[1] == '.' && p[2] == '.'))
			return "paths are matched without '//', '/./' and '/../'";
	}
	for (const char *p = text; (p = strchr(p, '%')); p++) {
		unsigned byte;

		if (strspn(p + 1, "0123456789ABCDEF") < 2)
			return "an escape is written %XX, in upper case";
		byte = (unsigned)strtoul((char[]){p[1], p[2], '\0'}, NULL, 16);
		if (byte <= ' ' - 1 || byte == 0x7f || byte == '/' || byte == '\\' ||
		    (byte < 0x80 && (strchr("-._~", (int)byte) || (byte >= '0' && byte <= '9') ||
				     ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'))))
			return "has an escape that no normal path has; write the character itself";
	}
	return NULL;
}

/* A pattern that no path in its normal form can match would be a deny that denies nothing. A star
 * is a character of paths as any other, so a pattern must be its own normal form. */
const char *policy_path_wrong(const char *text)
{
	const char *wrong;
	struct buf normal;
	bool is_same;

	if (text[0] != '/')
		return "a path pattern begins with '/'";
	if (strlen(text) > POLICY_GLOB_MAX)
		return "too long";
	wrong = explain_path(text);
	if (wrong)
		return wrong;
	buf_init(&normal, 4 * POLICY_GLOB_MAX);
	is_same = http_path_normalise(text, strlen(text), &normal) == 0 &&
		  buf_len(&normal) == strlen(text) &&
		  memcmp(buf_data(&normal), text, strlen(text)) == 0;
	buf_done(&normal);
	return is_same ? NULL
		       : "no path in its normal form is like this: there is no ';' in it, no "
			 "segment that ends in '.', and escaped is only what must be";
}

static const char *check_query(const char *text)
{
	if (strlen(text) > POLICY_GLOB_MAX)
		return "too long";
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '#')
			return "has a character that stands in no query string";
	return text[0] == '?' ? "is written without the '?'" : NULL;
}

static int read_paths(struct policy_reading *x, const struct policy_node *v, void *at)
{
	return reading_texts(x, v, at, policy_path_wrong);
}

static int read_queries(struct policy_reading *x, const struct policy_node *v, void *at)
{
	return reading_texts(x, v, at, check_query);
}

static int read_methods(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	r->rule.by_method = true;
	return reading_texts(x, v, &r->methods, policy_method_wrong);
}

static int read_rate(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} windows[] = {{"/s", 1000}, {"/m", 60000}, {"/h", 3600000}};
	const char *slash = strchr(v->text, '/');
	char number[16] = "";
	uint64_t count = 0;

	if (slash && (size_t)(slash - v->text) < sizeof(number))
		memcpy(number, v->text, (size_t)(slash - v->text));
	for (size_t i = 0; slash && i < sizeof(windows) / sizeof(windows[0]); i++)
		if (strcmp(slash, windows[i].unit) == 0)
			r->rule.rate_window_ms = windows[i].ms;
	if (!r->rule.rate_window_ms || !str_parse_u64(number, POLICY_RATE_MAX, &count) || !count)
		return source_error(
			&x->src, v->line,
			"'rate' must be a number from 1 and /s, /m or /h, such as 10/s");
	r->rule.rate_count = (unsigned)count;
	return 0;
}

static int read_tls(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	r->rule.intercept = strcmp(v->text, "intercept") == 0;
	r->rule.pass = strcmp(v->text, "pass") == 0;
	if (!r->rule.intercept && !r->rule.pass)
		return source_error(&x->src, v->line, "'tls' must be intercept or pass");
	return 0;
}

#define AT(how, name) .read_at = how, .at = offsetof(struct entry, name)

static const struct policy_key rule_keys[] = {
	{"name", .read = read_name},
	{"allow", .read = read_hosts},
	{"ask", .read = read_hosts},
	{"deny", .read = read_hosts},
	{"ports", .read = read_ports},
	{"methods", .read = read_methods},
	{"paths", AT(read_paths, paths)},
	{"query", AT(read_queries, queries)},
	{"private", AT(read_bool, rule.private)},
	{"plain_http", AT(read_bool, rule.plain_http)},
	{"reuse", AT(read_bool, rule.reuse)},
	{"ranges", AT(read_bool, rule.ranges)},
	{"ech", AT(read_bool, rule.ech)},
	{"rate", .read = read_rate},
	{"bytes_up", AT(read_size, rule.bytes_up)},
	{"bytes_down", AT(read_size, rule.bytes_down)},
	{"ask_timeout", AT(read_ask_ms, rule.ask_timeout_ms)},
	{"tls", .read = read_tls},
	{"inject", .read = inject_parse},
	{"client_cert", .read = client_cert_parse},
	{"pass", .read = pass_parse},
	{0},
};

static int read_rule(struct policy_reading *x, struct entry *r, const struct policy_node *v,
		     size_t number)
{
	static const uint16_t web[] = {443, 80};
	char name[24];
	int rc;

	r->rule.line = v->line;
	if (v->kind != NODE_MAP)
		return source_error(&x->src, v->line,
				    "a rule is a mapping, such as '- allow: example.com'");
	rc = read_map(x, r, v, rule_keys);
	if (rc == 0)
		rc = policy_check_rule(x, r, v);
	if (rc < 0)
		return rc;
	if (!reading_find(v, "ports") && r->rule.action != ACTION_DENY) {
		r->ports = arena_array(&x->policy->arena, 2, sizeof(*r->ports));
		if (!r->ports)
			return source_no_memory(&x->src);
		memcpy(r->ports, web, sizeof(web));
		r->port_count = 2;
	}
	if (!r->rule.name) {
		snprintf(name, sizeof(name), "rule %zu", number);
		r->rule.name = arena_strdup(&x->policy->arena, name, strlen(name));
	}
	return r->rule.name ? 0 : source_no_memory(&x->src);
}

static int by_name(const void *a, const void *b)
{
	const struct entry *x = *(const struct entry *const *)a;
	const struct entry *y = *(const struct entry *const *)b;
	int order = strcmp(x->rule.name, y->rule.name);

	return order ? order : (x->rule.line > y->rule.line) - (x->rule.line < y->rule.line);
}

/* The record and the budgets know a rule by its name. */
static int check_names(struct policy_reading *x)
{
	size_t n = x->policy->entry_count;
	struct entry **sorted = calloc(n + 1, sizeof(struct entry *));
	int r = 0;

	if (!sorted)
		return source_no_memory(&x->src);
	for (size_t i = 0; i < n; i++)
		sorted[i] = &x->policy->entries[i];
	qsort(sorted, n, sizeof(struct entry *), by_name);
	for (size_t i = 1; i < n && r == 0; i++)
		if (strcmp(sorted[i]->rule.name, sorted[i - 1]->rule.name) == 0)
			r = source_error(&x->src, sorted[i]->rule.line,
					 "two rules are named '%.64s'; the other is in line %u",
					 sorted[i]->rule.name, sorted[i - 1]->rule.line);
	free(sorted);
	return r;
}

static int read_version(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	if (v->kind != NODE_TEXT || v->quoted || strcmp(v->text, "1") != 0)
		return source_error(&x->src, v->line, "'version' must be 1");
	return 0;
}

static int read_connections(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	uint64_t *n = &x->policy->limits.connections;

	if (v->kind != NODE_TEXT || !str_parse_u64(v->text, DOOR_CONNS_MAX, n) || *n == 0)
		return source_error(&x->src, v->line, "'connections' must be a number from 1 to %u",
				    DOOR_CONNS_MAX);
	return 0;
}

static int read_resolver(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	struct host h;
	uint16_t port;

	if (v->kind != NODE_TEXT || host_parse_authority(&h, v->text, &port) < 0 || !h.is_address)
		return source_error(&x->src, v->line,
				    "'resolver' must be an address, such as 127.0.0.1:5353");
	addr_socket(&x->policy->limits.resolver, h.family, h.addr, port ? port : 53);
	return 0;
}

/* The default for rules that say nothing; it may stand after them. */
static int read_top_tls(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	if (v->kind != NODE_TEXT || strcmp(v->text, "intercept") != 0)
		return source_error(&x->src, v->line,
				    "'tls' up here must be intercept; a rule that is to pass "
				    "through says 'tls: pass' itself");
	x->policy->intercepts = true;
	return 0;
}

/* The default for rules that ask; it may stand after them, so the second reading sets it. */
static int read_timeout(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	uint64_t ms;
	int rc = read_ask_ms(x, v, &ms);

	for (size_t i = 0; rc == 0 && i < x->policy->entry_count; i++)
		if (!x->policy->entries[i].rule.ask_timeout_ms)
			x->policy->entries[i].rule.ask_timeout_ms = ms;
	return rc;
}

/* Read by read_all_rules, once it is known what else is used. */
static int read_rules(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	if (v->kind != NODE_LIST)
		return source_error(&x->src, v->line,
				    "'rules' must be a list; 'rules: []' lets nothing out");
	return 0;
}

/* Reads the rules of one list into the entries that are left. use_line: of rules that are used; 0
 * for those that stand here. */
static int read_list(struct policy_reading *x, const struct policy_node *list, unsigned use_line)
{
	struct policy *p = x->policy;

	for (const struct policy_node *i = list->first; i; i = i->next) {
		size_t n = p->entry_count++;
		int rc = read_rule(x, &p->entries[n], i, n + 1);

		if (rc < 0)
			return rc;
		if (use_line)
			p->entries[n].rule.line = use_line;
	}
	return 0;
}

static const struct policy_node *used_rules(const struct policy_reading *x, size_t i)
{
	return reading_find(x->used[i], "rules");
}

static int read_all_rules(struct policy_reading *x, const struct policy_node *root)
{
	const struct policy_node *own = reading_find(root, "rules");
	size_t count = own ? own->count : 0;
	struct policy *p = x->policy;
	int rc;

	if (!own && !x->used_count)
		return source_error(&x->src, root->line,
				    "'rules' is missing; 'rules: []' lets nothing out");
	for (size_t i = 0; i < x->used_count; i++)
		count += used_rules(x, i)->count;
	if (count > DOOR_RULES_MAX)
		return source_error(&x->src, own ? own->line : root->line, "more than %u rules",
				    DOOR_RULES_MAX);
	p->entries = arena_array(&p->arena, count, sizeof(*p->entries));
	p->secrets = arena_array(&p->arena, DOOR_SECRETS_MAX, sizeof(*p->secrets));
	if (!p->entries || !p->secrets)
		return source_no_memory(&x->src);
	rc = own ? read_list(x, own, 0) : 0;
	for (size_t i = 0; i < x->used_count && rc == 0; i++)
		rc = read_list(x, used_rules(x, i), x->use_line);
	return rc < 0 ? rc : check_names(x);
}

static const struct policy_key top_keys[] = {
	{"version", .read = read_version},
	{"connections", .read = read_connections},
	{"bytes", .read_at = read_size, .at = offsetof(struct policy, limits.bytes)},
	{"ask_timeout", .read = read_timeout},
	{"resolver", .read = read_resolver},
	{"tls", .read = read_top_tls},
	{"use", .read = use_parse},
	{"rules", .read = read_rules},
	{0},
};

static int read_policy(struct policy_reading *x, const struct policy_node *root)
{
	const struct policy_node *timeout;
	int r;

	if (root->kind != NODE_MAP)
		return source_error(&x->src, root->line,
				    "a policy is a mapping with 'version: 1' and 'rules'");
	if (root->count && !reading_find(root, "version"))
		return source_error(&x->src, root->line, "'version: 1' is missing");
	r = read_map(x, NULL, root, top_keys);
	if (r == 0)
		r = read_all_rules(x, root);
	if (r < 0)
		return r;
	timeout = reading_find(root, "ask_timeout");
	if (timeout)
		(void)read_timeout(x, NULL, timeout);
	for (size_t i = 0; i < x->policy->entry_count; i++) {
		struct rule *rule = &x->policy->entries[i].rule;

		if (!rule->ask_timeout_ms)
			rule->ask_timeout_ms = DOOR_ASK_MS;
		if (x->policy->intercepts && rule->action != ACTION_DENY && !rule->pass)
			rule->intercept = true;
	}
	return 0;
}

int policy_parse_at(struct policy **ret, struct source *src, const char *text, size_t len)
{
	struct arena tree = {0};
	struct policy_reading x = {.src = *src, .tree = &tree};
	const struct policy_node *root;
	int r;

	x.policy = policy_closed();
	r = x.policy ? policy_tree_parse(&tree, &root, &x.src, text, len)
		     : source_no_memory(&x.src);
	if (r == 0)
		r = read_policy(&x, root);
	arena_done(&tree);
	src->line = x.src.line;
	if (r < 0) {
		policy_free(x.policy);
		return r;
	}
	*ret = x.policy;
	return 0;
}

int policy_parse(struct policy **ret, const char *name, const char *text, size_t len, struct err *e)
{
	struct source src = {.name = name, .err = e};

	return policy_parse_at(ret, &src, text, len);
}
