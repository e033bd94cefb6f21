/*
 * Credentials in a request; see inject.h.
 *
 *	injection_start: copies what the rule says (a new policy may free the rule meanwhile), asks
 *	the broker for one secret after the other, renders, calls on_done.
 *
 * Rendered values are struct secret too: locked, and wiped with the injection. They stand in the
 * head of the request for as long as it takes to write it; http_head_done wipes that.
 */
#include "door/inject.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/locked.h"
#include "door/redact.h"
#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 2 * POLICY_KEYS_MAX + 1, USED_MAX = 32, NAMES_TEXT = USED_MAX * 72 };
_Static_assert(ITEMS_MAX + USED_MAX <= REDACT_VALUES_MAX, "every value is looked for");

/* One header, query parameter, or part of the identity. */
struct item {
	char *header, *query, *user, *text; /* owned */
	struct secret value;		    /* rendered; ends with a NUL that is not counted */
};

struct used_secret {
	char name[72];
	struct secret value;
};

struct injection {
	struct broker *broker;
	void (*on_done)(void *arg, int r, struct err *e);
	void *arg;
	char rule[64];
	struct item items[ITEMS_MAX];
	size_t item_count;
	struct item cert, key;
	bool ranges; /* as in the rule */
	struct used_secret used[USED_MAX];
	size_t used_count, asked;
	size_t sent_count; /* of used: these go into the request; the others are the identity's */
	struct broker_call call;
	struct ev_defer later;
	struct tls_identity identity;
	struct redact values;	       /* that are taken out of the answer */
	struct redact_stream answered; /* of it so far */
	char names[NAMES_TEXT];
	int r;
	struct err error;
};

/* ---- templates ---- */

/* The next "{{ secret.NAME }}" from *text on: true, what stands before it, and its name; false at
 * the end. The policy was checked: a template is well formed. */
static bool next_secret(const char **text, size_t *ret_before, char name[72])
{
	const char *open = strstr(*text, "{{"), *close = open ? strstr(open, "}}") : NULL;
	const char *dot = close ? strchr(open, '.') : NULL;
	size_t n;

	if (!close || !dot || dot > close)
		return false;
	n = strspn(dot + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
	if (n == 0 || n >= 72)
		return false;
	memcpy(name, dot + 1, n);
	name[n] = 0;
	*ret_before = (size_t)(open - *text);
	*text = close + 2;
	return true;
}

static struct used_secret *find_used(struct injection *i, const char *name)
{
	for (size_t n = 0; n < i->used_count; n++)
		if (strcmp(i->used[n].name, name) == 0)
			return &i->used[n];
	return NULL;
}

static int note_secrets(struct injection *i, const char *text)
{
	size_t before, len = strlen(i->names);
	char name[72];

	while (text && next_secret(&text, &before, name)) {
		if (find_used(i, name))
			continue;
		if (i->used_count == USED_MAX)
			return -E2BIG;
		memcpy(i->used[i->used_count++].name, name, sizeof(name));
		len += (size_t)snprintf(i->names + len, sizeof(i->names) - len, "%s%s",
					len ? "," : "", name);
		if (len >= sizeof(i->names))
			return -E2BIG;
	}
	return 0;
}

/* Into out, which has its whole room already: it never moves and leaves no copy behind. */
static int render_text(struct injection *i, const char *text, struct buf *out)
{
	size_t before;
	char name[72];
	int r = 0;

	for (const char *from = text; r == 0; from = text) {
		struct used_secret *u;

		if (!next_secret(&text, &before, name))
			return buf_append(out, from, strlen(from));
		u = find_used(i, name);
		r = buf_append(out, from, before);
		if (r == 0)
			r = buf_append(out, u->value.data, u->value.len);
	}
	return r;
}

static int render_basic(struct buf *out)
{
	size_t n = buf_len(out);
	uint8_t *plain = locked_alloc(n + 1);
	int r = plain ? 0 : -ENOMEM;

	if (plain) {
		uint8_t *room;

		memcpy(plain, buf_data(out), n);
		buf_clear(out);
		r = buf_append_str(out, "Basic ");
		room = r == 0 ? buf_reserve(out, 4 * (n + 2) / 3 + 4) : NULL;
		if (room)
			buf_commit(out, base64_encode(plain, n, false, room));
		else
			r = -ENOBUFS;
	}
	locked_free(plain);
	return r;
}

static int render(struct injection *i, struct item *item)
{
	size_t n = strlen(item->text) + (item->user ? strlen(item->user) + 1 : 0), before, room;
	const char *text = item->text;
	struct buf out;
	char name[72];
	int r;

	/* Bytes that it takes, at most, with a NUL. */
	while (next_secret(&text, &before, name))
		n += find_used(i, name)->value.len;
	room = (item->user ? 4 * (n + 2) / 3 + sizeof("Basic ") + 4 : n) + 1;
	buf_init(&out, room);
	out.is_secret = true;
	r = buf_reserve(&out, room) ? 0 : -ENOMEM;
	if (r == 0 && item->user)
		r = buf_printf(&out, "%s:", item->user);
	if (r == 0)
		r = render_text(i, item->text, &out);
	if (r == 0 && item->user)
		r = render_basic(&out);
	if (r == 0)
		r = buf_append(&out, "", 1);
	if (r == 0)
		r = secret_init(&item->value, buf_data(&out), buf_len(&out));
	if (r == 0)
		item->value.len--;
	buf_done(&out);
	return r;
}

static const char *value_of(const struct item *item)
{
	return (const char *)item->value.data;
}

/* ---- the start ---- */

static int copy_text(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

static int copy_rule(struct injection *i, const struct rule *rule)
{
	int r = 0;

	snprintf(i->rule, sizeof(i->rule), "%.60s", rule->name);
	i->ranges = rule->ranges;
	if (rule->inject_count > ITEMS_MAX)
		return -E2BIG;
	for (size_t n = 0; n < rule->inject_count && r == 0; n++) {
		const struct rule_inject *from = &rule->inject[n];
		struct item *to = &i->items[i->item_count++];

		r = copy_text(&to->header, from->basic_user ? "Authorization" : from->header);
		if (r == 0)
			r = copy_text(&to->query, from->query);
		if (r == 0)
			r = copy_text(&to->user, from->basic_user);
		if (r == 0)
			r = copy_text(&to->text, from->value.text);
		if (r == 0)
			r = note_secrets(i, to->text);
	}
	i->sent_count = i->used_count;
	if (r == 0)
		r = copy_text(&i->cert.text, rule->client_cert.text);
	if (r == 0)
		r = copy_text(&i->key.text, rule->client_key.text);
	if (r == 0)
		r = note_secrets(i, i->cert.text);
	return r == 0 ? note_secrets(i, i->key.text) : r;
}

static int render_all(struct injection *i)
{
	size_t basic = strlen("Basic ");
	int r = 0;

	for (size_t n = 0; n < i->item_count && r == 0; n++)
		r = render(i, &i->items[n]);
	if (r == 0 && i->cert.text)
		r = render(i, &i->cert);
	if (r == 0 && i->key.text)
		r = render(i, &i->key);
	if (r == 0 && i->cert.text)
		i->identity = (struct tls_identity){.cert_pem = value_of(&i->cert),
						    .key_pem = value_of(&i->key)};
	/* Each secret that is sent is looked for, and what is made of one with a user's name. */
	for (size_t n = 0; n < i->sent_count && r == 0; n++)
		r = redact_add(&i->values, i->used[n].value.data, i->used[n].value.len);
	for (size_t n = 0; n < i->item_count && r == 0; n++)
		if (i->items[n].user)
			r = redact_add(&i->values, i->items[n].value.data + basic,
				       i->items[n].value.len - basic);
	return r;
}

static void finish(struct injection *i)
{
	if (i->r == 0)
		i->r = render_all(i);
	if (i->r < 0 && i->error.kind == ERR_NONE)
		err_errno(&i->error, -i->r, "prepare what rule '%s' injects", i->rule);
	i->on_done(i->arg, i->r, &i->error);
}

static void on_later(struct ev_defer *d)
{
	finish(container(d, struct injection, later));
}

static void on_secret(struct broker_call *c, int r, struct err *e)
{
	struct injection *i = container(c, struct injection, call);

	if (r == 0) {
		i->used[i->asked++].value = c->secret;
		c->secret = (struct secret){0};
		if (i->asked < i->used_count) {
			broker_ask_secret(i->broker, c, i->used[i->asked].name);
			return;
		}
	} else {
		i->r = r;
		i->error = *e;
		err_prefix(&i->error, "rule '%s'", i->rule);
	}
	finish(i);
}

int injection_start(struct injection **ret, struct broker *k, const struct rule *rule,
		    void (*on_done)(void *arg, int r, struct err *e), void *arg)
{
	struct injection *i = calloc(1, sizeof(*i));
	int r = i ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	i->broker = k;
	i->on_done = on_done;
	i->arg = arg;
	i->call.on_answer = on_secret;
	i->later.on_defer = on_later;
	r = copy_rule(i, rule);
	if (r < 0) {
		injection_free(i);
		return r;
	}
	*ret = i;
	if (i->used_count > 0)
		broker_ask_secret(k, &i->call, i->used[0].name);
	else
		ev_defer(broker_ev(k), &i->later);
	return 0;
}

static void item_done(struct item *item)
{
	free(item->header);
	free(item->query);
	free(item->user);
	free(item->text);
	secret_done(&item->value);
}

void injection_free(struct injection *i)
{
	if (!i)
		return;
	broker_cancel(i->broker, &i->call);
	ev_defer_cancel(broker_ev(i->broker), &i->later);
	for (size_t n = 0; n < i->item_count; n++)
		item_done(&i->items[n]);
	item_done(&i->cert);
	item_done(&i->key);
	for (size_t n = 0; n < i->used_count; n++)
		secret_done(&i->used[n].value);
	redact_done(&i->values);
	free(i);
}

/* ---- use ---- */

static int cannot_stand(const struct injection *i, const char *where, struct err *e)
{
	return err_set(e, ERR_CONFLICT, EINVAL,
		       "rule '%s': a secret of %.120s has bytes that cannot stand in %s", i->rule,
		       i->names, where);
}

/* The target with its query parameters replaced. The texts hold a credential: each has its whole
 * room from the start, so that it leaves no copy behind when it grows, and is wiped. */
static int apply_queries(const struct injection *i, struct http_head *h, struct err *e)
{
	const char *mark = strchr(h->target, '?');
	size_t path = mark ? (size_t)(mark - h->target) : strlen(h->target);
	size_t room = strlen(h->target) + 2;
	struct buf bufs[3], *query = &bufs[0], *next = &bufs[1], *target = &bufs[2], *swap;
	int r = 0;

	for (size_t k = 0; k < i->item_count; k++)
		if (i->items[k].query)
			room += 3 * (strlen(i->items[k].query) + i->items[k].value.len) + 2;
	for (size_t k = 0; k < 3; k++) {
		buf_init(&bufs[k], room);
		bufs[k].is_secret = true;
		if (!buf_reserve(&bufs[k], room))
			r = -ENOMEM;
	}
	if (r == 0)
		r = buf_append_str(query, mark ? mark + 1 : "");
	for (size_t n = 0; n < i->item_count && r == 0; n++) {
		const struct item *item = &i->items[n];

		if (!item->query)
			continue;
		buf_clear(next);
		r = strlen(value_of(item)) == item->value.len
			    ? http_query_remove(buf_cstr(query), item->query, next)
			    : -EINVAL;
		r = r < 0 ? r : http_query_add(next, item->query, value_of(item));
		swap = query;
		query = next;
		next = swap;
	}
	if (r == 0)
		r = buf_append(target, h->target, path);
	if (r == 0)
		r = buf_append(target, "?", 1);
	if (r == 0)
		r = buf_append(target, buf_data(query), buf_len(query));
	if (r == 0)
		r = http_head_set_target(h, buf_cstr(target));
	for (size_t k = 0; k < 3; k++)
		buf_done(&bufs[k]);
	return r < 0 ? cannot_stand(i, "a query", e) : 0;
}

void injection_strip(const struct injection *i, struct http_head *h)
{
	for (size_t n = 0; n < i->item_count; n++)
		if (i->items[n].header)
			http_head_remove(h, i->items[n].header);
}

int injection_apply(const struct injection *i, struct http_head *h, struct err *e)
{
	bool has_query = false;
	int r = http_head_set_secret(h);

	if (r < 0)
		return err_errno(e, -r, "prepare the request");
	/* All of them first, so that two of one name stay two. */
	injection_strip(i, h);
	for (size_t n = 0; n < i->item_count && r == 0; n++) {
		const struct item *item = &i->items[n];

		has_query |= item->query != NULL;
		if (!item->header)
			continue;
		r = strlen(value_of(item)) == item->value.len
			    ? http_head_add(h, item->header, value_of(item))
			    : -EINVAL;
		if (r < 0)
			return cannot_stand(i, "a header", e);
	}
	if (has_query)
		r = apply_queries(i, h, e);
	if (r < 0 || !injection_is_searched(i))
		return r;
	/* What comes back must be whole and in plain text to be searched. */
	if (!i->ranges) {
		http_head_remove(h, "Range");
		http_head_remove(h, "If-Range");
		http_head_remove(h, "Request-Range");
	}
	http_head_remove(h, "A-IM");
	http_head_remove(h, "Accept-Charset");
	http_head_remove(h, "Sec-WebSocket-Extensions");
	http_head_remove(h, "Accept-Encoding");
	r = http_head_add(h, "Accept-Encoding", "identity");
	return r < 0 ? err_errno(e, -r, "prepare the request") : 0;
}

bool injection_is_searched(const struct injection *i)
{
	return i->values.count > 0;
}

const char *injection_names(const struct injection *i)
{
	return i->names;
}

const struct tls_identity *injection_identity(const struct injection *i)
{
	return i->cert.text ? &i->identity : NULL;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool injection_is_of(const struct injection *i, const struct rule *rule)
{
	if (rule->inject_count != i->item_count || rule->ranges != i->ranges ||
	    !same_text(rule->client_cert.text, i->cert.text) ||
	    !same_text(rule->client_key.text, i->key.text))
		return false;
	for (size_t n = 0; n < i->item_count; n++) {
		const struct rule_inject *a = &rule->inject[n];
		const struct item *b = &i->items[n];

		if (!same_text(a->basic_user ? "Authorization" : a->header, b->header) ||
		    !same_text(a->query, b->query) || !same_text(a->basic_user, b->user) ||
		    !same_text(a->value.text, b->text))
			return false;
	}
	return true;
}

/* ---- out of an answer ---- */

void injection_redact_head(const struct injection *i, struct http_head *response)
{
	/* Names, values and the reason all live in its text. */
	if (response->text)
		redact_whole(&i->values, (uint8_t *)response->text, response->text_len);
}

void injection_redact_whole(const struct injection *i, uint8_t *p, size_t n)
{
	redact_whole(&i->values, p, n);
}

size_t injection_redact(struct injection *i, uint8_t *p, size_t n, bool more)
{
	size_t safe = redact_part(&i->values, &i->answered, p, n, more);

	/* What comes next is a text of its own. */
	if (!more)
		i->answered = (struct redact_stream){0};
	return safe;
}
