/* What is asked of the box as a whole: pausing, numbers, and what counts as using it. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_snapshot.h"
#include "keeper_rig.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>

static unsigned asked_pauses;
static bool last_on, refuse_pause;
static uint64_t fake_ms = 1000;

static int on_freeze(struct keeper *k, bool on, struct err *e)
{
	if (refuse_pause)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "there is no freezer here");
	asked_pauses++;
	last_on = on;
	return 0;
}

static void on_stats(struct keeper *k, struct wire_stats *m)
{
	m->mem_bytes = 123;
	m->pids_limit = UINT64_MAX;
}

static uint64_t fake_clock(void *arg)
{
	return fake_ms;
}

static struct peer *begin(struct rig *r)
{
	asked_pauses = 0;
	refuse_pause = false;
	rig_init(r, true);
	ev_set_clock(r->ev, fake_clock, NULL);
	rig_run(r);
	r->k.on_freeze = on_freeze;
	r->k.on_stats = on_stats;
	return &r->clients[0];
}

#define STATE_TEST(name)                                                                          \
	TEST_IN(name, (struct rig * r, struct peer * p), struct rig rig; body(&rig, begin(&rig)); \
		rig_done(&rig);)

static void say_pause(struct peer *p, uint32_t id, bool on)
{
	struct wire_pause m = {.on = on, .by = "a \x1b[31mtest"};

	CHECK_EQ(wire_pause_encode(&p->out, id, 0, &m), 0);
}

static void must_pause(struct rig *r, struct peer *p, bool on)
{
	bool changes = r->k.paused && !on;
	struct wire_pause told;
	struct wire_frame f;

	say_pause(p, 77, on);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 77);
	CHECK_EQ(r->k.paused, on);
	if (!changes)
		return;
	/* init is told how long it was away. */
	f = peer_next(r, &r->init, WIRE_PAUSE);
	CHECK_EQ(wire_pause_decode(&f, &told), 0);
	CHECK(told.for_ms < 60000);
}

static struct wire_status status_of(struct rig *r, struct peer *p)
{
	struct wire_status m;
	struct wire_frame f;

	peer_say(p, WIRE_STATUS, 0, 5, NULL, 0);
	f = peer_next(r, p, WIRE_STATUS);
	CHECK_EQ(wire_status_decode(&f, &m), 0);
	return m;
}

static char *events_of(struct rig *r)
{
	char *text = NULL;

	if (fd_read_file(r->box_fd, "logs/events.jsonl", 1 << 20, &text, NULL) < 0)
		text = strdup("");
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

STATE_TEST(a_paused_box_takes_nothing_new)
{
	struct wire_exec m = plain_command();
	struct wire_file file = {.op = 1, .path = "/tmp/x"};
	struct wire_signal kill = {.exec_id = 1, .signal = 9, .tree = 1};

	start_command(r, p, 9, &m);
	CHECK_EQ(status_of(r, p).paused, 0);
	must_pause(r, p, true);
	CHECK_EQ(last_on, 1);
	CHECK_EQ(status_of(r, p).paused, 1);
	CHECK_EQ(wire_exec_encode(&p->out, 10, 0, &m), 0);
	CHECK_EQ(peer_error(r, p, 10).kind, ERR_CONFLICT);
	CHECK_EQ(wire_file_encode(&p->out, 11, 0, &file), 0);
	CHECK_EQ(peer_error(r, p, 11).kind, ERR_CONFLICT);
	CHECK_EQ(wire_signal_encode(&p->out, 12, 0, &kill), 0);
	CHECK_EQ(peer_error(r, p, 12).kind, ERR_CONFLICT);
	CHECK(peer_silent(r, &r->init));
	must_pause(r, p, false);
	CHECK_EQ(last_on, 0);
	CHECK_EQ(start_command(r, p, 13, &m), 2);
}

STATE_TEST(twice_is_fine_and_each_change_is_an_event)
{
	char *text;

	must_pause(r, p, false);
	CHECK_EQ(asked_pauses, 0);
	must_pause(r, p, true);
	must_pause(r, p, true);
	CHECK_EQ(asked_pauses, 1);
	must_pause(r, p, false);
	CHECK_EQ(asked_pauses, 2);
	text = events_of(r);
	CHECK_EQ(count(text, "\"event\":\"pause\""), 1);
	CHECK_EQ(count(text, "\"event\":\"resume\""), 1);
	CHECK_EQ(count(text, "\x1b"), 0);
	free(text);
}

STATE_TEST(a_refusal_changes_nothing)
{
	struct wire_frame f;
	struct wire_error m;
	char *text;

	refuse_pause = true;
	say_pause(p, 4, true);
	f = peer_next(r, p, WIRE_ERROR);
	CHECK_EQ(wire_error_decode(&f, &m), 0);
	CHECK_EQ(m.kind, ERR_UNSUPPORTED);
	CHECK_EQ(r->k.paused, 0);
	text = events_of(r);
	CHECK_EQ(count(text, "pause"), 0);
	free(text);
	r->k.on_freeze = NULL;
	say_pause(p, 5, true);
	f = peer_next(r, p, WIRE_ERROR);
	CHECK_EQ(f.id, 5);
	r->k.ending = true;
	say_pause(p, 6, true);
	f = peer_next(r, p, WIRE_ERROR);
	CHECK_EQ(f.id, 6);
}

TEST(a_malformed_pause_ends_its_client_only)
{
	struct peer *p, *other;
	struct rig r;

	p = begin(&r);
	other = rig_client(&r);
	peer_say(p, WIRE_PAUSE, 0, 3, "\x01\xff\xff", 3);
	peer_next(&r, p, WIRE_ERROR);
	rig_run(&r);
	CHECK(p->ended);
	CHECK_EQ(r.k.paused, 0);
	say_pause(other, 0, true);
	peer_next(&r, other, WIRE_ERROR);
	CHECK_EQ(r.k.paused, 0);
	CHECK_EQ(r.ends, 0);
	rig_done(&r);
}

/* A pause is not held against a command that has a timeout. */
STATE_TEST(the_backstop_stands_still_too)
{
	struct wire_exec m = plain_command();

	m.timeout_ms = 1000;
	start_command(r, p, 9, &m);
	fake_ms += 500;
	must_pause(r, p, true);
	fake_ms += 10 * KEEPER_BACKSTOP_MS;
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	must_pause(r, p, false);
	fake_ms += KEEPER_BACKSTOP_MS;
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	fake_ms += 501;
	rig_run(r);
	CHECK_EQ(r->ends, 1);
	CHECK_STR(r->cause, "init unresponsive");
}

/* STARTED was on its way when the box was frozen. */
STATE_TEST(a_command_that_starts_into_a_pause)
{
	struct wire_exec m = plain_command();

	m.timeout_ms = 1000;
	CHECK_EQ(wire_exec_encode(&p->out, 9, 0, &m), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	must_pause(r, p, true);
	say_started(r, 1);
	peer_next(r, p, WIRE_STARTED);
	fake_ms += 10 * KEEPER_BACKSTOP_MS;
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	must_pause(r, p, false);
	fake_ms += KEEPER_BACKSTOP_MS + 1001;
	rig_run(r);
	CHECK_EQ(r->ends, 1);
}

STATE_TEST(a_paused_box_can_be_stopped_and_followed)
{
	struct wire_exec m = plain_command();
	struct wire_attach attach = {.exec_id = 1};
	struct wire_stop stop = {.by = "test"};

	start_command(r, p, 9, &m);
	must_pause(r, p, true);
	CHECK_EQ(wire_attach_encode(&p->out, 20, 0, &attach), 0);
	peer_next(r, p, WIRE_OK);
	CHECK_EQ(wire_stop_encode(&p->out, 21, 0, &stop), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 1);
	CHECK_STR(r->cause, "stopped");
}

/* What a client may still say to a frozen box is bounded: it is not read once much is waiting. */
STATE_TEST(a_flood_for_a_paused_box)
{
	struct wire_exec m = plain_command();
	struct wire_signal sig = {.signal = 2};

	start_command(r, p, 9, &m);
	must_pause(r, p, true);
	r->init.deaf = true;
	for (int i = 0; i < 400000; i++)
		CHECK_EQ(wire_signal_encode(&p->out, 9, 0, &sig), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	CHECK(wire_link_queued(&r->k.init) < 2 * KEEPER_INIT_QUEUE);
}

/* So is what it says to any command by its number, while init is busy. */
STATE_TEST(a_flood_of_signals_by_number)
{
	struct wire_exec m = plain_command();
	struct wire_signal sig = {.signal = 2, .exec_id = start_command(r, p, 9, &m)};

	r->init.deaf = true;
	for (uint32_t i = 0; i < 500000; i++)
		CHECK_EQ(wire_signal_encode(&p->out, 10 + i, 0, &sig), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	CHECK(wire_link_queued(&r->k.init) < 2 * KEEPER_INIT_QUEUE);
}

static void say_hold(struct peer *p, uint32_t id, bool on)
{
	struct wire_pause m = {.on = on, .hold = 1};

	CHECK_EQ(wire_pause_encode(&p->out, id, 0, &m), 0);
}

static void must_hold(struct rig *r, struct peer *p, bool on)
{
	say_hold(p, 78, on);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 78);
}

/* To others a box that is frozen for one client is running: what they ask waits. */
STATE_TEST(a_hold_is_its_clients_own)
{
	struct peer *other = rig_client(r);
	struct wire_exec m = plain_command();
	char *text;

	must_hold(r, other, true);
	CHECK_EQ(last_on, 1);
	CHECK(keeper_is_frozen(&r->k) && !r->k.paused);
	CHECK_EQ(status_of(r, p).paused, 0);
	CHECK_EQ(wire_exec_encode(&p->out, 9, 0, &m), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	say_hold(other, 79, true);
	CHECK_EQ(peer_error(r, other, 79).kind, ERR_CONFLICT);
	say_hold(p, 79, false);
	CHECK_EQ(peer_error(r, p, 79).kind, ERR_CONFLICT);
	CHECK(keeper_is_frozen(&r->k));
	must_hold(r, other, false);
	CHECK_EQ(last_on, 0);
	peer_next(r, &r->init, WIRE_PAUSE);
	CHECK(!keeper_is_frozen(&r->k));
	text = events_of(r);
	CHECK_EQ(count(text, "pause"), 0);
	free(text);
}

STATE_TEST(a_hold_ends_with_its_connection)
{
	struct peer *other = rig_client(r), *third = rig_client(r);

	must_hold(r, other, true);
	must_hold(r, third, true);
	CHECK_EQ(asked_pauses, 1);
	peer_close(other);
	rig_run(r);
	CHECK(keeper_is_frozen(&r->k));
	peer_close(third);
	rig_run(r);
	CHECK(!keeper_is_frozen(&r->k));
	CHECK_EQ(asked_pauses, 2);
	CHECK_EQ(last_on, 0);
	CHECK_EQ(r->ends, 0);
}

STATE_TEST(a_hold_is_bounded)
{
	must_hold(r, p, true);
	fake_ms += KEEPER_HOLD_MS - 1;
	rig_run(r);
	CHECK(keeper_is_frozen(&r->k));
	fake_ms += 2;
	rig_run(r);
	CHECK(!keeper_is_frozen(&r->k));
	say_hold(p, 80, false);
	CHECK_EQ(peer_error(r, p, 80).kind, ERR_TIMEOUT);
	say_hold(p, 81, false);
	CHECK_EQ(peer_error(r, p, 81).kind, ERR_CONFLICT);
	must_hold(r, p, true);
	must_hold(r, p, false);
}

STATE_TEST(a_pause_outlives_a_hold)
{
	struct peer *other = rig_client(r);

	must_pause(r, p, true);
	must_hold(r, other, true);
	must_hold(r, other, false);
	CHECK(keeper_is_frozen(&r->k) && r->k.paused);
	CHECK_EQ(asked_pauses, 1);
	must_hold(r, other, true);
	say_pause(p, 77, false); /* resumed meanwhile */
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 77);
	CHECK(keeper_is_frozen(&r->k) && !r->k.paused);
	say_pause(p, 77, true);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 77);
	peer_close(other);
	rig_run(r);
	CHECK(r->k.paused);
	CHECK_EQ(asked_pauses, 1);
	must_pause(r, p, false);
	CHECK_EQ(last_on, 0);
}

/* What cannot be thawed is shown as what it is, so that somebody can try again. */
STATE_TEST(a_hold_that_does_not_thaw)
{
	struct peer *other = rig_client(r);

	refuse_pause = true;
	say_hold(other, 80, true);
	CHECK_EQ(peer_error(r, other, 80).kind, ERR_UNSUPPORTED);
	CHECK(!keeper_is_frozen(&r->k));
	refuse_pause = false;
	must_hold(r, other, true);
	refuse_pause = true;
	peer_close(other);
	rig_run(r);
	CHECK(r->k.paused);
	refuse_pause = false;
	must_pause(r, p, false);
	CHECK(!keeper_is_frozen(&r->k));
}

/* ---- asleep ---- */

static void must_sleep(struct rig *r, const char *cause)
{
	struct err e;

	CHECK_EQ(keeper_sleep(&r->k, cause, &e), 0);
	CHECK(r->k.paused && r->k.asleep);
}

STATE_TEST(a_request_wakes_a_box_that_is_asleep)
{
	struct wire_file file = {.op = 1, .path = "/tmp/x"};
	struct wire_signal kill = {.exec_id = 1, .signal = 9};
	struct wire_exec m = plain_command();
	struct wire_port port = {.port = 80};
	struct wire_pause told;
	struct wire_frame f;
	char *text;

	start_command(r, p, 9, &m);
	for (unsigned i = 0; i < 4; i++) {
		must_sleep(r, i % 2 ? "ttl" : "idle");
		CHECK_EQ(last_on, 1);
		CHECK_EQ(status_of(r, p).paused, 1);
		peer_say(p, WIRE_STATS, 0, 8, NULL, 0);
		peer_next(r, p, WIRE_STATS);
		CHECK(r->k.asleep);
		if (i == 0)
			CHECK_EQ(wire_exec_encode(&p->out, 20, 0, &m), 0);
		else if (i == 1)
			CHECK_EQ(wire_file_encode(&p->out, 21, 0, &file), 0);
		else if (i == 2)
			CHECK_EQ(wire_port_encode(&p->out, 22, 0, &port), 0);
		else
			CHECK_EQ(wire_signal_encode(&p->out, 23, 0, &kill), 0);
		/* init hears first how long it was away, and then what was asked. */
		f = peer_next(r, &r->init, WIRE_PAUSE);
		CHECK_EQ(wire_pause_decode(&f, &told), 0);
		peer_next(r, &r->init,
			  i == 0   ? WIRE_EXEC
			  : i == 1 ? WIRE_FILE
			  : i == 2 ? WIRE_PORT
				   : WIRE_SIGNAL);
		CHECK(!r->k.paused && !r->k.asleep && !last_on);
	}
	text = events_of(r);
	CHECK_EQ(count(text, "\"cause\":\"idle\",\"by\":\"cove\""), 2);
	CHECK_EQ(count(text, "\"cause\":\"ttl\",\"by\":\"cove\""), 2);
	CHECK_EQ(count(text, "\"by\":\"request\""), 4);
	free(text);
}

/* What belongs to a command that runs is not what wakes it. */
STATE_TEST(bytes_for_a_command_wait_while_it_is_asleep)
{
	struct wire_exec m = plain_command();

	m.has_stdin = 1;
	start_command(r, p, 9, &m);
	must_sleep(r, "ttl");
	peer_say(p, WIRE_DATA, WIRE_STDIN, 9, "typed", 5);
	peer_say(p, WIRE_CANCEL, 0, 99, NULL, 0);
	rig_run(r);
	CHECK(r->k.asleep);
	peer_next(r, &r->init, WIRE_DATA);
	must_pause(r, p, false);
	CHECK(!r->k.asleep);
}

STATE_TEST(a_person_has_the_last_word)
{
	struct wire_exec m = plain_command();
	struct err e;

	/* Asleep, then paused. */
	must_sleep(r, "idle");
	must_pause(r, p, true);
	CHECK_EQ(asked_pauses, 1);
	CHECK(!r->k.asleep);
	CHECK_EQ(wire_exec_encode(&p->out, 10, 0, &m), 0);
	CHECK_EQ(peer_error(r, p, 10).kind, ERR_CONFLICT);
	/* Its time is over while it is paused: that changes nothing. */
	CHECK_EQ(keeper_sleep(&r->k, "ttl", &e), 0);
	CHECK(r->k.paused && !r->k.asleep);
	must_pause(r, p, false);
	/* And what is asleep is resumed as what is paused. */
	must_sleep(r, "ttl");
	must_pause(r, p, false);
	CHECK_EQ(start_command(r, p, 11, &m), 1);
}

STATE_TEST(what_does_not_thaw_is_not_served)
{
	struct wire_exec m = plain_command();

	must_sleep(r, "idle");
	refuse_pause = true;
	CHECK_EQ(wire_exec_encode(&p->out, 10, 0, &m), 0);
	CHECK_EQ(peer_error(r, p, 10).kind, ERR_UNSUPPORTED);
	CHECK(r->k.paused && r->k.asleep);
	refuse_pause = false;
	CHECK_EQ(wire_exec_encode(&p->out, 11, 0, &m), 0);
	peer_next(r, &r->init, WIRE_PAUSE); /* of the first try */
	peer_next(r, &r->init, WIRE_PAUSE);
	peer_next(r, &r->init, WIRE_EXEC);
	CHECK(!r->k.paused && !r->k.asleep);
	/* What does not freeze goes on. */
	refuse_pause = true;
	CHECK(keeper_sleep(&r->k, "idle", &(struct err){0}) < 0);
	CHECK(!r->k.paused && !r->k.asleep);
}

STATE_TEST(sleep_and_holds)
{
	struct peer *other = rig_client(r);
	struct wire_exec m = plain_command();

	/* It falls asleep while it is held, and stays so. */
	must_hold(r, other, true);
	must_sleep(r, "ttl");
	CHECK_EQ(asked_pauses, 1);
	must_hold(r, other, false);
	CHECK(keeper_is_frozen(&r->k) && r->k.asleep);
	/* A hold does not wake it; a request meanwhile does, once the hold is over. */
	must_hold(r, other, true);
	CHECK(r->k.asleep);
	CHECK_EQ(wire_exec_encode(&p->out, 10, 0, &m), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	CHECK(!r->k.paused && keeper_is_frozen(&r->k));
	must_hold(r, other, false);
	CHECK(!keeper_is_frozen(&r->k));
	CHECK_EQ(last_on, 0);
}

static unsigned times_set;

static int on_times(struct keeper *k, const struct wire_times *m, struct err *e)
{
	if (m->ttl_ms == 1)
		return err_set(e, ERR_INVALID, EINVAL, "too little");
	times_set++;
	return 0;
}

STATE_TEST(times)
{
	struct wire_times m = {.ttl_ms = 60000, .idle_ms = WIRE_TIMES_NONE};

	CHECK_EQ(wire_times_encode(&p->out, 4, 0, &m), 0);
	CHECK_EQ(peer_error(r, p, 4).kind, ERR_UNSUPPORTED);
	r->k.on_times = on_times;
	must_sleep(r, "idle");
	CHECK_EQ(wire_times_encode(&p->out, 5, 0, &m), 0);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 5);
	CHECK_EQ(times_set, 1);
	CHECK(r->k.asleep);
	m.ttl_ms = 1;
	CHECK_EQ(wire_times_encode(&p->out, 6, 0, &m), 0);
	CHECK_EQ(peer_error(r, p, 6).kind, ERR_INVALID);
	r->k.ending = true;
	CHECK_EQ(wire_times_encode(&p->out, 7, 0, &m), 0);
	CHECK_EQ(peer_error(r, p, 7).kind, ERR_CONFLICT);
	r->k.ending = false;
	peer_say(p, WIRE_TIMES, 0, 8, "\x01\xff\xff", 3);
	peer_next(r, p, WIRE_ERROR);
	rig_run(r);
	CHECK(p->ended);
	CHECK_EQ(times_set, 1);
}

/* The box's own command is in init's queue before what anybody asks. */
STATE_TEST(a_command_of_its_own)
{
	const struct wire_exec own = {.line = "start daemons", .background = 1};
	struct wire_exec m = plain_command(), got;
	struct wire_frame f;
	struct err e;
	uint32_t id;
	char *text;

	CHECK_EQ(wire_exec_encode(&p->out, 9, 0, &m), 0);
	CHECK_EQ(keeper_exec_run_own(&r->k, &own, &id, &e), 0);
	CHECK_EQ(id, 1);
	f = peer_next(r, &r->init, WIRE_EXEC);
	CHECK_EQ(f.id, 1);
	CHECK_EQ(wire_exec_decode(&f, &got), 0);
	CHECK_STR(got.line, "start daemons");
	CHECK(!got.background && !got.timeout_ms && !got.has_stdin);
	CHECK_EQ(peer_next(r, &r->init, WIRE_EXEC).id, 2);
	CHECK_EQ(r->k.running_execs, 2);
	say_started(r, 1);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 1, "up", 2);
	say_exit(r, 1, 3);
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, 1, NULL, 0);
	peer_say(&r->init, WIRE_EOF, WIRE_STDERR, 1, NULL, 0);
	rig_run(r);
	CHECK_EQ(r->k.running_execs, 1);
	CHECK_EQ(fd_read_file(r->box_fd, "logs/1.out", 100, &text, NULL), 0);
	CHECK_STR(text, "up");
	free(text);
	text = events_of(r);
	CHECK_EQ(count(text, "\"exec_id\":1,\"exit_code\":3"), 1);
	free(text);
	/* Without a line there is nothing to run. */
	CHECK_EQ(keeper_exec_run_own(&r->k, &(struct wire_exec){0}, &id, &e), -EINVAL);
}

STATE_TEST(numbers)
{
	struct wire_exec m = plain_command();
	struct wire_stats got;
	struct wire_frame f;

	start_command(r, p, 9, &m);
	r->k.started_ms = 1;
	r->k.storage = "loop";
	r->k.walls = "seccomp\nlandlock\n";
	peer_say(p, WIRE_STATS, 0, 8, NULL, 0);
	f = peer_next(r, p, WIRE_STATS);
	CHECK_EQ(f.id, 8);
	CHECK_EQ(wire_stats_decode(&f, &got), 0);
	CHECK_EQ(got.mem_bytes, 123);
	CHECK(got.pids_limit == UINT64_MAX);
	CHECK_EQ(got.execs_running, 1);
	CHECK(got.uptime_ms > 0);
	CHECK_STR(status_of(r, p).storage, "loop");
	CHECK_STR(status_of(r, p).walls, "seccomp\nlandlock\n");
	r->k.on_stats = NULL;
	peer_say(p, WIRE_STATS, 0, 9, NULL, 0);
	peer_next(r, p, WIRE_STATS);
}

/* Whoever only looks does not keep a box from being idle. */
STATE_TEST(what_is_use)
{
	struct wire_exec m = plain_command();

	fake_ms += 1000;
	status_of(r, p);
	peer_say(p, WIRE_STATS, 0, 8, NULL, 0);
	peer_next(r, p, WIRE_STATS);
	peer_say(p, WIRE_EXECS, 0, 9, NULL, 0);
	peer_next(r, p, WIRE_OK);
	CHECK(r->k.active_ms < fake_ms);
	start_command(r, p, 10, &m);
	CHECK_EQ(r->k.active_ms, fake_ms);
	fake_ms += 5000;
	say_exit(r, 1, 0);
	peer_next(r, p, WIRE_EXIT);
	CHECK_EQ(r->k.active_ms, fake_ms);
}

/* Numbers go into the record and to whoever follows; a cause is one of the words that we know. */
STATE_TEST(what_a_command_used)
{
	static const char *const causes[][2] = {
		{"oom", "oom"}, {"pids", "pids"}, {"disk", "disk"}, {"host reboot", "signal"}};
	struct wire_exec m = plain_command();
	struct journal_list list;

	for (uint32_t i = 1; i <= 4; i++) {
		struct exec_record end = {.signal = 9,
					  .oom_killed = i == 1,
					  .cpu_us = 70 + i,
					  .mem_peak_bytes = 1 << 20,
					  .io_write_bytes = 9},
				   heard;
		struct wire_frame f;

		snprintf(end.cause, sizeof(end.cause), "%s", causes[i - 1][0]);
		start_command(r, p, 20 + i, &m);
		CHECK_EQ(wire_exit_encode(&r->init.out, i, 0, &end), 0);
		f = peer_next(r, p, WIRE_EXIT);
		CHECK_EQ(wire_exit_decode(&f, &heard), 0);
		CHECK_STR(heard.cause, causes[i - 1][1]);
		CHECK_EQ(heard.cpu_us, 70 + i);
		CHECK_EQ(heard.mem_peak_bytes, 1 << 20);
		CHECK_EQ(heard.oom_killed, i == 1);
	}
	CHECK_EQ(r->k.oom_execs, 1);
	CHECK_EQ(r->k.pids_execs, 1);
	CHECK_EQ(journal_read(r->box_fd, &list), 0);
	CHECK_EQ(list.count, 4);
	CHECK_EQ(list.records[0].oom_killed, 1);
	CHECK_EQ(list.records[3].cpu_us, 74);
	CHECK_EQ(list.records[3].io_write_bytes, 9);
	CHECK_STR(list.records[1].cause, "pids");
	journal_list_done(&list);
}

TAP_MAIN
