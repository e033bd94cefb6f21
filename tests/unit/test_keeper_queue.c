/* Lines that wait for their shell, and ended commands whose streams are still held. */
#include "base/limits.h"
#include "keeper_rig.h"
#include "tap.h"

#include <signal.h>

static const struct wire_exec waiting_line = {.line = "echo x", .shell = "default"};

static void say_queued(struct rig *r, uint32_t id)
{
	struct wire_queued m = {.exec_id = id};

	CHECK_EQ(wire_queued_encode(&r->init.out, id, 0, &m), 0);
}

static struct exec_record only_info(struct rig *r, struct peer *p, uint32_t id)
{
	struct wire_frame f;
	struct exec_record info;

	peer_say(p, WIRE_EXECS, 0, id, NULL, 0);
	f = peer_next(r, p, WIRE_INFO);
	CHECK_EQ(wire_info_decode(&f, &info), 0);
	return info;
}

KEEPER_TEST(a_queued_line_starts_later)
{
	struct wire_exec m = waiting_line;
	struct exec_record info;

	m.background = 1;
	CHECK_EQ(wire_exec_encode(&p->out, 3, 0, &m), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	say_queued(r, 1);
	CHECK_EQ(peer_next(r, p, WIRE_QUEUED).id, 3); /* the whole answer in the background */
	CHECK_EQ(r->k.clients->request_count, 0);
	info = only_info(r, p, 4);
	CHECK_STR(exec_state_name(info.state), "queued");
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 4);
	CHECK_EQ(r->k.running_execs, 1);
	say_started(r, 1);
	info = only_info(r, p, 5);
	CHECK_STR(exec_state_name(info.state), "running");
	CHECK_EQ(info.pid, 1001);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 5);
	/* Known after kill -9, since it was written before init heard of it. */
	rig_restart(r);
	CHECK_EQ(r->k.exec_count, 1);
	CHECK_EQ(r->k.execs[0]->rec.state, EXEC_INTERRUPTED);
}

KEEPER_TEST(a_queued_line_ends_without_having_run)
{
	struct exec_record over = {.signal = SIGINT, .cause = "killed", .shell_state = SHELL_KEPT};
	struct exec_record end;

	CHECK_EQ(wire_exec_encode(&p->out, 3, 0, &waiting_line), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	say_queued(r, 1);
	CHECK_EQ(peer_next(r, p, WIRE_QUEUED).id, 3);
	CHECK_EQ(wire_exit_encode(&r->init.out, 1, 0, &over), 0);
	end = peer_exit(r, p, 3);
	CHECK_EQ(end.signal, SIGINT);
	CHECK_STR(end.cause, "killed");
	CHECK_EQ(r->k.open_execs, 0); /* no stream was ever open */
	CHECK_EQ(r->k.running_execs, 0);
}

/* Only a line can wait, only once, and only before it began. */
TEST(queued_out_of_turn)
{
	for (int i = 0; i < 3; i++) {
		struct wire_exec m = i == 0 ? plain_command() : waiting_line;
		struct rig r;

		rig_init(&r, true);
		CHECK_EQ(wire_exec_encode(&r.clients[0].out, 3, 0, &m), 0);
		peer_next(&r, &r.init, WIRE_EXEC);
		if (i == 1)
			say_queued(&r, 1);
		if (i == 2)
			say_started(&r, 1);
		say_queued(&r, 1);
		rig_run(&r);
		CHECK_EQ(r.ends, 1);
		rig_done(&r);
	}
}

KEEPER_TEST(ended_commands_take_no_place)
{
	struct wire_exec m = plain_command();
	uint32_t id = 0;

	m.background = 1;
	for (unsigned i = 0; i < INIT_EXECS_MAX + 9; i++) {
		id = start_command(r, p, 2 + i, &m);
		say_exit(r, id, 0); /* and no EOF: a child holds its streams */
		rig_run(r);
	}
	CHECK_EQ(r->k.open_execs, INIT_EXECS_MAX + 9);
	CHECK_EQ(r->k.running_execs, 0);
}

TAP_MAIN
