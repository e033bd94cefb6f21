/*
 * GET /v1/events: the host's events (store/feed.h) to those who watch, as SSE. A reader has a
 * number for its place and nothing else; rows are read from the file as far as its connection has
 * room, so a slow one costs no memory and holds up no other. They take turns: one block of one
 * reader in each turn of the loop, however many they are and whatever they look for. What a reader
 * wants and is not kept any more shows as an event `gap` with the numbers that are gone.
 */
#include "api/call.h"
#include "api/gather.h"
#include "api/handlers.h"
#include "http/sse.h"

#include <errno.h>

enum {
	EVENTS_READERS_MAX = 1024,
	EVENTS_READERS_OF_KEY = 64,
	EVENTS_ALIVE_MS = 15000,
};

struct events_reader {
	struct api_call *call;
	struct events_reader *next, **at;
	struct feed_reader feed;
	struct ev_timer alive;
	struct api_events_filter filter;
	struct events_reader *turn_next;
	bool follow, is_full, has_turn;
};

struct api_events {
	struct api *api;
	struct events_reader *readers;
	struct events_reader *turns, **turns_end; /* who may have something to read */
	struct ev_defer turn;
	unsigned count;
};

/* ---- what is to be shown ---- */

/* The text of a member that our own writer put before all that comes from elsewhere. */
static size_t word_at(const char *row, const char *key, const char **ret)
{
	const char *at = strstr(row, key);

	*ret = at ? at + strlen(key) : "";
	return strcspn(*ret, "\"");
}

static bool type_passes(const struct api_events_filter *f, const char *row)
{
	const char *word;
	size_t n = word_at(row, "\"type\":\"", &word);
	char type[32];

	if (!f->types)
		return true;
	snprintf(type, sizeof(type), "%.*s", (int)(n < 31 ? n : 31), word);
	n = (size_t)gather_type(type);
	return n < FEED_TYPES && f->types >> n & 1;
}

static bool label_passes(const struct api_events_filter *f, const char *row, size_t len)
{
	const char *equals = f->label ? strchr(f->label, '=') : NULL;
	const char *value;
	char name[256];
	json_t *o;
	bool passes;

	if (!f->label)
		return true;
	snprintf(name, sizeof(name), "%.*s",
		 equals ? (int)(equals - f->label) : (int)strlen(f->label), f->label);
	o = json_loadb(row, len, 0, NULL);
	value = json_string_value(json_object_get(json_object_get(o, "labels"), name));
	passes = value && (!equals || strcmp(value, equals + 1) == 0);
	json_decref(o);
	return passes;
}

bool api_events_pass(const struct api_events_filter *f, const char *row, size_t len)
{
	const char *word;
	size_t n = word_at(row, "\"box\":\"", &word), of = f->owner[0] ? strlen(f->owner) : 0;

	if (of && (n <= of || strncmp(word, f->owner, of) != 0 || word[of] != '_'))
		return false;
	if (f->box && (strlen(f->box) != n || memcmp(f->box, word, n) != 0))
		return false;
	return type_passes(f, row) && label_passes(f, row, len);
}

int api_events_types(const char *list, uint32_t *ret, struct err *e)
{
	*ret = 0;
	while (list && *list) {
		size_t n = strcspn(list, ",");
		char word[32];
		int type;

		snprintf(word, sizeof(word), "%.*s", (int)(n < 31 ? n : 31), list);
		type = gather_type(word);
		if (type < 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "there is no type of event '%.40s'; box.created is one",
				       word);
		*ret |= 1u << type;
		list += n + (list[n] == ',');
	}
	return 0;
}

/* ---- one reader ---- */

static void turn_ask(struct events_reader *v)
{
	struct api_events *e = v->call->api->events;

	if (v->has_turn || v->is_full)
		return;
	v->has_turn = true;
	v->turn_next = NULL;
	*e->turns_end = v;
	e->turns_end = &v->turn_next;
	ev_defer(e->api->ev, &e->turn);
}

static void turn_leave(struct events_reader *v)
{
	struct api_events *e = v->call->api->events;
	struct events_reader **at = &e->turns;

	if (!v->has_turn)
		return;
	while (*at != v)
		at = &(*at)->turn_next;
	*at = v->turn_next;
	if (!*at)
		e->turns_end = at;
	v->has_turn = false;
}

static void reader_free(struct events_reader *v)
{
	struct api *a = v->call->api;

	ev_timer_stop(a->ev, &v->alive);
	turn_leave(v);
	feed_reader_done(&v->feed);
	*v->at = v->next;
	if (v->next)
		v->next->at = v->at;
	a->events->count--;
	free(v);
}

static void on_gone(struct api_call *c)
{
	reader_free(c->arg);
}

static bool tell_gap(struct events_reader *v, uint64_t from, uint64_t to)
{
	char data[96], id[24];

	snprintf(id, sizeof(id), "%llu", (unsigned long long)to);
	snprintf(data, sizeof(data), "{\"type\":\"gap\",\"from\":%llu,\"to\":%llu}",
		 (unsigned long long)from, (unsigned long long)to);
	return api_event(v->call, "gap", id, data);
}

static bool on_row(void *arg, uint64_t seq, char *row, size_t len)
{
	struct events_reader *v = arg;
	bool more = true;
	const char *word;
	char id[24], type[32];
	size_t n;

	if (seq > v->feed.next)
		more = tell_gap(v, v->feed.next, seq - 1);
	if (api_events_pass(&v->filter, row, len)) {
		row[api_hide(v->call, row, len)] = 0;
		n = word_at(row, "\"type\":\"", &word);
		snprintf(type, sizeof(type), "%.*s", (int)(n < 31 ? n : 31), word);
		snprintf(id, sizeof(id), "%llu", (unsigned long long)seq);
		more = api_event(v->call, type, id, row) && more;
	}
	v->is_full = !more;
	return more;
}

static void go_on(struct events_reader *v)
{
	struct api_call *c = v->call;
	int n = v->is_full ? 0 : feed_read(&v->feed, on_row, v);

	if (v->is_full)
		return;
	if (n > 0) {
		turn_ask(v);
	} else if (n < 0 || !v->follow) {
		c->on_gone = NULL;
		c->on_room = NULL;
		reader_free(v);
		api_end(c, n < 0);
	}
}

static void on_turn(struct ev_defer *d)
{
	struct api_events *e = container(d, struct api_events, turn);
	struct events_reader *v = e->turns;

	if (v) {
		turn_leave(v);
		go_on(v);
	}
	if (e->turns)
		ev_defer(e->api->ev, d);
}

static void on_room(struct api_call *c)
{
	struct events_reader *v = c->arg;

	v->is_full = false;
	turn_ask(v);
}

/* Who is gone without a word is noticed, and who waits sees that we are there. */
static void on_alive(struct ev_timer *t)
{
	struct events_reader *v = container(t, struct events_reader, alive);
	struct buf b;

	buf_init(&b, 64);
	if (!v->is_full && sse_comment_write(&b, "") == 0)
		v->is_full = !api_bytes(v->call, buf_data(&b), buf_len(&b));
	buf_done(&b);
	ev_timer_set(v->call->api->ev, t, EVENTS_ALIVE_MS);
}

void api_events_wake(struct api *a)
{
	if (a->options.on_events)
		a->options.on_events(a->options.arg);
	for (struct events_reader *v = a->events ? a->events->readers : NULL; v; v = v->next)
		turn_ask(v);
}

/* Its readers went with their calls. */
void api_events_free(struct api_events *e)
{
	if (e)
		ev_defer_cancel(e->api->ev, &e->turn);
	free(e);
}

/* ---- the request ---- */

static int check_room(struct api_call *c, struct err *e)
{
	unsigned own = 0;

	if (!c->api->events) {
		c->api->events = calloc(1, sizeof(*c->api->events));
		if (!c->api->events)
			return err_errno(e, ENOMEM, "follow events");
		c->api->events->api = c->api;
		c->api->events->turn.on_defer = on_turn;
		c->api->events->turns_end = &c->api->events->turns;
	}
	for (struct events_reader *v = c->api->events->readers; v; v = v->next)
		own += !c->who.is_operator && !v->call->who.is_operator && api_same_key(v->call, c);
	if (c->api->events->count >= EVENTS_READERS_MAX || own >= EVENTS_READERS_OF_KEY)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "as many follow events as may: a key %d times, all together %d",
			       EVENTS_READERS_OF_KEY, EVENTS_READERS_MAX);
	return 0;
}

static int take_after(struct api_call *c, uint64_t *ret, struct err *e)
{
	const char *last = http_head_find(&c->head, "Last-Event-ID"), *text;
	uint64_t oldest = 1, newest = 0;
	int r = api_query(c, "after", &text, e);

	if (r < 0)
		return r;
	*ret = 0;
	text = last && *last ? last : text;
	if (text && strcmp(text, "latest") == 0) {
		(void)feed_range(&c->api->cove->state, &oldest, &newest);
		*ret = newest;
		return 0;
	}
	if (text && !str_parse_u64(text, INT64_MAX, ret))
		return err_set(e, ERR_INVALID, EINVAL,
			       "'after' and Last-Event-ID are the number of an event, or 'latest'");
	return 0;
}

static int take_filter(struct api_call *c, struct api_events_filter *f, struct err *e)
{
	const char *types, *owner = api_owner(c);
	int r = api_query(c, "type", &types, e);

	if (r == 0)
		r = api_events_types(types, &f->types, e);
	if (r == 0)
		r = api_query(c, "box", &f->box, e);
	if (r == 0 && f->box)
		r = api_name(c, KEY_OF_BOX, f->box, &f->box, e);
	if (r == 0)
		r = api_query(c, "label", &f->label, e);
	str_copy(f->owner, sizeof(f->owner), owner ? owner : "");
	return r;
}

/* Without a place it begins at the oldest that is kept, and nothing is missing. */
static void begin_at(struct events_reader *v, uint64_t after)
{
	uint64_t oldest = 1, newest = 0;
	struct state *st = &v->call->api->cove->state;

	(void)feed_range(st, &oldest, &newest);
	if (after == 0 && oldest > 1)
		after = oldest - 1;
	feed_reader_init(&v->feed, st, after);
	/* A number that was never given: this is another machine's, or another's past. */
	if (after > newest) {
		v->feed.next = newest + 1;
		v->is_full = !tell_gap(v, newest + 1, after);
		v->feed.next = oldest;
	}
}

static int events_follow(struct api_call *c, struct err *e)
{
	struct events_reader *v;
	uint64_t after;
	int r = check_room(c, e);

	v = r == 0 ? calloc(1, sizeof(*v)) : NULL;
	if (!v)
		return r < 0 ? r : err_errno(e, ENOMEM, "follow events");
	r = take_after(c, &after, e);
	if (r == 0)
		r = api_query_bool(c, "follow", &v->follow, e);
	if (r == 0)
		r = take_filter(c, &v->filter, e);
	if (r < 0) {
		free(v);
		return r;
	}
	v->call = c;
	v->feed.fd = -1;
	v->alive.on_timer = on_alive;
	v->next = c->api->events->readers;
	v->at = &c->api->events->readers;
	if (v->next)
		v->next->at = &v->next;
	c->api->events->readers = v;
	c->api->events->count++;
	c->arg = v;
	c->on_gone = on_gone;
	c->on_room = on_room;
	api_begin(c, 200, "text/event-stream");
	begin_at(v, after);
	ev_timer_set(c->api->ev, &v->alive, EVENTS_ALIVE_MS);
	turn_ask(v);
	return API_LATER;
}

/* clang-format off */
const struct api_route api_event_routes[] = {
	{"GET", "/v1/events", "followEvents", KEY_READ, .now = events_follow,
	 .resumes = true},
	{0}};
/* clang-format on */
