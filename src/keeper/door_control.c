/*
 * Control requests: what clients ask of a box's door; see door.h. The keeper answers what is true
 * of a door that does not run, and passes the rest on under an id of its own.
 */
#include "base/json.h"
#include "keeper/door_parts.h"
#include "keeper/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SAY_BYTES_MAX = 4096 };

static void request_free(struct door_side *d, struct door_request *t)
{
	struct door_request **at = &d->requests;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->client->request_count--;
	free(t);
}

static struct door_request *request_find(struct door_side *d, uint32_t door_id)
{
	struct door_request *t = d->requests;

	while (t && t->door_id != door_id)
		t = t->next;
	return t;
}

void door_requests_end(struct door_side *d, const struct err *e)
{
	while (d->requests) {
		client_fail(d->requests->client, d->requests->id, e);
		request_free(d, d->requests);
	}
}

void door_on_reply(struct door_side *d, const struct wire_frame *f)
{
	struct door_request *t = request_find(d, f->id);

	if (f->type != WIRE_SAY && f->type != WIRE_OK && f->type != WIRE_ERROR) {
		door_kill(d, "it broke the protocol");
		return;
	}
	if (!t)
		return;
	client_send(t->client, f->type, 0, t->id, f->payload, f->len);
	if (f->type != WIRE_SAY)
		request_free(d, t);
}

static void say_status(struct door_side *d, struct client *c, uint32_t id)
{
	struct wire_say m;
	struct json j;
	struct buf b;

	buf_init(&b, SAY_BYTES_MAX);
	json_init(&j, &b);
	json_object_begin(&j);
	json_kv_bool(&j, "running", false);
	json_kv_str(&j, "policy", d->policy);
	json_kv_u64(&j, "connections", 0);
	json_kv_u64(&j, "bytes_up", d->up_bytes);
	json_kv_u64(&j, "bytes_down", d->down_bytes);
	json_kv_u64(&j, "asks", 0);
	json_object_end(&j);
	m.text = j.error == 0 ? buf_cstr(&b) : NULL;
	if (m.text)
		client_sent(c, wire_say_encode(&c->link.out, id, 0, &m));
	buf_done(&b);
}

/* What is true of a door that does not run is said without one. */
static bool answer_here(struct door_side *d, struct client *c, uint32_t id, const char *verb)
{
	if (strcmp(verb, "status") == 0)
		say_status(d, c, id);
	else if (strcmp(verb, "reload") == 0)
		client_sent(c, wire_say_encode(&c->link.out, id, 0,
					       &(struct wire_say){.text = "{\"cut\":0}"}));
	else if (strcmp(verb, "asks") != 0)
		return false;
	client_send(c, WIRE_OK, 0, id, NULL, 0);
	return true;
}

static void begin_request(struct door_side *d, struct client *c, const struct wire_frame *f)
{
	struct door_request *t = calloc(1, sizeof(*t));

	if (!t) {
		client_fail_with(c, f->id, ERR_FULL, "no memory");
		return;
	}
	t->client = c;
	t->id = f->id;
	t->door_id = KEEPER_FILE_BIT | (++d->next_request & ~KEEPER_FILE_BIT);
	t->next = d->requests;
	d->requests = t;
	c->request_count++;
	door_send(d, WIRE_DOOR, 0, t->door_id, f);
}

void door_from_client(struct door_side *d, struct client *c, const struct wire_frame *f)
{
	const char *verb;
	struct wire_door m;
	bool is_change;
	struct err e;

	if (wire_door_decode(f, &m) < 0 || m.argv.count == 0) {
		client_break(c, "a malformed DOOR");
		return;
	}
	verb = m.argv.data;
	is_change = strcmp(verb, "once") == 0 || (strcmp(verb, "reload") == 0 && m.argv.count > 1);
	if (d->state == DOOR_OFF && !is_change && answer_here(d, c, f->id, verb))
		return;
	if (d->state == DOOR_OFF && !is_change)
		client_fail_with(c, f->id, ERR_NOT_FOUND, "nothing of box '%s' waits for an answer",
				 c->k->name);
	else if (door_ensure(d, &e) < 0)
		client_fail(c, f->id, &e);
	else if (door_queued(d) > KEEPER_DOOR_QUEUE)
		client_fail_with(c, f->id, ERR_LIMIT, "the door of box '%s' is busy", c->k->name);
	else
		begin_request(d, c, f);
}

bool door_has_request(const struct door_side *d, const struct client *c, uint32_t id)
{
	for (const struct door_request *t = d->requests; t; t = t->next)
		if (t->client == c && t->id == id)
			return true;
	return false;
}

void door_client_gone(struct door_side *d, struct client *c)
{
	struct door_request *next;

	for (struct door_request *t = d->requests; t; t = next) {
		next = t->next;
		if (t->client == c)
			request_free(d, t);
	}
}
