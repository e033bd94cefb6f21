/* File operations between a client and init. */
#include "base/limits.h"
#include "keeper_rig.h"
#include "tap.h"

static char zeros[WIRE_DATA_MAX];

/* A client asks; returns init's id. */
static uint32_t ask(struct rig *r, struct peer *p, uint32_t id, uint64_t op)
{
	struct wire_file m = {.op = op, .path = "/tmp/x"}, heard;
	struct wire_frame f;

	CHECK_EQ(wire_file_encode(&p->out, id, 0, &m), 0);
	f = peer_next(r, &r->init, WIRE_FILE);
	CHECK(f.id & KEEPER_REQUEST_BIT);
	CHECK_EQ(wire_file_decode(&f, &heard), 0);
	CHECK_STR(heard.path, "/tmp/x");
	return f.id;
}

KEEPER_TEST(get)
{
	struct wire_entry e = {.type = 'f', .path = "", .size = 3};
	struct wire_credit c;
	struct wire_frame f;
	uint32_t id;

	id = ask(r, p, 6, FILE_GET);
	CHECK_EQ(wire_entry_encode(&r->init.out, id, 0, &e), 0);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, id, "abc", 3);
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, id, NULL, 0);
	CHECK_EQ(peer_next(r, p, WIRE_ENTRY).id, 6);
	f = peer_next(r, p, WIRE_DATA);
	CHECK_EQ(f.id, 6);
	CHECK_MEM(f.payload, "abc", 3);
	CHECK_EQ(peer_next(r, p, WIRE_EOF).id, 6);
	say_credit(p, 6, WIRE_STDOUT, 3);
	f = peer_next(r, &r->init, WIRE_CREDIT);
	CHECK_EQ(f.id, id);
	CHECK_EQ(wire_credit_decode(&f, &c), 0);
	CHECK_EQ(c.bytes, 3);
	peer_say(&r->init, WIRE_OK, 0, id, NULL, 0);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 6);
	CHECK_EQ(r->k.relays.count[RELAY_FILE], 0);
}

KEEPER_TEST(put_and_its_error)
{
	struct wire_entry e = {.type = 'f', .path = "a"};
	struct wire_error no = {.kind = ERR_FULL, .code = 28, .msg = "disk full"};
	uint32_t id;

	id = ask(r, p, 6, FILE_PUT);
	CHECK_EQ(wire_entry_encode(&p->out, 6, 0, &e), 0);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 6, "abc", 3);
	CHECK_EQ(peer_next(r, &r->init, WIRE_ENTRY).id, id);
	CHECK_EQ(peer_next(r, &r->init, WIRE_DATA).id, id);
	say_credit(&r->init, id, WIRE_STDIN, 3);
	CHECK_EQ(peer_next(r, p, WIRE_CREDIT).id, 6);
	CHECK_EQ(wire_error_encode(&r->init.out, id, 0, &no), 0);
	CHECK_EQ(peer_next(r, p, WIRE_ERROR).id, 6);
	/* What the client had still on the way is dropped. */
	peer_say(p, WIRE_DATA, WIRE_STDIN, 6, "def", 3);
	CHECK(peer_silent(r, &r->init));
	CHECK(!p->ended);
}

KEEPER_TEST(the_client_goes)
{
	uint32_t id;

	id = ask(r, p, 6, FILE_GET);
	peer_close(p);
	CHECK_EQ(peer_next(r, &r->init, WIRE_CANCEL).id, id);
	/* Init may not know yet. */
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, id, "abc", 3);
	CHECK_EQ(wire_error_encode(&r->init.out, id, 0, &(struct wire_error){.code = 125}), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	CHECK_EQ(r->k.relays.count[RELAY_FILE], 0);
}

KEEPER_TEST(the_client_cancels)
{
	uint32_t id;

	id = ask(r, p, 6, FILE_GET);
	peer_say(p, WIRE_CANCEL, 0, 6, NULL, 0);
	CHECK_EQ(peer_next(r, &r->init, WIRE_CANCEL).id, id);
	CHECK_EQ(wire_error_encode(&r->init.out, id, 0, &(struct wire_error){.code = 125}), 0);
	CHECK_EQ(peer_next(r, p, WIRE_ERROR).id, 6);
}

KEEPER_TEST(init_beyond_credit)
{
	uint32_t id;

	id = ask(r, p, 6, FILE_GET);
	p->deaf = true;
	for (unsigned i = 0; i <= WIRE_WINDOW / WIRE_DATA_MAX; i++)
		peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, id, zeros, sizeof(zeros));
	rig_run(r);
	CHECK_STR(r->cause, "init broke the protocol");
}

KEEPER_TEST(client_beyond_credit)
{
	ask(r, p, 6, FILE_PUT);
	for (unsigned i = 0; i <= WIRE_WINDOW / WIRE_DATA_MAX; i++)
		peer_say(p, WIRE_DATA, WIRE_STDIN, 6, zeros, sizeof(zeros));
	peer_next(r, p, WIRE_ERROR);
	rig_run(r);
	CHECK(p->ended);
	CHECK_EQ(r->ends, 0);
}

/* Entries have no credit: a client that does not read them makes init wait, and all of them
 * come. */
KEEPER_TEST(a_long_listing)
{
	struct wire_entry e = {.type = 'f',
			       .path = "a name of a file in a directory with very many"};
	unsigned said = 60000, heard = 0;
	struct wire_frame f;
	uint32_t id;

	id = ask(r, p, 6, FILE_LIST);
	p->deaf = true;
	for (unsigned i = 0; i < said; i++)
		CHECK_EQ(wire_entry_encode(&r->init.out, id, 0, &e), 0);
	peer_say(&r->init, WIRE_OK, 0, id, NULL, 0);
	rig_run(r);
	CHECK(r->k.clients->gate.pauses_init);
	CHECK(wire_link_queued(&r->k.clients->link) < 3 * CLIENT_QUEUE_MAX);
	p->deaf = false;
	for (;;) {
		if (wire_decoder_next(&p->decoder, &f) <= 0) {
			rig_run(r);
			CHECK_EQ(wire_decoder_next(&p->decoder, &f), 1);
		}
		if (f.type == WIRE_OK)
			break;
		heard++;
	}
	CHECK_EQ(heard, said);
	CHECK_EQ(r->k.blocking, 0);
}

KEEPER_TEST(too_many)
{
	struct wire_file m = {.op = FILE_STAT, .path = "/"};
	struct wire_error e;

	for (uint32_t i = 1; i <= INIT_FILE_OPS_MAX + 1; i++)
		CHECK_EQ(wire_file_encode(&p->out, i, 0, &m), 0);
	e = peer_error(r, p, INIT_FILE_OPS_MAX + 1);
	CHECK_EQ(e.kind, ERR_LIMIT);
	keeper_relays_end(&r->k, PARTY_INIT, &(struct err){.kind = ERR_INTERRUPTED});
	CHECK_EQ(r->k.relays.count[RELAY_FILE], 0);
}

KEEPER_TEST(shells_are_listed_through_the_keeper)
{
	struct wire_shell m = {.name = "default", .state = "idle", .pid = 7}, heard;
	struct wire_frame f;
	uint32_t id;

	CHECK_EQ(wire_shell_encode(&p->out, 5, 0, &(struct wire_shell){0}), 0);
	id = peer_next(r, &r->init, WIRE_SHELL).id;
	CHECK(id & KEEPER_REQUEST_BIT);
	CHECK_EQ(wire_shell_encode(&r->init.out, id, 0, &m), 0);
	f = peer_next(r, p, WIRE_SHELL);
	CHECK(f.id == 5 && wire_shell_decode(&f, &heard) == 0 && heard.pid == 7);
	CHECK_STR(heard.name, "default");
	peer_say(&r->init, WIRE_OK, 0, id, NULL, 0);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 5);
	CHECK_EQ(r->k.relays.count[RELAY_SHELL], 0);
	/* Late: dropped. */
	CHECK_EQ(wire_shell_encode(&r->init.out, id, 0, &m), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 0);
}

/* A port: OK is its beginning. */
static uint32_t ask_port(struct rig *r, struct peer *p, uint32_t id)
{
	struct wire_port heard;
	struct wire_frame f;

	CHECK_EQ(wire_port_encode(&p->out, id, 0, &(struct wire_port){.port = 8000}), 0);
	f = peer_next(r, &r->init, WIRE_PORT);
	CHECK(f.id & KEEPER_REQUEST_BIT);
	CHECK_EQ(wire_port_decode(&f, &heard), 0);
	CHECK_EQ(heard.port, 8000);
	peer_say(&r->init, WIRE_OK, 0, f.id, NULL, 0);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, id);
	CHECK_EQ(r->k.relays.count[RELAY_PORT], 1);
	return f.id;
}

KEEPER_TEST(a_port_ends_when_both_sides_did)
{
	uint32_t id;

	id = ask_port(r, p, 6);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 6, "abc", 3);
	CHECK_EQ(peer_next(r, &r->init, WIRE_DATA).id, id);
	peer_say(p, WIRE_EOF, WIRE_STDIN, 6, NULL, 0);
	CHECK_EQ(peer_next(r, &r->init, WIRE_EOF).id, id);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, id, "def", 3);
	CHECK_EQ(peer_next(r, p, WIRE_DATA).id, 6);
	CHECK_EQ(r->k.relays.count[RELAY_PORT], 1);
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, id, NULL, 0);
	CHECK_EQ(peer_next(r, p, WIRE_EOF).id, 6);
	CHECK_EQ(r->k.relays.count[RELAY_PORT], 0);
	CHECK_EQ(r->k.relays.count[RELAY_FILE], 0);
	/* Late, of either side. */
	peer_say(&r->init, WIRE_CANCEL, 0, id, NULL, 0);
	say_credit(p, 6, WIRE_STDOUT, 3);
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	CHECK(!p->ended);
}

KEEPER_TEST(a_port_ends_by_cancel_of_either)
{
	uint32_t id;

	id = ask_port(r, p, 6);
	peer_say(&r->init, WIRE_CANCEL, 0, id, NULL, 0);
	CHECK_EQ(peer_next(r, p, WIRE_CANCEL).id, 6);
	CHECK_EQ(r->k.relays.count[RELAY_PORT], 0);
	id = ask_port(r, p, 6);
	peer_say(p, WIRE_CANCEL, 0, 6, NULL, 0);
	CHECK_EQ(peer_next(r, &r->init, WIRE_CANCEL).id, id);
	CHECK_EQ(r->k.relays.count[RELAY_PORT], 0);
	id = ask_port(r, p, 6);
	peer_close(p);
	CHECK_EQ(peer_next(r, &r->init, WIRE_CANCEL).id, id);
	CHECK_EQ(r->k.relays.count[RELAY_PORT], 0);
}

KEEPER_TEST(a_port_has_a_small_window_and_no_entries)
{
	struct wire_entry e = {.type = 'f', .path = "a"};
	uint32_t id;

	id = ask_port(r, p, 6);
	CHECK_EQ(wire_entry_encode(&p->out, 6, 0, &e), 0);
	peer_next(r, p, WIRE_ERROR);
	rig_run(r);
	CHECK(p->ended);
	CHECK_EQ(peer_next(r, &r->init, WIRE_CANCEL).id, id);
	p = rig_client(r);
	id = ask_port(r, p, 6);
	p->deaf = true;
	for (unsigned i = 0; i <= WIRE_NET_WINDOW / WIRE_DATA_MAX; i++)
		peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, id, zeros, sizeof(zeros));
	rig_run(r);
	CHECK_STR(r->cause, "init broke the protocol");
}

/* Init never cancels what it was asked to do with files. */
KEEPER_TEST(init_cancels_a_file_operation)
{
	uint32_t id;

	id = ask(r, p, 6, FILE_GET);
	peer_say(&r->init, WIRE_CANCEL, 0, id, NULL, 0);
	rig_run(r);
	CHECK_STR(r->cause, "init broke the protocol");
}

KEEPER_TEST(init_answers_a_port_twice)
{
	uint32_t id = ask_port(r, p, 6);

	peer_say(&r->init, WIRE_OK, 0, id, NULL, 0);
	rig_run(r);
	CHECK_STR(r->cause, "init broke the protocol");
}

TAP_MAIN
