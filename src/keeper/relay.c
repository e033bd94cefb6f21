/* The relay; see relay.h. */
#include "keeper/relay.h"

#include "base/limits.h"
#include "keeper/door.h"
#include "keeper/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_BYTES_MAX = 4096 }; /* of init's */

struct keeper_relay {
	struct keeper_relay *next, *next_of_client; /* of its bucket; of its client */
	enum keeper_relay_kind kind;
	struct keeper_client *client; /* who asked; NULL: init did */
	uint32_t client_id, id;
	bool answered; /* OK passed */
	struct relay_end {
		struct wire_flow flow; /* what it may still send */
		bool ended;	       /* its EOF passed */
	} asker, answerer;
};

#define BIT(type) (1ull << (type))
#define BYTES	  (BIT(WIRE_DATA) | BIT(WIRE_EOF) | BIT(WIRE_CREDIT))
#define ANSWER	  (BIT(WIRE_OK) | BIT(WIRE_ERROR))
_Static_assert(WIRE_TYPE_COUNT <= 64, "a frame type is a bit");

#define CANCEL BIT(WIRE_CANCEL)
#define ENTRY  BIT(WIRE_ENTRY)
#define SAY    BIT(WIRE_SAY)
#define SHELL  BIT(WIRE_SHELL)

/* clang-format off */
static const struct relay_rule {
	enum wire_type asks;
	enum keeper_relay_party asker, answerer;
	uint64_t from_asker, from_answerer; /* types of frames */
	bool is_conn;	  /* OK is its start; it has one EOF each way */
	unsigned max;	  /* in the box; 0: as many as clients may ask */
	const char *what; /* there are too many of */
} rules[RELAY_KIND_COUNT] = {
	[RELAY_FILE] = {WIRE_FILE, PARTY_CLIENT, PARTY_INIT, BYTES | ENTRY | CANCEL,
		BYTES | ENTRY | ANSWER, false, INIT_FILE_OPS_MAX, "file operations are under way"},
	[RELAY_PORT] = {WIRE_PORT, PARTY_CLIENT, PARTY_INIT, BYTES | CANCEL,
		BYTES | CANCEL | ANSWER, true, INIT_PORTS_MAX, "forwarded connections are open"},
	[RELAY_SHELL] = {WIRE_SHELL, PARTY_CLIENT, PARTY_INIT, CANCEL, SHELL | ANSWER, false, 0,
		NULL},
	[RELAY_CONTROL] = {WIRE_DOOR, PARTY_CLIENT, PARTY_DOOR, 0, SAY | ANSWER, false, 0, NULL},
	[RELAY_NAME] = {WIRE_NAME, PARTY_INIT, PARTY_DOOR, CANCEL, ANSWER, false,
		INIT_ASKED_MAX, NULL},
	[RELAY_CONNECT] = {WIRE_CONNECT, PARTY_INIT, PARTY_DOOR, BYTES | CANCEL,
		BYTES | CANCEL | ANSWER, true, INIT_CONNS_MAX, NULL},
};
/* clang-format on */

/* ---- the table ---- */

static struct keeper_relay *find(const struct keeper *k, uint32_t id)
{
	struct keeper_relay *r = k->relays.bucket[id % RELAY_BUCKETS];

	while (r && r->id != id)
		r = r->next;
	return r;
}

static struct keeper_relay *find_of_client(const struct keeper_client *c, uint32_t id)
{
	struct keeper_relay *r = c->relays;

	while (r && r->client_id != id)
		r = r->next_of_client;
	return r;
}

bool keeper_relay_has(const struct keeper_client *c, uint32_t id)
{
	return find_of_client(c, id) != NULL;
}

static struct keeper_relay *relay_new(struct keeper *k, enum keeper_relay_kind kind,
				      struct keeper_client *c, uint32_t id)
{
	struct keeper_relay *r = calloc(1, sizeof(*r)), **at;

	if (!r)
		return NULL;
	r->kind = kind;
	r->id = c ? KEEPER_REQUEST_BIT | (++k->relays.next_id & ~KEEPER_REQUEST_BIT) : id;
	(kind == RELAY_FILE ? wire_flow_init : wire_flow_init_net)(&r->asker.flow);
	r->answerer = r->asker;
	at = &k->relays.bucket[r->id % RELAY_BUCKETS];
	r->next = *at;
	*at = r;
	k->relays.count[kind]++;
	if (c) {
		r->client = c;
		r->client_id = id;
		r->next_of_client = c->relays;
		c->relays = r;
		c->request_count++;
	}
	return r;
}

static void relay_free(struct keeper *k, struct keeper_relay *r)
{
	struct keeper_relay **at = &k->relays.bucket[r->id % RELAY_BUCKETS];

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	k->relays.count[r->kind]--;
	if (r->client) {
		for (at = &r->client->relays; *at != r; at = &(*at)->next_of_client)
			;
		*at = r->next_of_client;
		r->client->request_count--;
	}
	free(r);
}

/* ---- to a party ---- */

static void fail_asker(struct keeper *k, struct keeper_client *c, uint32_t id, const struct err *e)
{
	struct wire_error m = {.kind = e->kind, .code = (uint64_t)e->code, .msg = e->msg};

	if (c)
		keeper_client_fail(c, id, e);
	else if (k->linked)
		keeper_sent_init(k, wire_error_encode(&k->init.out, id, 0, &m));
}

static void end_violator(struct keeper *k, enum keeper_relay_party who, struct keeper_client *c,
			 const char *what)
{
	if (who == PARTY_CLIENT)
		keeper_client_break(c, what);
	else if (who == PARTY_INIT)
		keeper_broken(k, what);
	else
		keeper_door_kill(k->door, "it broke the protocol");
}

/* The words of the box are made safe to print. */
static void send_client(const struct keeper_relay *r, const struct wire_frame *f)
{
	struct keeper_client *c = r->client;
	struct wire_error m;
	struct err e = {0};

	if (f->type == WIRE_ERROR && rules[r->kind].answerer == PARTY_INIT &&
	    wire_error_decode(f, &m) == 0) {
		keeper_error_from_box(&m, &e);
		keeper_client_fail(c, r->client_id, &e);
	} else {
		keeper_client_send(c, f->type, f->stream, r->client_id, f->payload, f->len);
	}
	if (f->type == WIRE_ENTRY || f->type == WIRE_SHELL) /* they have no credit */
		keeper_client_check_queue(c);
}

static void send_to(struct keeper *k, enum keeper_relay_party to, const struct keeper_relay *r,
		    const struct wire_frame *f)
{
	if (to == PARTY_CLIENT)
		send_client(r, f);
	else if (to == PARTY_DOOR)
		keeper_door_send(k->door, f, r->id);
	else if (!r->client)
		keeper_door_pass_to_init(k->door, f);
	else {
		keeper_send_init(k, f->type, f->stream, r->id, f->payload, f->len);
		keeper_gate_pause_link(&r->client->gate);
	}
}

/* ---- a stream begins ---- */

static bool is_whole(const struct wire_frame *f)
{
	union {
		struct wire_file file;
		struct wire_port port;
		struct wire_shell shell;
		struct wire_name name;
		struct wire_connect connect;
		struct wire_door door;
	} m;

	switch (f->type) {
	case WIRE_FILE:
		return wire_file_decode(f, &m.file) == 0;
	case WIRE_PORT:
		return wire_port_decode(f, &m.port) == 0;
	case WIRE_SHELL:
		return f->len <= ASK_BYTES_MAX && wire_shell_decode(f, &m.shell) == 0;
	case WIRE_NAME:
		return f->len <= ASK_BYTES_MAX && wire_name_decode(f, &m.name) == 0;
	case WIRE_CONNECT:
		return f->len <= ASK_BYTES_MAX && wire_connect_decode(f, &m.connect) == 0;
	default:
		return wire_door_decode(f, &m.door) == 0;
	}
}

/* c is NULL where init asks. */
static void begin(struct keeper *k, struct keeper_client *c, const struct wire_frame *f)
{
	enum keeper_relay_party asker = c ? PARTY_CLIENT : PARTY_INIT;
	const struct relay_rule *rule;
	struct keeper_relay *r;
	enum keeper_relay_kind kind = 0;
	struct err e;

	while (rules[kind].asks != f->type)
		kind++;
	rule = &rules[kind];
	if (!is_whole(f)) {
		end_violator(k, asker, c, "a malformed request");
		return;
	}
	if (rule->max > 0 && k->relays.count[kind] >= rule->max) {
		if (c)
			keeper_client_fail_with(c, f->id, ERR_LIMIT, "%u %s in box '%s'", rule->max,
						rule->what, k->name);
		else
			keeper_broken(k, "more requests than it may have open");
		return;
	}
	if (rule->answerer == PARTY_DOOR && keeper_door_ensure(k->door, &e) < 0) {
		fail_asker(k, c, f->id, &e);
		return;
	}
	r = relay_new(k, kind, c, f->id);
	if (!r) {
		err_set(&e, ERR_FULL, ENOMEM, "no memory");
		fail_asker(k, c, f->id, &e);
		return;
	}
	send_to(k, rule->answerer, r, f);
}

void keeper_relay_ask(struct keeper_client *c, const struct wire_frame *f)
{
	begin(c->k, c, f);
}

/* ---- a frame of a stream ---- */

static bool is_too_long(const char *path)
{
	return path && strnlen(path, BOX_PATH_MAX) == BOX_PATH_MAX;
}

/* Checks a frame and counts it: credit, ends, answers. Returns what is wrong with it, or NULL. */
static const char *check_frame(struct keeper *k, struct keeper_relay *r,
			       enum keeper_relay_party from, const struct wire_frame *f)
{
	const struct relay_rule *rule = &rules[r->kind];
	bool asks = rule->asker == from;
	struct relay_end *mine = asks ? &r->asker : &r->answerer;
	struct relay_end *other = asks ? &r->answerer : &r->asker;
	uint8_t stream = from == PARTY_INIT ? WIRE_STDOUT : WIRE_STDIN; /* for its bytes */
	struct wire_credit credit;
	struct wire_entry entry;
	struct wire_shell shell;
	struct wire_error error;

	if (!((asks ? rule->from_asker : rule->from_answerer) & BIT(f->type)))
		return "a frame that its request has not";
	switch (f->type) {
	case WIRE_DATA:
	case WIRE_EOF:
		if (f->stream != stream || mine->ended)
			return "data after its end, or on the wrong stream";
		mine->ended = f->type == WIRE_EOF && rule->is_conn;
		if (f->len > mine->flow.left)
			return "more data than it has credit for";
		mine->flow.left -= f->len;
		if (r->kind == RELAY_CONNECT)
			*(asks ? &k->relays.up_bytes : &k->relays.down_bytes) += f->len;
		return NULL;
	case WIRE_CREDIT:
		return f->stream != (stream == WIRE_STDIN ? WIRE_STDOUT : WIRE_STDIN) ||
				       wire_credit_decode(f, &credit) < 0 ||
				       wire_flow_credit(&other->flow, credit.bytes) < 0
			       ? "more credit than it can give"
			       : NULL;
	case WIRE_ENTRY:
		return wire_entry_decode(f, &entry) < 0 || (!asks && (is_too_long(entry.path) ||
								      is_too_long(entry.target)))
			       ? "a malformed ENTRY"
			       : NULL;
	case WIRE_SHELL:
		return wire_shell_decode(f, &shell) < 0 || is_too_long(shell.cwd)
			       ? "a malformed SHELL"
			       : NULL;
	case WIRE_OK:
		if (r->answered)
			return "a second answer";
		r->answered = true;
		return NULL;
	case WIRE_ERROR:
		return wire_error_decode(f, &error) < 0 ? "a malformed ERROR" : NULL;
	default: /* CANCEL, SAY */
		return NULL;
	}
}

/* What is sent may end a party, and with it its streams: so the stream goes first. */
static void pass(struct keeper *k, struct keeper_relay *r, enum keeper_relay_party from,
		 const struct wire_frame *f)
{
	const struct relay_rule *rule = &rules[r->kind];
	const char *wrong = check_frame(k, r, from, f);
	struct keeper_relay copy = *r;

	if (wrong) {
		end_violator(k, from, r->client, wrong);
		return;
	}
	if (f->type == WIRE_ERROR || (f->type == WIRE_OK && !rule->is_conn) ||
	    (f->type == WIRE_CANCEL && r->kind != RELAY_FILE) ||
	    (r->asker.ended && r->answerer.ended))
		relay_free(k, r);
	send_to(k, rule->asker == from ? rule->answerer : rule->asker, &copy, f);
}

/* The door answers in its own time, whatever the client does meanwhile. */
void keeper_relay_from_client(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper_relay *r = find_of_client(c, f->id);

	if (r && r->kind != RELAY_CONTROL)
		pass(c->k, r, PARTY_CLIENT, f);
}

/* Init's or the door's. Of a stream that is over, it must be one that it could have sent then. */
static void pass_known(struct keeper *k, enum keeper_relay_party from, const struct wire_frame *f)
{
	struct keeper_relay *r = find(k, f->id);
	bool by_init = !(f->id & KEEPER_REQUEST_BIT);
	uint64_t may = 0;

	for (size_t i = 0; i < RELAY_KIND_COUNT; i++) {
		if ((rules[i].asker == PARTY_INIT) != by_init)
			continue;
		if (rules[i].asker == from)
			may |= rules[i].from_asker;
		else if (rules[i].answerer == from)
			may |= rules[i].from_answerer;
	}
	if (!(may & BIT(f->type)) || f->id == KEEPER_REQUEST_BIT ||
	    (!by_init && (f->id & ~KEEPER_REQUEST_BIT) > k->relays.next_id))
		end_violator(k, from, NULL, "a frame that no request has");
	else if (r && (rules[r->kind].asker == from || rules[r->kind].answerer == from))
		pass(k, r, from, f);
}

void keeper_relay_from_init(struct keeper *k, const struct wire_frame *f)
{
	bool by_init = !(f->id & KEEPER_REQUEST_BIT);
	bool asks = by_init && (f->type == WIRE_CONNECT || f->type == WIRE_NAME);

	if (by_init && (!k->door || (asks && find(k, f->id))))
		keeper_broken(k, "a frame of the network that it cannot send");
	else if (asks)
		begin(k, NULL, f);
	else
		pass_known(k, PARTY_INIT, f);
}

void keeper_relay_from_door(struct keeper *k, const struct wire_frame *f)
{
	pass_known(k, PARTY_DOOR, f);
}

/* ---- a party goes ---- */

void keeper_relay_client_gone(struct keeper_client *c)
{
	while (c->relays) {
		if (rules[c->relays->kind].answerer == PARTY_INIT)
			keeper_send_init(c->k, WIRE_CANCEL, 0, c->relays->id, NULL, 0);
		relay_free(c->k, c->relays);
	}
}

static struct keeper_relay *first_of(struct keeper_relay *r, enum keeper_relay_party who)
{
	while (r && rules[r->kind].asker != who && rules[r->kind].answerer != who)
		r = r->next;
	return r;
}

void keeper_relays_end(struct keeper *k, enum keeper_relay_party gone, const struct err *why)
{
	for (size_t i = 0; i < RELAY_BUCKETS; i++) {
		struct keeper_relay *r, copy;

		while ((r = first_of(k->relays.bucket[i], gone))) {
			copy = *r;
			relay_free(k, r);
			if (gone == PARTY_DOOR && copy.answered)
				keeper_send_init(k, WIRE_CANCEL, 0, copy.id, NULL, 0);
			else if (copy.client || gone == PARTY_DOOR)
				fail_asker(k, copy.client, copy.client ? copy.client_id : copy.id,
					   why);
		}
	}
}
