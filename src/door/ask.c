/*
 * Requests that a person decides; see ask.h.
 *
 * An ask is on the door's list until it is answered, its time is over or no request waits for it
 * any more: what a person allows is then sent by somebody who still wants it. One that was
 * answered for a while stays on the list until then, and answers whoever asks for the same: host,
 * port, and the method and path that were shown, whatever the query. Only those without an answer
 * are listed and counted. So an answer says no more than the rule asked: what the rule allows
 * besides (a private address, methods) stays the rule's, and a policy that does not ask any more
 * is not answered for.
 */
#include "door/ask.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 1024, SHOWN_SIZE = SHOWN_MAX + sizeof("..."), BY_MAX = 64 };

struct door_ask {
	struct door_ask *next;
	struct door *door;
	uint64_t id;
	char *host, *method, *path, *query, *rule; /* owned; all but the first may be NULL */
	uint16_t port;
	uint64_t exec_id, since_ms; /* wall clock */
	uint64_t timeout_ms, until_ms;
	struct ev_timer timer;
	struct broker_call call;
	uint64_t seq;
	struct ask_wait *waits;
	bool is_answered, is_allowed;
	char by[BY_MAX];      /* who answered */
	struct ev_defer tell; /* the answer that is there already */
};

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static void ask_free(struct door_ask *a)
{
	for (struct ask_wait *w; (w = a->waits);) {
		a->waits = w->next;
		w->ask = NULL;
	}
	if (a->call.id)
		broker_cancel(a->door->broker, &a->call);
	ev_timer_stop(a->door->ev, &a->timer);
	ev_defer_cancel(a->door->ev, &a->tell);
	free(a->host);
	free(a->method);
	free(a->path);
	free(a->query);
	free(a->rule);
	free(a);
}

static void ask_remove(struct door_ask *a)
{
	list_remove(&a->door->asks, a);
	ask_free(a);
}

static struct audit_row row_of(const struct door_ask *a, const char *kind, const char *verdict)
{
	return (struct audit_row){
		.kind = kind,
		.verdict = verdict,
		.about = a->seq,
		.exec_id = a->exec_id,
		.host = a->host,
		.port = a->port,
		.method = a->method,
		.path = a->path,
		.rule = a->rule,
	};
}

bool ask_holds(bool was_asked, uint64_t until_ms)
{
	return was_asked && (until_ms == 0 || clock_wall_ms() < until_ms);
}

/* Tells those who wait, one after the other: one of them may end others. */
static void tell(struct door_ask *a, bool is_allowed, const char *by)
{
	for (struct ask_wait *w; (w = a->waits);) {
		a->waits = w->next;
		w->ask = NULL;
		w->until_ms = a->until_ms;
		w->on_answer(w, is_allowed, by);
	}
}

static void on_tell(struct ev_defer *t)
{
	struct door_ask *a = container(t, struct door_ask, tell);

	tell(a, a->is_allowed, a->by);
}

static void decide(struct door_ask *a, bool is_allowed, const char *by)
{
	struct audit_row row = row_of(a, "answer", is_allowed ? "allow" : "deny");

	row.by = by;
	row.reason = by ? NULL : "not answered in time";
	row.duration_ms = clock_wall_since_ms(a->since_ms);
	broker_record(a->door->broker, NULL, &row);
	a->is_answered = true;
	a->is_allowed = is_allowed;
	ev_timer_stop(a->door->ev, &a->timer);
	tell(a, is_allowed, by);
}

static void on_timer(struct ev_timer *t)
{
	struct door_ask *a = container(t, struct door_ask, timer);

	decide(a, false, NULL);
	ask_remove(a);
}

static void on_recorded(struct broker_call *call, int r, struct err *e)
{
	struct door_ask *a = container(call, struct door_ask, call);

	/* What cannot be written down is not asked either. */
	if (r == 0) {
		a->seq = call->seq;
		return;
	}
	a->is_answered = true;
	tell(a, false, NULL);
	ask_remove(a);
}

static char *copy(const char *s, int *r)
{
	char *p = s ? strdup(s) : NULL;

	if (s && !p)
		*r = -ENOMEM;
	return p;
}

/* One that waits for the same answer, or has one that holds for it. */
static struct door_ask *find_same(struct door *d, const struct ask_what *what, unsigned *ret_count)
{
	struct door_ask *found = NULL;
	uint64_t now = clock_wall_ms();

	*ret_count = 0;
	for (struct door_ask *a = d->asks, *next; a; a = next) {
		bool is_place = a->port == what->port && is_same(a->host, what->host) &&
				is_same(a->rule, what->rule ? what->rule->name : NULL);
		bool is_request = is_same(a->method, what->method) &&
				  is_same(a->path, what->path) &&
				  (a->is_answered || is_same(a->query, what->query));

		next = a->next;
		*ret_count += !a->is_answered;
		if (a->is_answered && a->until_ms <= now && !a->waits)
			ask_remove(a);
		else if (is_place && is_request)
			found = a;
	}
	return found;
}

int ask_start(struct door *d, struct ask_wait *w, const struct ask_what *what)
{
	unsigned count;
	struct door_ask *a = find_same(d, what, &count), **at = &d->asks;
	struct audit_row row;
	int r = 0;

	if (!a && count >= DOOR_ASKS_MAX)
		return -ENOBUFS;
	if (!a) {
		a = calloc(1, sizeof(*a));
		if (!a)
			return -ENOMEM;
		*a = (struct door_ask){
			.door = d,
			.host = copy(what->host, &r),
			.method = copy(what->method, &r),
			.path = copy(what->path, &r),
			.query = copy(what->query, &r),
			.rule = copy(what->rule ? what->rule->name : NULL, &r),
			.port = what->port,
			.exec_id = what->exec_id,
			.since_ms = clock_wall_ms(),
			.timeout_ms = what->timeout_ms ? what->timeout_ms : DOOR_ASK_MS,
			.timer.on_timer = on_timer,
			.tell.on_defer = on_tell,
			.call.on_answer = on_recorded,
		};
		if (r < 0) {
			ask_free(a);
			return r;
		}
		a->id = ++d->next_ask;
		while (*at)
			at = &(*at)->next;
		*at = a;
		ev_timer_set(d->ev, &a->timer, a->timeout_ms);
		row = row_of(a, "ask", "ask");
		broker_record(d->broker, &a->call, &row);
	}
	w->ask = a;
	w->next = a->waits;
	a->waits = w;
	if (a->is_answered)
		ev_defer(d->ev, &a->tell);
	return 0;
}

void ask_cancel(struct ask_wait *w, const char *why)
{
	struct door_ask *a = w->ask;
	struct audit_row row;

	if (!a)
		return;
	list_remove(&a->waits, w);
	w->ask = NULL;
	/* An answered one may be telling its answer just now, and is its teller's. */
	if (a->waits || a->is_answered)
		return;
	row = row_of(a, "answer", "cut");
	row.reason = why;
	row.duration_ms = clock_wall_since_ms(a->since_ms);
	broker_record(a->door->broker, NULL, &row);
	ask_remove(a);
}

int ask_answer(struct door *d, uint64_t id, bool allow, uint64_t for_ms, const char *by,
	       struct err *e)
{
	unsigned granted = 0;
	struct door_ask *a = NULL;

	for (struct door_ask *i = d->asks; i; i = i->next) {
		granted += i->is_answered;
		if (i->id == id && !i->is_answered)
			a = i;
	}
	if (!a)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "nothing with the number %llu is asked",
			       (unsigned long long)id);
	if (for_ms && granted >= DOOR_GRANTS_MAX)
		return err_set(e, ERR_LIMIT, ENOBUFS, "too many answers that still hold");
	a->until_ms = for_ms ? clock_wall_ms() + for_ms : 0;
	str_copy(a->by, sizeof(a->by), by ? by : "somebody");
	decide(a, allow, a->by);
	if (!for_ms)
		ask_remove(a);
	else
		door_watch_ends(d);
	return 0;
}

uint64_t asks_next_end(const struct door *d, uint64_t after_ms)
{
	uint64_t next = 0;

	for (const struct door_ask *a = d->asks; a; a = a->next)
		if (a->is_answered && a->until_ms > after_ms && (!next || a->until_ms < next))
			next = a->until_ms;
	return next;
}

/* The box says how long it is, so that no more than a part of it is shown. */
static const char *shown(const char *text, char cut[SHOWN_SIZE])
{
	size_t n = SHOWN_MAX;

	if (!text || strnlen(text, SHOWN_MAX + 1) <= SHOWN_MAX)
		return text;
	while (n > 0 && ((uint8_t)text[n] & 0xc0) == 0x80)
		n--;
	memcpy(cut, text, n);
	memcpy(cut + n, "...", sizeof("..."));
	return cut;
}

static int list_one(const struct door_ask *a, ask_on_shown *on_ask, void *arg)
{
	uint64_t age = clock_wall_since_ms(a->since_ms);
	char method[SHOWN_SIZE], path[SHOWN_SIZE], query[SHOWN_SIZE];
	struct wire_ask ask = {.id = a->id,
			       .host = a->host,
			       .port = a->port,
			       .method = shown(a->method, method),
			       .path = shown(a->path, path),
			       .query = shown(a->query, query),
			       .rule = a->rule,
			       .exec_id = a->exec_id,
			       .since_ms = a->since_ms,
			       .left_ms = a->timeout_ms > age ? a->timeout_ms - age : 0};

	for (const struct ask_wait *w = a->waits; w; w = w->next)
		ask.requests++;
	return on_ask(arg, &ask);
}

int ask_show(struct door *d, uint64_t id, ask_on_shown *on_ask, void *arg)
{
	for (struct door_ask *a = d->asks; a; a = a->next)
		if (a->id == id && !a->is_answered)
			return list_one(a, on_ask, arg);
	return -ENOENT;
}

int asks_list(struct door *d, ask_on_shown *on_ask, void *arg)
{
	int r = 0;

	for (struct door_ask *a = d->asks; a && r == 0; a = a->next)
		if (!a->is_answered)
			r = list_one(a, on_ask, arg);
	return r;
}

unsigned asks_count(const struct door *d)
{
	unsigned n = 0;

	for (const struct door_ask *a = d->asks; a; a = a->next)
		n += !a->is_answered;
	return n;
}

void asks_free(struct door *d)
{
	for (struct door_ask *a; (a = d->asks);) {
		d->asks = a->next;
		ask_free(a);
	}
}
