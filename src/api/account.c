/* Accounts of what callers hold; see account.h. */
#include "api/account.h"

#include "api/call.h"
#include "api/form.h"
#include "api/ports.h"

#include "base/limits_server.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SHARE = 4 };

struct api_account {
	struct api_accounts *all;
	struct api_account *next, **at;
	char id[KEY_ID_SIZE]; /* "": the operator */
	bool is_visitors, is_operator;
	unsigned refs, connections;
	uint64_t bytes;
};

static struct api_account *account_get(struct api_accounts *all, const char *id, bool is_visitors)
{
	struct api_account *a;

	for (a = all->first; a; a = a->next)
		if (a->is_visitors == is_visitors && strcmp(a->id, id) == 0)
			break;
	if (!a) {
		a = calloc(1, sizeof(*a));
		if (!a)
			return NULL;
		str_copy(a->id, sizeof(a->id), id);
		a->is_visitors = is_visitors;
		a->is_operator = !*id && !is_visitors;
		a->all = all;
		a->next = all->first;
		a->at = &all->first;
		if (a->next)
			a->next->at = &a->next;
		all->first = a;
	}
	a->refs++;
	return a;
}

static void account_put(struct api_account *a)
{
	if (--a->refs > 0)
		return;
	*a->at = a->next;
	if (a->next)
		a->next->at = a->at;
	free(a);
}

static bool has_room(const struct api_account *a, size_t more)
{
	uint64_t own = a->bytes + more;

	if (a->is_operator)
		return own <= API_BODIES_KEYS_MAX;
	return own <= API_BODIES_KEY_MAX &&
	       (own <= API_BODIES_LEAST || a->all->bytes + more <= API_BODIES_KEYS_MAX);
}

/* So much more that only answers that are not read come to it: who holds the rest must be able to
 * end it. */
static bool is_far_over(const struct api_account *a)
{
	return !a->is_operator &&
	       (a->bytes > API_BODIES_KEY_MAX / 4 * 5 ||
		(a->bytes > API_BODIES_LEAST && a->all->bytes > API_BODIES_KEYS_MAX / 4 * 5));
}

/* ---- what counts ---- */

void api_charge_begin(struct api_charge *g, struct api_account *of)
{
	ASSERT(!g->of);
	g->of = of;
	if (of)
		of->refs++;
}

void api_charge_connection(struct api_charge *g, struct api_account *of)
{
	api_charge_begin(g, of);
	if (!of)
		return;
	g->is_connection = true;
	of->connections++;
	of->all->connections += !of->is_operator;
}

void api_charge_set(struct api_charge *g, size_t bytes)
{
	struct api_account *a = g->of;

	bytes = bytes > API_BODY_SMALL_MAX ? bytes : 0;
	if (!a)
		return;
	a->bytes = a->bytes - g->bytes + bytes;
	if (!a->is_operator)
		a->all->bytes = a->all->bytes - g->bytes + bytes;
	g->bytes = bytes;
}

bool api_charge_grow(struct api_charge *g, size_t bytes)
{
	if (g->of && bytes > g->bytes && bytes > API_BODY_SMALL_MAX &&
	    !has_room(g->of, bytes - g->bytes))
		return false;
	api_charge_set(g, bytes);
	return true;
}

bool api_charge_has_room(const struct api_charge *g)
{
	return !g->of || has_room(g->of, 0);
}

void api_charge_end(struct api_charge *g)
{
	struct api_account *a = g->of;

	if (!a)
		return;
	api_charge_set(g, 0);
	a->connections -= g->is_connection;
	a->all->connections -= g->is_connection && !a->is_operator;
	account_put(a);
	*g = (struct api_charge){0};
}

/* ---- who asks ---- */

/* The key in whose namespace the box is. */
static void owner_of(const char *box, char ret[KEY_ID_SIZE])
{
	snprintf(ret, KEY_ID_SIZE, "%.*s", KEY_ID_SIZE - 1, box);
	if (!str_is_key_id(ret) || box[KEY_ID_SIZE - 1] != '_')
		ret[0] = 0;
}

static int check_room(const struct api_account *a, unsigned max, struct err *e)
{
	unsigned share = max / SHARE + 1, all = max - max / SHARE;

	if (a->is_operator)
		return 0;
	if (max && (a->connections >= share || (a->connections > 0 && a->all->connections >= all)))
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "%s %u connections in use already, of %u that a key may have and %u "
			       "that all may: ask again when one has ended",
			       a->is_visitors ? "visitors of this key's ports have"
					      : "this key has",
			       a->connections, share, all);
	if (is_far_over(a))
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "answers that are not read hold more memory than they may, %u MiB "
			       "of a key, %u MiB together: read what was asked for",
			       API_BODIES_KEY_MAX >> 20, API_BODIES_KEYS_MAX >> 20);
	return 0;
}

int api_account_enter(struct api_call *c, struct err *e)
{
	bool is_visitor = c->port && c->port->is_visitor;
	char id[KEY_ID_SIZE] = "";
	struct api_account *a;
	int r;

	if (c->route->scope == 0 && !c->port)
		return 0;
	if (is_visitor)
		owner_of(c->port->box, id);
	else if (!c->who.is_operator)
		str_copy(id, sizeof(id), c->who.key->id);
	a = account_get(&c->api->accounts, id, is_visitor);
	if (!a)
		return err_errno(e, ENOMEM, "begin the request");
	r = check_room(a, c->client.connections_max, e);
	if (r == 0)
		api_charge_begin(&c->charge, a);
	account_put(a);
	return r;
}

/* ---- bodies ---- */

/* What counts is their text, in steps as it takes memory; what is made of it is a small multiple
 * (in.h bounds the values). */
int api_body_hold(struct api_call *c, size_t bytes, struct err *e)
{
	size_t held = API_BODY_SMALL_MAX;

	while (held < bytes)
		held *= 2;
	if (held <= c->charge.bytes || api_charge_grow(&c->charge, held))
		return 0;
	return err_set(e, ERR_LIMIT, EAGAIN,
		       "the bodies of requests that are under way hold as much memory as they may, "
		       "%u MiB of a key, %u MiB together: ask again when some have ended",
		       API_BODIES_KEY_MAX >> 20, API_BODIES_KEYS_MAX >> 20);
}

int api_body_hold_all(struct api_call *c, struct err *e)
{
	uint64_t bytes = c->route->body_max;
	const char *length;

	if (bytes == 0 || api_body_is(c, "multipart/form-data"))
		return 0;
	length = http_head_find(&c->head, "Content-Length");
	if (length)
		(void)str_parse_u64(length, bytes, &bytes);
	return api_body_hold(c, (size_t)bytes, e);
}
