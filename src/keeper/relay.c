/*
 * File operations, and connections to a port in the box: passed between a client and init under
 * another id; see keeper.h.
 *
 * Credit goes through end to end, so neither side can be ahead by more than a window: we only check
 * that each keeps to what the other gave. Init ends a file operation with OK or ERROR, also after a
 * CANCEL. For a port OK is the beginning; it ends with ERROR, with CANCEL from either side, or when
 * EOF went both ways. When the client has gone an operation is forgotten at once, and what init
 * still says for an id that was given out before is dropped.
 */
#include "base/err.h"
#include "base/limits.h"
#include "keeper/exec.h"

#include <stdlib.h>
#include <string.h>

struct relay {
	struct client *client;
	struct relay *next_of_client, *next_of_keeper;
	uint32_t id;	  /* the client's */
	uint32_t init_id; /* with KEEPER_FILE_BIT */
	bool is_port;
	bool to_ended, from_ended; /* port: EOF passed */
	struct wire_flow to_init, from_init;
};

static struct relay *find_of_client(const struct client *c, uint32_t id)
{
	for (struct relay *r = c->relays; r; r = r->next_of_client)
		if (r->id == id)
			return r;
	return NULL;
}

bool relay_has(const struct client *c, uint32_t id)
{
	return find_of_client(c, id) != NULL;
}

static void relay_free(struct relay *r)
{
	struct keeper *k = r->client->k;
	struct relay **at = &r->client->relays;

	while (*at != r)
		at = &(*at)->next_of_client;
	*at = r->next_of_client;
	for (at = &k->relays; *at != r; at = &(*at)->next_of_keeper)
		;
	*at = r->next_of_keeper;
	r->client->request_count--;
	k->relay_count--;
	k->port_count -= r->is_port;
	free(r);
}

static struct relay *relay_new(struct client *c, uint32_t id, bool is_port)
{
	struct keeper *k = c->k;
	struct relay *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->client = c;
	r->id = id;
	r->init_id = KEEPER_FILE_BIT | (++k->next_file & ~KEEPER_FILE_BIT);
	r->is_port = is_port;
	(is_port ? wire_flow_init_net : wire_flow_init)(&r->to_init);
	r->from_init = r->to_init;
	r->next_of_client = c->relays;
	c->relays = r;
	r->next_of_keeper = k->relays;
	k->relays = r;
	c->request_count++;
	k->relay_count++;
	k->port_count += is_port;
	return r;
}

/* Answers if not. */
static bool has_room(struct client *c, uint32_t id, bool is_port)
{
	const struct keeper *k = c->k;
	unsigned count = is_port ? k->port_count : k->relay_count - k->port_count;

	if (count < (is_port ? INIT_PORTS_MAX : INIT_FILE_OPS_MAX))
		return true;
	client_fail_with(c, id, ERR_LIMIT, "%u %s in box '%s'", count,
			 is_port ? "forwarded connections are open"
				 : "file operations are under way",
			 k->name);
	return false;
}

void relay_ask(struct client *c, const struct wire_frame *f)
{
	bool is_port = f->type == WIRE_PORT;
	struct wire_file file;
	struct wire_port port;
	struct relay *r;

	if (is_port ? wire_port_decode(f, &port) < 0 : wire_file_decode(f, &file) < 0) {
		client_break(c, is_port ? "a malformed PORT" : "a malformed FILE");
		return;
	}
	if (!has_room(c, f->id, is_port))
		return;
	r = relay_new(c, f->id, is_port);
	if (!r) {
		client_fail_with(c, f->id, ERR_FULL, "no memory");
		return;
	}
	keeper_send_init(c->k, f->type, 0, r->init_id, f->payload, f->len);
	client_yield(c);
}

/* True if the sender had that much credit, which is then spent. */
static bool spend(struct wire_flow *flow, uint64_t n)
{
	if (n > flow->left)
		return false;
	flow->left -= n;
	return true;
}

/* After a frame of a port was passed on: frees it if that was the last. */
static void book_port(struct relay *r, enum wire_type type, bool *ended)
{
	if (type == WIRE_EOF)
		*ended = true;
	if (type == WIRE_CANCEL || (r->to_ended && r->from_ended))
		relay_free(r);
}

bool relay_from_client(struct client *c, const struct wire_frame *f)
{
	struct relay *r = find_of_client(c, f->id);
	struct wire_credit credit;
	struct wire_entry entry;

	if (!r)
		return false;
	if (f->type == WIRE_DATA && !spend(&r->to_init, f->len)) {
		client_break(c, "more data than it has credit for");
		return true;
	}
	if (f->type == WIRE_CREDIT &&
	    (f->stream != WIRE_STDOUT || wire_credit_decode(f, &credit) < 0 ||
	     wire_flow_credit(&r->from_init, credit.bytes) < 0)) {
		client_break(c, "more credit than it can have");
		return true;
	}
	if (f->type == WIRE_ENTRY && (r->is_port || wire_entry_decode(f, &entry) < 0)) {
		client_break(c, "a malformed ENTRY");
		return true;
	}
	if (r->to_ended && (f->type == WIRE_DATA || f->type == WIRE_EOF)) {
		client_break(c, "data after its end");
		return true;
	}
	keeper_send_init(c->k, f->type, f->stream, r->init_id, f->payload, f->len);
	if (r->is_port)
		book_port(r, f->type, &r->to_ended);
	client_yield(c);
	return true;
}

/* ---- from init ---- */

static void pass_error(struct relay *r, const struct wire_frame *f)
{
	struct client *c = r->client;
	struct wire_error m;
	struct err e = {0};

	if (wire_error_decode(f, &m) < 0) {
		keeper_broken(c->k, "a malformed ERROR");
		return;
	}
	keeper_error_from_box(&m, &e);
	client_fail(c, r->id, &e);
	relay_free(r);
}

static bool is_too_long(const char *path)
{
	return path && strnlen(path, BOX_PATH_MAX) == BOX_PATH_MAX;
}

static void pass_entry(struct relay *r, const struct wire_frame *f)
{
	struct client *c = r->client;
	struct wire_entry m;

	if (r->is_port || wire_entry_decode(f, &m) < 0 || is_too_long(m.path) ||
	    is_too_long(m.target)) {
		keeper_broken(c->k, "a malformed ENTRY");
		return;
	}
	client_send(c, WIRE_ENTRY, f->stream, r->id, f->payload, f->len);
	client_check_queue(c);
}

static void pass_credit(struct relay *r, const struct wire_frame *f)
{
	struct client *c = r->client;
	struct wire_credit m;

	if (f->stream != WIRE_STDIN || wire_credit_decode(f, &m) < 0 ||
	    wire_flow_credit(&r->to_init, m.bytes) < 0) {
		keeper_broken(c->k, "more credit for an operation than there can be");
		return;
	}
	client_credit(c, r->id, WIRE_STDIN, m.bytes);
}

static void pass_data(struct relay *r, const struct wire_frame *f)
{
	if (f->stream != WIRE_STDOUT || r->from_ended || !spend(&r->from_init, f->len)) {
		keeper_broken(r->client->k, "data of an operation beyond its credit");
		return;
	}
	client_send(r->client, f->type, f->stream, r->id, f->payload, f->len);
	if (r->is_port)
		book_port(r, f->type, &r->from_ended);
}

static void pass_ok(struct relay *r, const struct wire_frame *f)
{
	client_send(r->client, WIRE_OK, 0, r->id, NULL, 0);
	if (!r->is_port)
		relay_free(r);
}

static void pass_cancel(struct relay *r, const struct wire_frame *f)
{
	if (!r->is_port) {
		keeper_broken(r->client->k, "it cancels a file operation");
		return;
	}
	client_send(r->client, WIRE_CANCEL, 0, r->id, NULL, 0);
	relay_free(r);
}

void relay_from_init(struct keeper *k, const struct wire_frame *f)
{
	static void (*const pass[WIRE_TYPE_COUNT])(struct relay * r, const struct wire_frame *f) = {
		[WIRE_ERROR] = pass_error,   [WIRE_OK] = pass_ok,	  [WIRE_DATA] = pass_data,
		[WIRE_EOF] = pass_data,	     [WIRE_CREDIT] = pass_credit, [WIRE_ENTRY] = pass_entry,
		[WIRE_CANCEL] = pass_cancel,
	};
	struct relay *r = k->relays;

	while (r && r->init_id != f->id)
		r = r->next_of_keeper;
	if (!wire_type_is_known(f->type) || !pass[f->type])
		keeper_broken(k, "a frame that no operation has");
	else if (r)
		pass[f->type](r, f);
	else if ((f->id & ~KEEPER_FILE_BIT) > k->next_file || f->id == KEEPER_FILE_BIT)
		keeper_broken(k, "an unknown operation");
}

/* ---- ends ---- */

void relay_client_gone(struct client *c)
{
	while (c->relays) {
		keeper_send_init(c->k, WIRE_CANCEL, 0, c->relays->init_id, NULL, 0);
		relay_free(c->relays);
	}
}

void relays_interrupt(struct keeper *k)
{
	while (k->relays) {
		client_fail_with(k->relays->client, k->relays->id, ERR_INTERRUPTED,
				 "box '%s' ended during the %s", k->name,
				 k->relays->is_port ? "connection" : "file operation");
		relay_free(k->relays);
	}
}
