/*
 * File operations: passed between a client and init under another id; see keeper.h.
 *
 * Credit goes through end to end, so neither side can be ahead by more than a window: we only check
 * that each keeps to what the other gave. Init ends an operation with OK or ERROR, also after a
 * CANCEL; when the client has gone the operation is forgotten at once, and what init still says for
 * an id that was given out before is dropped.
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
	free(r);
}

static struct relay *relay_new(struct client *c, uint32_t id)
{
	struct keeper *k = c->k;
	struct relay *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->client = c;
	r->id = id;
	r->init_id = KEEPER_FILE_BIT | (++k->next_file & ~KEEPER_FILE_BIT);
	wire_flow_init(&r->to_init);
	wire_flow_init(&r->from_init);
	r->next_of_client = c->relays;
	c->relays = r;
	r->next_of_keeper = k->relays;
	k->relays = r;
	c->request_count++;
	k->relay_count++;
	return r;
}

void relay_ask(struct client *c, const struct wire_frame *f)
{
	struct wire_file m;
	struct relay *r;

	if (wire_file_decode(f, &m) < 0) {
		client_break(c, "a malformed FILE");
		return;
	}
	if (c->k->relay_count >= INIT_FILE_OPS_MAX) {
		client_fail_with(c, f->id, ERR_LIMIT,
				 "%u file operations are under way in box '%s'", c->k->relay_count,
				 c->k->name);
		return;
	}
	r = relay_new(c, f->id);
	if (!r) {
		client_fail_with(c, f->id, ERR_FULL, "no memory");
		return;
	}
	keeper_send_init(c->k, WIRE_FILE, 0, r->init_id, f->payload, f->len);
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
	if (f->type == WIRE_ENTRY && wire_entry_decode(f, &entry) < 0) {
		client_break(c, "a malformed ENTRY");
		return true;
	}
	keeper_send_init(c->k, f->type, f->stream, r->init_id, f->payload, f->len);
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

	if (wire_entry_decode(f, &m) < 0 || is_too_long(m.path) || is_too_long(m.target)) {
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
		keeper_broken(c->k, "more credit for a file than there can be");
		return;
	}
	client_credit(c, r->id, WIRE_STDIN, m.bytes);
}

static void pass_data(struct relay *r, const struct wire_frame *f)
{
	if (f->stream != WIRE_STDOUT || !spend(&r->from_init, f->len)) {
		keeper_broken(r->client->k, "data of a file beyond its credit");
		return;
	}
	client_send(r->client, f->type, f->stream, r->id, f->payload, f->len);
}

static void pass_ok(struct relay *r, const struct wire_frame *f)
{
	client_send(r->client, WIRE_OK, 0, r->id, NULL, 0);
	relay_free(r);
}

void relay_from_init(struct keeper *k, const struct wire_frame *f)
{
	static void (*const pass[WIRE_TYPE_COUNT])(struct relay * r, const struct wire_frame *f) = {
		[WIRE_ERROR] = pass_error, [WIRE_OK] = pass_ok,		[WIRE_DATA] = pass_data,
		[WIRE_EOF] = pass_data,	   [WIRE_CREDIT] = pass_credit, [WIRE_ENTRY] = pass_entry,
	};
	struct relay *r = k->relays;

	while (r && r->init_id != f->id)
		r = r->next_of_keeper;
	if (!pass[f->type])
		keeper_broken(k, "a frame that no file operation has");
	else if (r)
		pass[f->type](r, f);
	else if ((f->id & ~KEEPER_FILE_BIT) > k->next_file || f->id == KEEPER_FILE_BIT)
		keeper_broken(k, "an unknown file operation");
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
				 "box '%s' ended during the file operation", k->name);
		relay_free(k->relays);
	}
}
