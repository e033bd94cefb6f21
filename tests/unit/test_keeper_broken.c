/* What an honest init cannot say ends the box; what an honest client cannot say ends that
 * client. */
#include "base/limits.h"
#include "keeper_rig.h"
#include "tap.h"

static char zeros[WIRE_DATA_MAX];

static uint32_t begin(struct rig *r)
{
	struct wire_exec m = plain_command();

	rig_init(r, true);
	return start_command(r, &r->clients[0], 1, &m);
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
TEST(second_hello)
{
	struct wire_hello m = {.lowest = 1, .highest = 99, .revision = 7};
	struct rig r;

	begin(&r);
	CHECK_EQ(wire_hello_encode(&r.init.out, 0, 0, &m), 0);
	rig_run(&r);
	CHECK_EQ(r.ends, 0);
	CHECK_EQ(r.k.init_revision, 7);
	CHECK_EQ(r.k.init_peer.version, WIRE_VERSION_MAX);
	m.lowest = 98;
	CHECK_EQ(wire_hello_encode(&r.init.out, 0, 0, &m), 0);
	must_end(&r);
}

/* A type that this Cove does not know, from init and from a client: the box and the connection go
 * on. What breaks the framing still ends both. */
TEST(unknown_types)
{
	struct wire_frame f;
	struct wire_error m;
	struct peer *p;
	struct rig r;

	begin(&r);
	p = &r.clients[0];
	for (unsigned type = WIRE_TYPE_COUNT; type < 256; type += 50) {
		peer_say(&r.init, (enum wire_type)type, 0, 1, zeros, 100);
		peer_say(&r.init, (enum wire_type)type, 0, 0x80000001u, NULL, 0);
		peer_say(p, (enum wire_type)type, 2, 900 + type, zeros, sizeof(zeros));
		peer_say(p, (enum wire_type)type, 0, 0, NULL, 0); /* no request: dropped */
		f = peer_next(&r, p, WIRE_ERROR);
		CHECK_EQ(f.id, 900 + type);
		CHECK_EQ(wire_error_decode(&f, &m), 0);
		CHECK_EQ(m.kind, ERR_UNSUPPORTED);
	}
	CHECK(r.k.unknown_frames > 5);
	CHECK_EQ(r.ends, 0);
	say_exit(&r, 1, 3);
	CHECK_EQ(peer_next(&r, p, WIRE_EXIT).id, 1);
	peer_say(&r.init, WIRE_OK, 3, 1, NULL, 0); /* no such stream */
	must_end(&r);
}

TEST(data_of_an_unknown_command)
{
	struct rig r;

	begin(&r);
	peer_say(&r.init, WIRE_DATA, WIRE_STDOUT, 77, "x", 1);
	must_end(&r);
}

TEST(data_beyond_credit)
{
	struct rig r;

	begin(&r);
	for (unsigned i = 0; i <= WIRE_WINDOW / WIRE_DATA_MAX; i++)
		peer_say(&r.init, WIRE_DATA, WIRE_STDERR, 1, zeros, sizeof(zeros));
	r.clients[0].deaf = true;
	rig_run(&r);
	CHECK_STR(r.cause, "init broke the protocol");
	rig_done(&r);
}

TEST(data_on_stdin)
{
	struct rig r;

	begin(&r);
	peer_say(&r.init, WIRE_DATA, WIRE_STDIN, 1, "x", 1);
	must_end(&r);
}

TEST(data_after_eof)
{
	struct rig r;

	begin(&r);
	peer_say(&r.init, WIRE_EOF, WIRE_STDOUT, 1, NULL, 0);
	peer_say(&r.init, WIRE_DATA, WIRE_STDOUT, 1, "x", 1);
	must_end(&r);
}

TEST(started_twice)
{
	struct rig r;

	begin(&r);
	say_started(&r, 1);
	must_end(&r);
}

TEST(exit_twice)
{
	struct rig r;

	begin(&r);
	say_exit(&r, 1, 0);
	peer_next(&r, &r.clients[0], WIRE_EXIT);
	say_exit(&r, 1, 0);
	must_end(&r);
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

TEST(exit_code_out_of_range)
{
	struct rig r;

	begin(&r);
	say_exit(&r, 1, 256);
	must_end(&r);
}

TEST(stdin_credit_out_of_range)
{
	struct rig r;

	begin(&r);
	say_credit(&r.init, 1, WIRE_STDIN, 1);
	must_end(&r);
}

TEST(frames_only_a_client_sends)
{
	struct rig r;

	begin(&r);
	CHECK_EQ(wire_stop_encode(&r.init.out, 1, 0, &(struct wire_stop){.remove = 1}), 0);
	must_end(&r);
}

TEST(an_unknown_file_operation)
{
	struct rig r;

	begin(&r);
	peer_say(&r.init, WIRE_OK, 0, KEEPER_FILE_BIT | 5, NULL, 0);
	must_end(&r);
}

TEST(a_broken_frame)
{
	struct rig r;

	begin(&r);
	CHECK_EQ(buf_append(&r.init.out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12),
		 0);
	must_end(&r);
}

TEST(strange_words_are_harmless)
{
	struct exec_record m = {
		.has_exit = 1, .cause = "exit\n[cove] forged", .duration_ms = ~0ull};
	struct exec_record heard;
	struct wire_frame f;
	struct rig r;

	begin(&r);
	CHECK_EQ(wire_exit_encode(&r.init.out, 1, 0, &m), 0);
	f = peer_next(&r, &r.clients[0], WIRE_EXIT);
	CHECK_EQ(wire_exit_decode(&f, &heard), 0);
	CHECK_STR(heard.cause, "exit");
	CHECK_EQ(r.ends, 0);
	rig_done(&r);
}

TEST(init_goes)
{
	struct rig r;

	begin(&r);
	peer_close(&r.init);
	rig_run(&r);
	CHECK(r.lost);
	CHECK_EQ(r.ends, 0); /* the owner decides what it means */
	CHECK(!r.k.linked);
	peer_say(&r.clients[0], WIRE_EXECS, 0, 5, NULL, 0);
	peer_next(&r, &r.clients[0], WIRE_ERROR);
	rig_done(&r);
}

/* ---- clients ---- */

/* The one client is told and closed; another one goes on. */
static void must_close(struct rig *r)
{
	struct peer *other = rig_client(r);
	struct wire_frame f;
	struct wire_error e;

	rig_run(r);
	f = peer_next(r, &r->clients[0], WIRE_ERROR);
	CHECK_EQ(f.id, 0);
	CHECK_EQ(wire_error_decode(&f, &e), 0);
	CHECK_EQ(e.kind, ERR_PROTOCOL);
	rig_run(r);
	CHECK(r->clients[0].ended);
	CHECK_EQ(r->ends, 0);
	CHECK_EQ(execs_running(&r->k), 1);
	peer_say(other, WIRE_STATUS, 0, 1, NULL, 0);
	peer_next(r, other, WIRE_STATUS);
	rig_done(r);
}

TEST(client_uses_an_id_twice)
{
	struct wire_exec m = plain_command();
	struct rig r;

	begin(&r);
	CHECK_EQ(wire_exec_encode(&r.clients[0].out, 1, 0, &m), 0);
	must_close(&r);
}

TEST(client_sends_what_a_box_sends)
{
	struct rig r;

	begin(&r);
	peer_say(&r.clients[0], WIRE_STARTED, 0, 5, NULL, 0);
	must_close(&r);
}

TEST(client_sends_a_malformed_message)
{
	struct rig r;

	begin(&r);
	peer_say(&r.clients[0], WIRE_EXEC, 0, 5, "\x01", 1);
	must_close(&r);
}

TEST(client_gives_too_much_credit)
{
	struct rig r;

	begin(&r);
	say_credit(&r.clients[0], 1, WIRE_STDOUT, 1);
	must_close(&r);
}

TEST(client_sends_data_on_an_output)
{
	struct rig r;

	begin(&r);
	peer_say(&r.clients[0], WIRE_DATA, WIRE_STDOUT, 1, "x", 1);
	must_close(&r);
}

TEST(client_sends_garbage)
{
	struct rig r;

	begin(&r);
	CHECK_EQ(buf_append(&r.clients[0].out, "GET / HTTP/1.1\r\n\r\n", 18), 0);
	rig_run(&r);
	CHECK(r.clients[0].ended);
	CHECK_EQ(execs_running(&r.k), 1);
	CHECK_EQ(r.ends, 0);
	rig_done(&r);
}

/* Late frames for a request that is over are no mistake of anybody's. */
TEST(client_is_late)
{
	struct wire_signal s = {.signal = 2};
	struct peer *p;
	struct rig r;

	begin(&r);
	p = &r.clients[0];
	peer_say(p, WIRE_DATA, WIRE_STDIN, 50, "x", 1);
	peer_say(p, WIRE_EOF, WIRE_STDIN, 50, NULL, 0);
	peer_say(p, WIRE_CANCEL, 0, 50, NULL, 0);
	say_credit(p, 50, WIRE_STDOUT, 5);
	CHECK_EQ(wire_signal_encode(&p->out, 50, 0, &s), 0);
	CHECK(peer_silent(&r, p));
	CHECK(!p->ended);
	CHECK(peer_silent(&r, &r.init));
	rig_done(&r);
}

TEST(client_asks_too_much)
{
	struct wire_attach a = {.exec_id = 1, .follow = 1};
	struct wire_frame f;
	struct wire_error e;
	struct rig r;

	begin(&r);
	for (uint32_t i = 2; i <= KEEPER_REQUESTS_MAX; i++)
		CHECK_EQ(wire_attach_encode(&r.clients[0].out, i, 0, &a), 0);
	CHECK(peer_silent(&r, &r.clients[0]));
	CHECK_EQ(wire_attach_encode(&r.clients[0].out, 9999, 0, &a), 0);
	f = peer_next(&r, &r.clients[0], WIRE_ERROR);
	CHECK_EQ(wire_error_decode(&f, &e), 0);
	CHECK_EQ(e.kind, ERR_LIMIT);
	CHECK_EQ(f.id, 9999);
	rig_done(&r);
}

TAP_MAIN
