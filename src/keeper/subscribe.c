/*
 * SUBSCRIBE: the rows of the box's log of events, to clients that ask for them; see msg_exec.h.
 *
 * A subscription is the number of the next row it wants. Rows that come while it is at the end go
 * out directly; one that is behind is served from the log's files, as far as its client's queue has
 * room, and again when that is written. So nothing is queued here, a slow client costs no memory,
 * and what the log does not hold any more (or never did: a one-shot box has none) shows as a gap in
 * the numbers, which its next EVENT tells.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "keeper/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_QUEUE = 256 << 10 };

struct keeper_subscription {
	struct keeper_subscription *next_of_client;
	struct keeper_client *client;
	uint32_t id;
	uint64_t next; /* the row it wants */
	int fd;	       /* owned; the file it is read from while it is behind, -1 else */
	uint64_t at, generation;
};

static void subscription_free(struct keeper_subscription *s)
{
	struct keeper_subscription **at = &s->client->subscriptions;

	while (*at != s)
		at = &(*at)->next_of_client;
	*at = s->next_of_client;
	s->client->request_count--;
	fd_close(&s->fd);
	free(s);
}

static struct keeper_subscription *find(const struct keeper_client *c, uint32_t id)
{
	struct keeper_subscription *s = c->subscriptions;

	while (s && s->id != id)
		s = s->next_of_client;
	return s;
}

bool keeper_subscription_has(const struct keeper_client *c, uint32_t id)
{
	return find(c, id) != NULL;
}

bool keeper_subscription_cancel(struct keeper_client *c, uint32_t id)
{
	struct keeper_subscription *s = find(c, id);

	if (s)
		subscription_free(s);
	return s != NULL;
}

void keeper_subscriptions_free(struct keeper_client *c)
{
	while (c->subscriptions)
		subscription_free(c->subscriptions);
}

static bool has_room(const struct keeper_subscription *s)
{
	return !s->client->closing && wire_link_queued(&s->client->link) < EVENT_QUEUE;
}

static void send_event(struct keeper_subscription *s, uint64_t seq, const char *text)
{
	struct wire_event m = {.seq = seq, .missed = seq - s->next, .text = text};

	keeper_client_sent(s->client, wire_event_encode(&s->client->link.out, s->id, 0, &m));
	s->next = text ? seq + 1 : seq;
}

/* Sends the rows of a piece of the log. Returns the bytes of whole lines. */
static size_t send_rows(struct keeper_subscription *s, char *text, size_t n)
{
	size_t done = 0;

	while (has_room(s)) {
		char *end = memchr(text + done, '\n', n - done);
		uint64_t seq;

		if (!end)
			break;
		*end = 0;
		seq = event_row_seq(text + done);
		if (seq >= s->next)
			send_event(s, seq, text + done);
		done = (size_t)(end + 1 - text);
	}
	return done;
}

/* One piece from the log. False if there is no more now. */
static bool serve_once(struct keeper_subscription *s, char *piece)
{
	struct keeper_events *e = &s->client->k->events;
	size_t done;
	ssize_t n;

	if (s->fd < 0) {
		s->fd = keeper_events_open(e, s->client->k->logs.dir_fd, s->generation);
		s->at = 0;
	}
	n = s->fd < 0 ? 0 : pread(s->fd, piece, EVENTS_LINE_MAX, (off_t)s->at);
	done = n > 0 ? send_rows(s, piece, (size_t)n) : 0;
	s->at += done;
	if (done > 0 || !has_room(s))
		return done > 0;
	fd_close(&s->fd);
	if (s->generation == e->generation)
		return false;
	/* Of the files that were begun meanwhile the last two are kept. */
	s->generation = s->generation + 1 < e->generation ? e->generation - 1 : e->generation;
	return true;
}

static void serve(struct keeper_subscription *s)
{
	struct keeper *k = s->client->k;
	char *piece;

	if (k->quiet || s->next > k->events.seq || !has_room(s))
		return;
	piece = malloc(EVENTS_LINE_MAX);
	while (piece && s->next <= k->events.seq && has_room(s) && serve_once(s, piece))
		;
	free(piece);
	if (s->next > k->events.seq)
		fd_close(&s->fd);
}

void keeper_subscriptions_serve(struct keeper_client *c)
{
	for (struct keeper_subscription *s = c->subscriptions; s && !c->closing;
	     s = s->next_of_client)
		serve(s);
}

bool keeper_has_subscribers(const struct keeper *k)
{
	for (const struct keeper_client *c = k->clients; c; c = c->next)
		if (c->subscriptions)
			return true;
	return false;
}

void keeper_subscriptions_row(struct keeper *k, const char *row)
{
	for (struct keeper_client *c = k->clients; c; c = c->next)
		for (struct keeper_subscription *s = c->subscriptions; s; s = s->next_of_client)
			/* A log that is behind is read; without one the row is missed. */
			if (has_room(s) && s->next <= k->events.seq &&
			    (k->quiet || s->next == k->events.seq))
				send_event(s, k->events.seq, row);
}

void keeper_subscriptions_end(struct keeper *k)
{
	for (struct keeper_client *c = k->clients; c; c = c->next) {
		keeper_subscriptions_serve(c);
		while (c->subscriptions) {
			struct keeper_subscription *s = c->subscriptions;

			if (s->next <= k->events.seq)
				send_event(s, k->events.seq + 1, NULL);
			keeper_client_send(c, WIRE_OK, 0, s->id, NULL, 0);
			subscription_free(s);
		}
	}
}

void keeper_subscribe(struct keeper_client *c, uint32_t id, const struct wire_subscribe *m)
{
	struct keeper_subscription *s = calloc(1, sizeof(*s));
	struct keeper *k = c->k;

	if (!s) {
		keeper_client_fail_with(c, id, ERR_FULL, "no memory");
		return;
	}
	*s = (struct keeper_subscription){
		.client = c,
		.id = id,
		.next = m->from ? m->from : k->events.seq + 1,
		.fd = -1,
		.generation = k->events.generation - 1, /* the older file first */
		.next_of_client = c->subscriptions,
	};
	c->subscriptions = s;
	c->request_count++;
	send_event(s, s->next, NULL);
	serve(s);
}
