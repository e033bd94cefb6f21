/* What an honest init cannot say ends the box; what an honest client cannot say ends that
 * client. */
#include "base/limits.h"
#include "keeper_rig.h"
#include "tap.h"

static char zeros[WIRE_DATA_MAX];

static void begin(struct rig *r)
{
	struct wire_exec m = plain_command();

	rig_init(r, true);
	start_command(r, &r->clients[0], 1, &m);
}

static void must_end(struct rig *r)
{
	rig_run(r);
	CHECK(r->ends > 0);
	CHECK_STR(r->cause, "init broke the protocol");
	/* It is not heard any more: nothing it says has an effect. */
	say_exit(r, 1, 0);
	CHECK(peer_silent(r, &r->clients[0]));
	rig_done(r);
}

/* A command runs; after the body the box must end, or the client must be closed, or neither. */
#define WHILE_RUNNING(name, after)                                                    \
	TEST_IN(name, (struct rig * r, struct peer * p), struct rig rig; begin(&rig); \
		body(&rig, &rig.clients[0]); after(&rig);)
#define ENDS_THE_BOX(name)	WHILE_RUNNING(name, must_end)
#define CLOSES_THE_CLIENT(name) WHILE_RUNNING(name, must_close)
#define COMMAND_TEST(name)	WHILE_RUNNING(name, rig_done)

TEST(no_hello)
{
	struct rig r;

	rig_init(&r, false);
	say_started(&r, 1);
	rig_run(&r);
	CHECK_STR(r.cause, "init broke the protocol");
	CHECK(!r.up);
	rig_done(&r);
}

TEST(another_version)
{
	struct rig r;

	rig_init(&r, false);
	CHECK_EQ(wire_hello_encode(&r.init.out, 0, 0, &(struct wire_hello){.lowest = 99}), 0);
	rig_run(&r);
	CHECK_STR(r.cause, "init broke the protocol");
	CHECK(!r.up);
	rig_done(&r);
}

/* A restored box says HELLO again, and may say something else then; a broken one ends as ever. */
ENDS_THE_BOX(second_hello)
{
	struct wire_hello m = {.lowest = 1, .highest = 99, .revision = 7};

	CHECK_EQ(wire_hello_encode(&r->init.out, 0, 0, &m), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	CHECK_EQ(r->k.init_revision, 7);
	CHECK_EQ(r->k.init_peer.version, WIRE_VERSION_MAX);
	m.lowest = 98;
	CHECK_EQ(wire_hello_encode(&r->init.out, 0, 0, &m), 0);
}

/* A type that this Cove does not know, from init and from a client: the box and the connection go
 * on. What breaks the framing still ends both. */
ENDS_THE_BOX(unknown_types)
{
	for (unsigned type = WIRE_TYPE_COUNT; type < 256; type += 50) {
		peer_say(&r->init, (enum wire_type)type, 0, 1, zeros, 100);
		peer_say(&r->init, (enum wire_type)type, 0, 0x80000001u, NULL, 0);
		peer_say(p, (enum wire_type)type, 2, 900 + type, zeros, sizeof(zeros));
		peer_say(p, (enum wire_type)type, 0, 0, NULL, 0); /* no request: dropped */
		CHECK_EQ(peer_error(r, p, 900 + type).kind, ERR_UNSUPPORTED);
	}
	CHECK(r->k.unknown_frames > 5);
	CHECK_EQ(r->ends, 0);
	say_exit(r, 1, 3);
	CHECK_EQ(peer_next(r, p, WIRE_EXIT).id, 1);
	peer_say(&r->init, WIRE_OK, 3, 1, NULL, 0); /* no such stream */
}

ENDS_THE_BOX(data_of_an_unknown_command)
{
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 77, "x", 1);
}

COMMAND_TEST(data_beyond_credit)
{
	for (unsigned i = 0; i <= WIRE_WINDOW / WIRE_DATA_MAX; i++)
		peer_say(&r->init, WIRE_DATA, WIRE_STDERR, 1, zeros, sizeof(zeros));
	p->deaf = true;
	rig_run(r);
	CHECK_STR(r->cause, "init broke the protocol");
}

ENDS_THE_BOX(data_on_stdin)
{
	peer_say(&r->init, WIRE_DATA, WIRE_STDIN, 1, "x", 1);
}

ENDS_THE_BOX(data_after_eof)
{
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, 1, NULL, 0);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 1, "x", 1);
}

ENDS_THE_BOX(started_twice)
{
	say_started(r, 1);
}

ENDS_THE_BOX(exit_twice)
{
	say_exit(r, 1, 0);
	peer_next(r, p, WIRE_EXIT);
	say_exit(r, 1, 0);
}

TEST(exit_before_started)
{
	struct wire_exec m = plain_command();
	struct rig r;

	rig_init(&r, true);
	CHECK_EQ(wire_exec_encode(&r.clients[0].out, 1, 0, &m), 0);
	peer_next(&r, &r.init, WIRE_EXEC);
	say_exit(&r, 1, 0);
	must_end(&r);
}

ENDS_THE_BOX(exit_code_out_of_range)
{
	say_exit(r, 1, 256);
}

ENDS_THE_BOX(stdin_credit_out_of_range)
{
	say_credit(&r->init, 1, WIRE_STDIN, 1);
}

ENDS_THE_BOX(frames_only_a_client_sends)
{
	CHECK_EQ(wire_stop_encode(&r->init.out, 1, 0, &(struct wire_stop){.remove = 1}), 0);
}

ENDS_THE_BOX(an_unknown_file_operation)
{
	peer_say(&r->init, WIRE_OK, 0, KEEPER_REQUEST_BIT | 5, NULL, 0);
}

ENDS_THE_BOX(a_broken_frame)
{
	CHECK_EQ(buf_append(&r->init.out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12),
		 0);
}

COMMAND_TEST(strange_words_are_harmless)
{
	struct exec_record m = {
		.has_exit = 1, .cause = "exit\n[cove] forged", .duration_ms = ~0ull};

	CHECK_EQ(wire_exit_encode(&r->init.out, 1, 0, &m), 0);
	CHECK_STR(peer_exit(r, p, 1).cause, "exit");
	CHECK_EQ(r->ends, 0);
}

COMMAND_TEST(init_goes)
{
	peer_close(&r->init);
	rig_run(r);
	CHECK(r->lost);
	CHECK_EQ(r->ends, 0); /* the owner decides what it means */
	CHECK(!r->k.linked);
	peer_say(p, WIRE_EXECS, 0, 5, NULL, 0);
	peer_next(r, p, WIRE_ERROR);
}

/* ---- clients ---- */

/* The one client is told and closed; another one goes on. */
static void must_close(struct rig *r)
{
	struct peer *other = rig_client(r);

	rig_run(r);
	CHECK_EQ(peer_error(r, &r->clients[0], 0).kind, ERR_PROTOCOL);
	rig_run(r);
	CHECK(r->clients[0].ended);
	CHECK_EQ(r->ends, 0);
	CHECK_EQ(r->k.running_execs, 1);
	peer_say(other, WIRE_STATUS, 0, 1, NULL, 0);
	peer_next(r, other, WIRE_STATUS);
	rig_done(r);
}

CLOSES_THE_CLIENT(client_uses_an_id_twice)
{
	struct wire_exec m = plain_command();

	CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0);
}

CLOSES_THE_CLIENT(client_sends_what_a_box_sends)
{
	peer_say(p, WIRE_STARTED, 0, 5, NULL, 0);
}

CLOSES_THE_CLIENT(client_sends_a_malformed_message)
{
	peer_say(p, WIRE_EXEC, 0, 5, "\x01", 1);
}

CLOSES_THE_CLIENT(client_gives_too_much_credit)
{
	say_credit(p, 1, WIRE_STDOUT, 1);
}

CLOSES_THE_CLIENT(client_sends_data_on_an_output)
{
	peer_say(p, WIRE_DATA, WIRE_STDOUT, 1, "x", 1);
}

COMMAND_TEST(client_sends_garbage)
{
	CHECK_EQ(buf_append(&p->out, "GET / HTTP/1.1\r\n\r\n", 18), 0);
	rig_run(r);
	CHECK(p->ended);
	CHECK_EQ(r->k.running_execs, 1);
	CHECK_EQ(r->ends, 0);
}

/* Late frames for a request that is over are no mistake of anybody's. */
COMMAND_TEST(client_is_late)
{
	struct wire_signal s = {.signal = 2};

	peer_say(p, WIRE_DATA, WIRE_STDIN, 50, "x", 1);
	peer_say(p, WIRE_EOF, WIRE_STDIN, 50, NULL, 0);
	peer_say(p, WIRE_CANCEL, 0, 50, NULL, 0);
	say_credit(p, 50, WIRE_STDOUT, 5);
	CHECK_EQ(wire_signal_encode(&p->out, 50, 0, &s), 0);
	CHECK(peer_silent(r, p));
	CHECK(!p->ended);
	CHECK(peer_silent(r, &r->init));
}

COMMAND_TEST(client_asks_too_much)
{
	struct wire_attach a = {.exec_id = 1, .follow = 1};

	for (uint32_t i = 2; i <= KEEPER_REQUESTS_MAX; i++)
		CHECK_EQ(wire_attach_encode(&p->out, i, 0, &a), 0);
	CHECK(peer_silent(r, p));
	CHECK_EQ(wire_attach_encode(&p->out, 9999, 0, &a), 0);
	CHECK_EQ(peer_error(r, p, 9999).kind, ERR_LIMIT);
}

TAP_MAIN
