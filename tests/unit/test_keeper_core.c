/* Commands: what a client asks, what a scripted init answers, what the keeper makes of it. */
#include "base/fd.h"
#include "base/limits.h"
#include "keeper_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static char ones[WIRE_DATA_MAX];

static void say_data(struct rig *r, uint32_t id, uint8_t stream, int byte, size_t n)
{
	memset(ones, byte, sizeof(ones));
	while (n > 0) {
		size_t some = n < sizeof(ones) ? n : sizeof(ones);

		peer_say(&r->init, WIRE_DATA, stream, id, ones, some);
		n -= some;
	}
}

static long log_size(struct rig *r, const char *name)
{
	struct stat st;

	return fstatat(r->box_fd, name, &st, 0) < 0 ? -1 : (long)st.st_size;
}

KEEPER_TEST(a_command_runs)
{
	struct wire_exec m = plain_command();
	struct exec_record end;

	CHECK_EQ(start_command(r, p, 9, &m), 1);
	say_data(r, 1, WIRE_STDOUT, 'a', 5);
	say_data(r, 1, WIRE_STDERR, 'b', 3);
	hear_bytes(r, p, WIRE_STDOUT, 'a', 5);
	hear_bytes(r, p, WIRE_STDERR, 'b', 3);
	say_exit(r, 1, 3);
	end = peer_exit(r, p, 9);
	CHECK_EQ(end.exec_id, 1);
	CHECK_EQ(end.has_exit, 1);
	CHECK_EQ(end.exit_code, 3);
	CHECK_EQ(end.stdout_bytes, 5); /* not what init claimed */
	CHECK_EQ(end.stderr_bytes, 3);
	CHECK_EQ(end.truncated, 0);
	CHECK_STR(end.cwd, "/tmp");
	CHECK_STR(end.cause, "exit");
	CHECK_EQ(log_size(r, "logs/1.out"), 5);
	CHECK_EQ(log_size(r, "logs/1.err"), 3);
	CHECK_EQ(r->k.open_execs, 1); /* streams are still open */
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, 1, NULL, 0);
	peer_say(&r->init, WIRE_EOF, WIRE_STDERR, 1, NULL, 0);
	rig_run(r);
	CHECK_EQ(r->k.open_execs, 0);
	CHECK_EQ(r->k.logs.open, 0);
	CHECK_EQ(r->ends, 0);
}

KEEPER_TEST(what_init_is_told)
{
	struct wire_exec m = plain_command(), told;
	struct wire_frame f;

	r->k.timeout_ms = 700;
	m.background = 1;
	m.inline_max = 9;
	m.cwd = "/tmp";
	CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &m), 0);
	f = peer_next(r, &r->init, WIRE_EXEC);
	CHECK_EQ(f.id, 1);
	CHECK_EQ(wire_exec_decode(&f, &told), 0);
	CHECK_EQ(told.argv.count, 2);
	CHECK_STR(told.cwd, "/tmp");
	CHECK_EQ(told.timeout_ms, 700);
	CHECK_EQ(told.background, 0);
	CHECK_EQ(told.inline_max, 0);
}

KEEPER_TEST(a_command_that_cannot_start)
{
	struct wire_error no = {.kind = ERR_NOT_FOUND, .code = 2, .msg = "no \x1b[31m program"};
	struct wire_exec m = plain_command();
	struct wire_error heard;
	struct exec_record info;
	struct wire_frame f;

	CHECK_EQ(wire_exec_encode(&p->out, 4, 0, &m), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	CHECK_EQ(wire_error_encode(&r->init.out, 1, 0, &no), 0);
	heard = peer_error(r, p, 4);
	CHECK_EQ(heard.kind, ERR_NOT_FOUND);
	CHECK(!strchr(heard.msg, '\x1b'));
	CHECK_EQ(r->k.open_execs, 0);
	/* Its number is not used again, so it stays in the list. */
	peer_say(p, WIRE_EXECS, 0, 6, NULL, 0);
	f = peer_next(r, p, WIRE_INFO);
	CHECK_EQ(wire_info_decode(&f, &info), 0);
	CHECK_EQ(info.exec_id, 1);
	CHECK_STR(exec_state_name(info.state), "done");
	CHECK_STR(info.cause, "failed to start");
	CHECK_EQ(info.has_exit, 1); /* as a shell has it */
	CHECK_EQ(info.exit_code, 127);
	CHECK_EQ(info.truncated, 0);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 6);
	CHECK_EQ(start_command(r, p, 5, &m), 2);
}

KEEPER_TEST(background_and_attach_at_an_offset)
{
	struct wire_exec m = plain_command();
	struct wire_attach a = {.exec_id = 1, .stdout_from = 4, .follow = 1};
	struct wire_frame f;

	m.background = 1;
	CHECK_EQ(start_command(r, &r->clients[0], 1, &m), 1);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 1, "0123456789", 10);
	CHECK(peer_silent(r, &r->clients[0]));
	peer_close(&r->clients[0]);
	rig_run(r);
	CHECK(r->first_gone);
	p = rig_client(r);
	CHECK_EQ(wire_attach_encode(&p->out, 7, 0, &a), 0);
	f = peer_next(r, p, WIRE_DATA); /* from the log */
	CHECK_EQ(f.len, 6);
	CHECK_MEM(f.payload, "456789", 6);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 1, "abc", 3);
	f = peer_next(r, p, WIRE_DATA); /* live */
	CHECK_EQ(f.len, 3);
	CHECK_MEM(f.payload, "abc", 3);
	say_exit(r, 1, 0);
	CHECK_EQ(peer_exit(r, p, 7).stdout_bytes, 13);
}

KEEPER_TEST(attach_to_what_there_is)
{
	struct wire_exec m = plain_command();
	struct wire_attach a = {.exec_id = 1, .inline_max = 4};
	struct wire_frame f;

	m.background = 1;
	start_command(r, p, 1, &m);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 1, "0123456789", 10);
	rig_run(r);
	CHECK_EQ(wire_attach_encode(&p->out, 2, 0, &a), 0);
	f = peer_next(r, p, WIRE_DATA);
	CHECK_EQ(f.len, 4);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 2);
	a = (struct wire_attach){.exec_id = 1, .stdout_from = 999};
	CHECK_EQ(wire_attach_encode(&p->out, 3, 0, &a), 0);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 3);
	a.exec_id = 5;
	CHECK_EQ(wire_attach_encode(&p->out, 4, 0, &a), 0);
	CHECK_EQ(peer_error(r, p, 4).kind, ERR_NOT_FOUND);
	a.exec_id = 1ull << 40;
	CHECK_EQ(wire_attach_encode(&p->out, 5, 0, &a), 0);
	CHECK_EQ(peer_error(r, p, 5).kind, ERR_NOT_FOUND);
}

/* A slow foreground client: init may be one window ahead of it and no more. */
KEEPER_TEST(back_pressure)
{
	struct wire_exec m = plain_command();
	struct wire_credit c;
	struct wire_frame f;
	size_t got = 0;

	start_command(r, p, 1, &m);
	say_data(r, 1, WIRE_STDOUT, 'x', WIRE_WINDOW);
	while (got < WIRE_WINDOW)
		got += peer_next(r, p, WIRE_DATA).len;
	CHECK(peer_silent(r, &r->init)); /* the client took it but gave nothing back */
	say_credit(p, 1, WIRE_STDOUT, WIRE_WINDOW / 2);
	f = peer_next(r, &r->init, WIRE_CREDIT);
	CHECK_EQ(f.id, 1);
	CHECK_EQ(f.stream, WIRE_STDOUT);
	CHECK_EQ(wire_credit_decode(&f, &c), 0);
	CHECK_EQ(c.bytes, WIRE_WINDOW / 2);
	CHECK(peer_silent(r, &r->init));
	/* When it dies nothing holds the command any more. */
	peer_close(p);
	f = peer_next(r, &r->init, WIRE_CREDIT);
	CHECK_EQ(wire_credit_decode(&f, &c), 0);
	CHECK_EQ(c.bytes, WIRE_WINDOW / 2);
	CHECK_EQ(r->ends, 0);
}

/* Past the end of the log a client that holds still gets every byte. */
KEEPER_TEST(past_the_cap)
{
	struct wire_exec m = plain_command();
	size_t total = 4 * WIRE_WINDOW, said = 0, got = 0, allowed = WIRE_WINDOW;
	struct exec_record end;
	struct wire_frame f;

	r->k.logs.exec_bytes_max = 100000;
	start_command(r, p, 1, &m);
	while (got < total) {
		struct wire_credit c;

		for (; said < total && said < allowed; said += 16384)
			say_data(r, 1, WIRE_STDOUT, 'y', 16384);
		rig_run(r);
		while (wire_decoder_next(&p->decoder, &f) > 0) {
			CHECK_EQ(f.type, WIRE_DATA);
			got += f.len;
			say_credit(p, 1, WIRE_STDOUT, f.len);
		}
		rig_run(r);
		while (wire_decoder_next(&r->init.decoder, &f) > 0) {
			CHECK_EQ(f.type, WIRE_CREDIT);
			CHECK_EQ(wire_credit_decode(&f, &c), 0);
			allowed += c.bytes;
		}
	}
	CHECK_EQ(got, total);
	say_exit(r, 1, 0);
	end = peer_exit(r, p, 1);
	CHECK_EQ(end.truncated, 1);
	CHECK_EQ(end.stdout_bytes, total);
	CHECK_EQ(log_size(r, "logs/1.out"), 100000);
	CHECK_EQ(r->ends, 0);
}

/* An attachment that is behind is served from the log; what the log lacks is skipped and said. */
KEEPER_TEST(attach_past_the_cap)
{
	struct wire_attach a = {.exec_id = 1, .follow = 1};
	struct wire_exec m = plain_command();
	struct exec_record end;

	r->k.logs.exec_bytes_max = 1000;
	m.background = 1;
	start_command(r, p, 1, &m);
	say_data(r, 1, WIRE_STDOUT, 'z', 5000);
	rig_run(r);
	CHECK_EQ(wire_attach_encode(&p->out, 2, 0, &a), 0);
	hear_bytes(r, p, WIRE_STDOUT, 'z', 1000);
	say_data(r, 1, WIRE_STDOUT, 'w', 10);
	hear_bytes(r, p, WIRE_STDOUT, 'w', 10);
	say_exit(r, 1, 0);
	end = peer_exit(r, p, 2);
	CHECK_EQ(end.truncated, 1);
	CHECK_EQ(end.stdout_bytes, 5010);
}

/* A deaf follower neither stops the command nor the other one. */
KEEPER_TEST(one_client_never_disturbs_another)
{
	struct wire_attach a = {.exec_id = 1, .follow = 1};
	struct wire_exec m = plain_command();
	size_t left = 6 << 20;
	struct peer *slow;

	m.background = 1;
	start_command(r, p, 1, &m);
	slow = rig_client(r);
	CHECK_EQ(wire_attach_encode(&slow->out, 1, 0, &a), 0);
	rig_run(r);
	slow->deaf = true;
	CHECK_EQ(wire_attach_encode(&p->out, 2, 0, &a), 0);
	for (; left > 0; left -= 1 << 18) {
		say_data(r, 1, WIRE_STDOUT, 'q', 1 << 18);
		hear_bytes(r, p, WIRE_STDOUT, 'q', 1 << 18);
	}
	CHECK_EQ(r->ends, 0);
	CHECK_EQ(r->k.client_count, 2);
	slow->deaf = false;
	hear_bytes(r, slow, WIRE_STDOUT, 'q', 6 << 20);
	say_exit(r, 1, 0);
	CHECK_EQ(peer_exit(r, slow, 1).truncated, 0);
}

KEEPER_TEST(inline_counts_the_rest)
{
	struct wire_exec m = plain_command();
	struct exec_record end;

	m.inline_max = 1000;
	start_command(r, p, 1, &m);
	say_data(r, 1, WIRE_STDOUT, 'i', 200000);
	hear_bytes(r, p, WIRE_STDOUT, 'i', 1000);
	CHECK(peer_silent(r, p));
	say_data(r, 1, WIRE_STDOUT, 'i', 200000);
	peer_next(r, &r->init, WIRE_CREDIT); /* it does not hold any more */
	say_exit(r, 1, 0);
	end = peer_exit(r, p, 1);
	CHECK_EQ(end.stdout_bytes, 400000);
	CHECK_EQ(end.truncated, 1);
	CHECK_EQ(log_size(r, "logs/1.out"), 400000);
}

/* Output after EXIT stays with its own command, and is found by attaching. */
KEEPER_TEST(late_output)
{
	struct wire_attach a = {.exec_id = 1, .follow = 1};
	struct wire_exec m = plain_command();
	struct journal_list list;

	start_command(r, p, 1, &m);
	say_exit(r, 1, 0);
	CHECK_EQ(peer_exit(r, p, 1).stdout_bytes, 0);
	say_data(r, 1, WIRE_STDOUT, 'l', 7);
	CHECK(peer_silent(r, p));
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, 1, NULL, 0);
	peer_say(&r->init, WIRE_EOF, WIRE_STDERR, 1, NULL, 0);
	rig_run(r);
	CHECK_EQ(wire_attach_encode(&p->out, 2, 0, &a), 0);
	hear_bytes(r, p, WIRE_STDOUT, 'l', 7);
	CHECK_EQ(peer_exit(r, p, 2).stdout_bytes, 7);
	CHECK_EQ(r->k.logs.open, 0);
	CHECK_EQ(journal_read(r->box_fd, &list), 0);
	CHECK_EQ(list.count, 1);
	CHECK_EQ(list.records[0].bytes[0], 7);
	CHECK_EQ(list.records[0].state, EXEC_DONE);
	journal_list_done(&list);
}

/* ---- stdin ---- */

KEEPER_TEST(stdin_with_credit_end_to_end)
{
	struct wire_exec m = plain_command();
	struct wire_frame f;

	m.has_stdin = 1;
	start_command(r, p, 5, &m);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 5, "hello", 5);
	f = peer_next(r, &r->init, WIRE_DATA);
	CHECK_EQ(f.id, 1);
	CHECK_MEM(f.payload, "hello", 5);
	say_credit(&r->init, 1, WIRE_STDIN, 5);
	f = peer_next(r, p, WIRE_CREDIT);
	CHECK_EQ(f.id, 5);
	peer_say(p, WIRE_EOF, WIRE_STDIN, 5, NULL, 0);
	CHECK_EQ(peer_next(r, &r->init, WIRE_EOF).id, 1);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 5, "more", 4);
	CHECK(peer_silent(r, &r->init));
}

KEEPER_TEST(stdin_beyond_credit_ends_the_client_only)
{
	struct wire_exec m = plain_command();

	m.has_stdin = 1;
	start_command(r, p, 5, &m);
	for (unsigned i = 0; i <= WIRE_WINDOW / WIRE_DATA_MAX; i++)
		peer_say(p, WIRE_DATA, WIRE_STDIN, 5, ones, sizeof(ones));
	CHECK_EQ(peer_error(r, p, 0).kind, ERR_PROTOCOL);
	rig_run(r);
	CHECK(p->ended);
	CHECK_EQ(r->k.running_execs, 1);
	CHECK_EQ(r->ends, 0);
}

KEEPER_TEST(another_client_takes_stdin_over)
{
	struct wire_attach a = {.exec_id = 1, .follow = 1, .input = 1};
	struct wire_exec m = plain_command();
	size_t heard = 0;
	struct peer *second;

	m.has_stdin = 1;
	start_command(r, p, 5, &m);
	for (unsigned i = 0; i < 5; i++)
		peer_say(p, WIRE_DATA, WIRE_STDIN, 5, ones, sizeof(ones));
	rig_run(r);
	second = rig_client(r);
	CHECK_EQ(wire_attach_encode(&second->out, 8, 0, &a), 0);
	rig_run(r);
	/* It may begin with a whole window, though init has room for less. */
	for (unsigned i = 0; i < WIRE_WINDOW / WIRE_DATA_MAX; i++)
		peer_say(second, WIRE_DATA, WIRE_STDIN, 8, ones, sizeof(ones));
	peer_say(second, WIRE_EOF, WIRE_STDIN, 8, NULL, 0);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 5, "lost", 4);
	while (heard < WIRE_WINDOW)
		heard += peer_next(r, &r->init, WIRE_DATA).len;
	CHECK_EQ(heard, WIRE_WINDOW);
	CHECK(peer_silent(r, &r->init));
	say_credit(&r->init, 1, WIRE_STDIN, WIRE_WINDOW);
	while (heard < WIRE_WINDOW + 5 * WIRE_DATA_MAX)
		heard += peer_next(r, &r->init, WIRE_DATA).len;
	CHECK_EQ(peer_next(r, &r->init, WIRE_EOF).id, 1);
	CHECK_EQ(wire_attach_encode(&second->out, 9, 0, &a), 0);
	CHECK_EQ(peer_error(r, second, 9).kind, ERR_CONFLICT);
}

/* Everything at once, before STARTED: the answer still comes. */
KEEPER_TEST(background_with_stdin)
{
	struct wire_exec m = plain_command();

	m.has_stdin = m.background = 1;
	CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 1, "in", 2);
	peer_say(p, WIRE_EOF, WIRE_STDIN, 1, NULL, 0);
	peer_next(r, &r->init, WIRE_EXEC);
	peer_next(r, &r->init, WIRE_DATA);
	peer_next(r, &r->init, WIRE_EOF);
	say_started(r, 1);
	CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 1);
	CHECK_EQ(r->k.clients->request_count, 0);
}

/* ---- signals, lists, the end ---- */

KEEPER_TEST(signals)
{
	struct wire_signal s = {.exec_id = 1, .signal = 15}, heard;
	struct wire_exec m = plain_command();
	struct wire_frame f;

	start_command(r, p, 5, &m);
	CHECK_EQ(wire_signal_encode(&p->out, 6, 0, &s), 0);
	f = peer_next(r, &r->init, WIRE_SIGNAL);
	CHECK_EQ(f.id, 1);
	CHECK_EQ(wire_signal_decode(&f, &heard), 0);
	CHECK_EQ(heard.signal, 15);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 6);
	s = (struct wire_signal){.signal = 9, .tree = 1};
	CHECK_EQ(wire_signal_encode(&p->out, 5, 0, &s), 0);
	CHECK_EQ(peer_next(r, &r->init, WIRE_SIGNAL).id, 1);
	CHECK(peer_silent(r, p));
	s = (struct wire_signal){.exec_id = 7, .signal = 9};
	CHECK_EQ(wire_signal_encode(&p->out, 8, 0, &s), 0);
	CHECK_EQ(peer_error(r, p, 8).kind, ERR_NOT_FOUND);
	s = (struct wire_signal){.exec_id = 1, .signal = 900};
	CHECK_EQ(wire_signal_encode(&p->out, 9, 0, &s), 0);
	CHECK_EQ(peer_error(r, p, 9).kind, ERR_INVALID);
}

KEEPER_TEST(list_and_status)
{
	struct wire_exec m = {
		.line = "\n\nfirst line\nsecond", .shell = "default", .background = 1};
	struct wire_status status;
	struct exec_record info;
	struct wire_frame f;

	start_command(r, p, 5, &m);
	peer_say(p, WIRE_EXECS, 0, 6, NULL, 0);
	f = peer_next(r, p, WIRE_INFO);
	CHECK_EQ(wire_info_decode(&f, &info), 0);
	CHECK_EQ(info.exec_id, 1);
	CHECK_STR(info.command, "first line");
	CHECK_STR(exec_state_name(info.state), "running");
	CHECK_STR(info.shell, "default");
	CHECK_EQ(info.background, 1);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 6);
	peer_say(p, WIRE_STATUS, 0, 7, NULL, 0);
	f = peer_next(r, p, WIRE_STATUS);
	CHECK_EQ(wire_status_decode(&f, &status), 0);
	CHECK_EQ(status.execs_running, 1);
	CHECK_EQ(status.clients, 1);
	CHECK(strstr(status.notes, "a note\n"));
	CHECK(!strchr(status.notes, '\x1b'));
	m.shell = "bad name";
	CHECK_EQ(wire_exec_encode(&p->out, 8, 0, &m), 0);
	CHECK_EQ(peer_error(r, p, 8).kind, ERR_INVALID);
}

/* Durations are counted by a clock that nobody sets. */
KEEPER_TEST(the_wall_clock_is_set_back_while_a_command_runs)
{
	struct exec_record end = {.has_exit = 1, .duration_ms = 5000};
	struct wire_exec m = plain_command();
	struct exec_record info;
	struct wire_frame f;

	CHECK_EQ(start_command(r, p, 2, &m), 1);
	r->k.execs[0]->rec.started_ms += 3600000;
	peer_say(p, WIRE_EXECS, 0, 6, NULL, 0);
	f = peer_next(r, p, WIRE_INFO);
	CHECK_EQ(wire_info_decode(&f, &info), 0);
	CHECK(info.duration_ms < 3600000);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 6);
	CHECK_EQ(wire_exit_encode(&r->init.out, 1, 0, &end), 0);
	f = peer_next(r, p, WIRE_EXIT);
	CHECK_EQ(wire_exit_decode(&f, &end), 0);
	CHECK(end.duration_ms <= 5000);
}

KEEPER_TEST(the_box_ends)
{
	struct wire_stop stop = {.by = "cove\nstop", .remove = 1, .grace_ms = 5};
	struct wire_exec m = plain_command();
	struct exec_record end;

	start_command(r, p, 1, &m);
	CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &m), 0); /* never answered */
	say_data(r, 1, WIRE_STDOUT, 'e', 4);
	hear_bytes(r, p, WIRE_STDOUT, 'e', 4);
	CHECK_EQ(wire_stop_encode(&p->out, 3, 0, &stop), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 1);
	CHECK_STR(r->cause, "stopped");
	CHECK_STR(r->by, "cove\\nstop");
	CHECK(r->remove);
	CHECK_EQ(r->grace_ms, 5);
	keeper_disconnect(&r->k);
	keeper_execs_interrupt(&r->k);
	keeper_relays_end(&r->k, PARTY_INIT, &(struct err){.kind = ERR_INTERRUPTED});
	keeper_answer_stops(&r->k, NULL);
	CHECK_EQ(peer_error(r, p, 2).kind, ERR_INTERRUPTED);
	end = peer_exit(r, p, 1);
	CHECK_EQ(end.has_exit, 0);
	CHECK_STR(end.cause, "interrupted");
	CHECK_EQ(end.stdout_bytes, 4);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 3);
}

/* A box whose time is over is killed: what ran in it then is known to have been killed with it. */
KEEPER_TEST(what_outlives_the_end_of_its_time_was_killed)
{
	struct wire_exec m = plain_command();
	struct exec_record end;

	start_command(r, p, 1, &m);
	CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &m), 0); /* never answered */
	rig_run(r);
	r->k.end_cause = "ttl";
	keeper_disconnect(&r->k);
	keeper_execs_interrupt(&r->k);
	CHECK_EQ(peer_error(r, p, 2).kind, ERR_INTERRUPTED);
	end = peer_exit(r, p, 1);
	CHECK_EQ(end.has_exit, 0);
	CHECK_EQ(end.signal, SIGKILL);
	CHECK_STR(end.cause, "ttl");
	CHECK_EQ(keeper_exec_find(&r->k, 1)->rec.state, EXEC_DONE);
	CHECK_EQ(keeper_exec_find(&r->k, 2)->rec.state, EXEC_INTERRUPTED);
}

/* Told to end with its box, a command may exit by itself: it is the box's end all the same, unless
 * its own time was over before. */
KEEPER_TEST(what_its_box_ends_has_the_cause_of_the_box)
{
	struct wire_exec m = plain_command();
	struct exec_record said[] = {{.has_exit = 1, .exit_code = 7, .cause = "exit"},
				     {.signal = SIGTERM, .cause = "signal"},
				     {.signal = SIGTERM, .timed_out = 1, .cause = "timeout"}};
	static const char *const causes[] = {"stopped", "stopped", "timeout"};

	for (uint32_t i = 0; i < 3; i++)
		start_command(r, p, i + 1, &m);
	r->k.end_cause = "stopped";
	keeper_execs_tell_end(&r->k, SIGTERM);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(wire_exit_encode(&r->init.out, i + 1, 0, &said[i]), 0);
		CHECK_STR(peer_exit(r, p, i + 1).cause, causes[i]);
	}
}

/* One that ended by itself just before its box was killed. */
KEEPER_TEST(what_nobody_told_to_end_has_its_own_cause)
{
	struct exec_record said = {.has_exit = 1, .cause = "exit"};
	struct wire_exec m = plain_command();

	start_command(r, p, 1, &m);
	r->k.end_cause = "stopped";
	CHECK_EQ(wire_exit_encode(&r->init.out, 1, 0, &said), 0);
	CHECK_STR(peer_exit(r, p, 1).cause, "exit");
}

static uint64_t limit_of(struct keeper *k, const char *limit)
{
	(void)k;
	return strcmp(limit, "mem") == 0 ? 64 << 20 : strcmp(limit, "pids") == 0 ? 20 : 0;
}

/* init says that a limit was met, and we how much it is, whatever it says of that. */
KEEPER_TEST(the_value_of_a_limit_is_ours)
{
	struct wire_exec m = plain_command();
	struct exec_record said[] = {
		{.signal = SIGKILL, .oom_killed = 1, .cause = "oom", .limit_value = 1},
		{.has_exit = 1, .exit_code = 2, .cause = "pids", .limit_value = 1},
		{.has_exit = 1, .exit_code = 2, .cause = "disk", .limit_value = UINT64_MAX},
		{.signal = SIGKILL, .timed_out = 1, .cause = "timeout", .limit_value = 1},
		{.has_exit = 1, .exit_code = 2, .cause = "exit", .limit_value = 7},
		{.has_exit = 1, .exit_code = 2, .cause = "mem", .limit_value = 7}};
	static const uint64_t values[] = {64 << 20, 20, 0, 5000, 0, 0};

	m.timeout_ms = 5000;
	m.grace_ms = 300;
	for (uint32_t i = 0; i < 2 * 6; i++) {
		uint64_t value = i < 6 || said[i % 6].timed_out ? values[i % 6] : 0;

		r->k.limit_of = i < 6 ? limit_of : NULL;
		start_command(r, p, i + 1, &m);
		CHECK_EQ(wire_exit_encode(&r->init.out, i + 1, 0, &said[i % 6]), 0);
		CHECK_EQ(peer_exit(r, p, i + 1).limit_value, value);
	}
}

KEEPER_TEST(io_that_nobody_counts_is_unknown)
{
	struct exec_record said = {.has_exit = 1, .io_read_bytes = 5, .io_write_bytes = 6}, end;
	struct wire_exec m = plain_command();

	start_command(r, p, 1, &m);
	CHECK_EQ(wire_exit_encode(&r->init.out, 1, 0, &said), 0);
	end = peer_exit(r, p, 1);
	CHECK(end.io_read_bytes == 5 && end.io_write_bytes == 6);
	r->k.io_unknown = true;
	start_command(r, p, 2, &m);
	CHECK_EQ(wire_exit_encode(&r->init.out, 2, 0, &said), 0);
	end = peer_exit(r, p, 2);
	CHECK(end.io_read_bytes == WIRE_UNKNOWN && end.io_write_bytes == WIRE_UNKNOWN);
}

/* init finds out for itself what its keeper knows already. */
TEST(one_thing_is_noted_once)
{
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN,
				   .notes = "no cgroup: init's words\nmemory: new\nno colon"};
	struct rig r;

	rig_init(&r, false);
	keeper_note(&r.k, "no cgroup: the keeper's words");
	CHECK_EQ(wire_hello_encode(&r.init.out, 0, 0, &hello), 0);
	rig_run(&r);
	CHECK_STR(buf_cstr(&r.k.notes), "no cgroup: the keeper's words\nmemory: new\nno colon\n");
	rig_done(&r);
}

KEEPER_TEST(numbers_go_on_after_a_restart)
{
	struct wire_attach a = {.exec_id = 1, .follow = 1};
	struct wire_exec m = plain_command();
	struct exec_record end;

	start_command(r, p, 1, &m);
	start_command(r, p, 2, &m);
	say_data(r, 1, WIRE_STDOUT, 'r', 12);
	say_exit(r, 2, 0);
	rig_run(r);
	rig_restart(r);
	CHECK_EQ(wire_attach_encode(&p->out, 7, 0, &a), 0);
	hear_bytes(r, p, WIRE_STDOUT, 'r', 12);
	end = peer_exit(r, p, 7);
	CHECK_EQ(end.has_exit, 0);
	CHECK_STR(end.cause, "interrupted");
	a.exec_id = 2;
	CHECK_EQ(wire_attach_encode(&p->out, 8, 0, &a), 0);
	CHECK_EQ(peer_exit(r, p, 8).has_exit, 1);
	CHECK_EQ(start_command(r, p, 9, &m), 3);
}

KEEPER_TEST(the_oldest_are_forgotten)
{
	struct wire_exec m = plain_command();

	r->k.logs.bytes_max = 100;
	m.background = 1;
	for (uint32_t i = 1; i <= 5; i++) {
		start_command(r, p, i, &m);
		say_data(r, i, WIRE_STDOUT, 'f', 40);
		say_exit(r, i, 0);
		peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, i, NULL, 0);
		peer_say(&r->init, WIRE_EOF, WIRE_STDERR, i, NULL, 0);
		rig_run(r);
	}
	CHECK_EQ(r->k.exec_count, 2);
	CHECK_EQ(r->k.logs.bytes, 80);
	CHECK_EQ(log_size(r, "logs/3.out"), -1);
	CHECK_EQ(log_size(r, "logs/4.out"), 40);
	rig_restart(r);
	CHECK_EQ(r->k.exec_count, 2);
	CHECK_EQ(r->k.next_exec, 6);
}

TAP_MAIN
