/*
 * The keeper's side of the door, with a scripted init, real clients and a door that is this very
 * program: the launcher starts it with the argument "run", and the policy it is given says how it
 * behaves.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "door/config.h"
#include "keeper/door.h"
#include "keeper/launcher.h"
#include "keeper_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- the rig ---- */

static uint64_t later_ms;

static uint64_t clock_now(void *arg)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 + later_ms;
}

struct quit {
	struct ev_timer timer;
	struct ev *ev;
};

static void on_quit(struct ev_timer *t)
{
	ev_quit(((struct quit *)t)->ev);
}

/* Lets the keeper hear its door, which is a process and takes its time. */
static void turn(struct rig *r)
{
	struct quit q = {.timer = {.on_timer = on_quit}, .ev = r->ev};

	ev_timer_set(r->ev, &q.timer, 10);
	CHECK_EQ(ev_run(r->ev), 0);
	ev_timer_stop(r->ev, &q.timer);
	rig_run(r);
}

enum { TURNS = 6000 }; /* of 10 ms: for hangs only */

static struct wire_frame hear(struct rig *r, struct peer *p, enum wire_type type)
{
	struct wire_frame f = {0};
	int got = 0;

	for (int i = 0; i < TURNS && got == 0; i++) {
		got = wire_decoder_next(&p->decoder, &f);
		if (got == 0)
			turn(r);
	}
	CHECK_EQ(got, 1);
	CHECK_EQ(f.type, type);
	return f;
}

static struct keeper_door *door_begin(struct rig *r, const char *policy)
{
	struct door_config config = {.home = "/nonexistent/home",
				     .box = "rig",
				     .created_ms = 77,
				     .policy = policy,
				     .bytes_max = 1000,
				     .conns_max = 9};
	static char self[400];
	struct keeper_door *d;
	struct err e = {0};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = 0;
	rig_init(r, true);
	ev_set_clock(r->ev, clock_now, NULL);
	if (keeper_door_new(&d, &r->k,
			    &(struct launcher_config){.door_path = strcmp(policy, "missing") == 0
									   ? "/nonexistent"
									   : self,
						      .door = &config},
			    &e) < 0)
		FAIL(e.msg);
	CHECK(r->k.door == d);
	return d;
}

static void door_end(struct rig *r, struct keeper_door *d)
{
	keeper_door_free(d);
	rig_done(r);
}

static void ask_name(struct rig *r, uint32_t id, const char *name)
{
	CHECK_EQ(wire_name_encode(&r->init.out, WIRE_NET_BIT | id, 0,
				  &(struct wire_name){.name = name}),
		 0);
}

static void ask_connect(struct rig *r, uint32_t id)
{
	struct wire_connect m = {.host = "a.example", .port = 443};

	CHECK_EQ(wire_connect_encode(&r->init.out, WIRE_NET_BIT | id, 0, &m), 0);
}

static void ask_door(struct peer *p, uint32_t id, const char *verb)
{
	struct wire_door m = {
		.argv = {.data = verb, .bytes = (uint32_t)strlen(verb) + 1, .count = 1}, .by = "t"};

	CHECK_EQ(wire_door_encode(&p->out, id, 0, &m), 0);
}

/* A change of the policy: a verb and what changed. */
static void ask_change(struct peer *p, uint32_t id)
{
	static const char words[] = "reload\0policy";
	struct wire_door m = {.argv = {.data = words, .bytes = sizeof(words), .count = 2},
			      .by = "t"};

	CHECK_EQ(wire_door_encode(&p->out, id, 0, &m), 0);
}

static struct wire_stats net_of(struct rig *r)
{
	struct wire_stats m = {0};

	keeper_door_stats(r->k.door, &m);
	return m;
}

static void events_have(struct rig *r, const char *what)
{
	for (int i = 0; i < TURNS; i++) {
		autofree char *text = NULL;

		if (fd_read_file(r->box_fd, "logs/events.jsonl", 1 << 20, &text, NULL) == 0 &&
		    strstr(text, what))
			return;
		turn(r);
	}
	FAIL(what);
}

/* ---- tests ---- */

TEST(a_box_that_asks_for_nothing_has_no_door)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	rig_run(&r);
	CHECK(!keeper_door_is_running(d));
	door_end(&r, d);
}

TEST(names)
{
	struct wire_error m;
	struct wire_frame f;
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	ask_name(&r, 1, "yes.example");
	ask_name(&r, 2, "no.example");
	CHECK_EQ(hear(&r, &r.init, WIRE_OK).id, WIRE_NET_BIT | 1);
	f = hear(&r, &r.init, WIRE_ERROR);
	CHECK_EQ(f.id, WIRE_NET_BIT | 2);
	CHECK_EQ(wire_error_decode(&f, &m), 0);
	CHECK_EQ(m.kind, ERR_DENIED);
	CHECK(keeper_door_is_running(d));
	/* Its id may be used again. */
	ask_name(&r, 1, "yes.example");
	CHECK_EQ(hear(&r, &r.init, WIRE_OK).id, WIRE_NET_BIT | 1);
	door_end(&r, d);
}

TEST(a_connection_to_its_end)
{
	struct wire_frame f;
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	/* All of it before there is a door: it waits. */
	ask_connect(&r, 5);
	peer_say(&r.init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 5, "hello", 5);
	rig_run(&r);
	CHECK_EQ(net_of(&r).net_conns, 1);
	CHECK_EQ(hear(&r, &r.init, WIRE_OK).id, WIRE_NET_BIT | 5);
	CHECK_EQ(hear(&r, &r.init, WIRE_CREDIT).stream, WIRE_STDOUT);
	f = hear(&r, &r.init, WIRE_DATA);
	CHECK_EQ(f.stream, WIRE_STDIN);
	CHECK_MEM(f.payload, "hello", 5);
	peer_say(&r.init, WIRE_EOF, WIRE_STDOUT, WIRE_NET_BIT | 5, NULL, 0);
	CHECK_EQ(hear(&r, &r.init, WIRE_EOF).id, WIRE_NET_BIT | 5);
	CHECK_EQ(net_of(&r).net_conns, 0);
	CHECK_EQ(net_of(&r).net_up_bytes, 5);
	CHECK_EQ(net_of(&r).net_down_bytes, 5);
	/* What comes late is dropped. */
	peer_say(&r.init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 5, "late", 4);
	CHECK(peer_silent(&r, &r.init));
	CHECK_EQ(r.ends, 0);
	CHECK_EQ(net_of(&r).net_up_bytes, 5);
	door_end(&r, d);
}

TEST(init_cancels)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	ask_connect(&r, 5);
	CHECK_EQ(hear(&r, &r.init, WIRE_OK).id, WIRE_NET_BIT | 5);
	peer_say(&r.init, WIRE_CANCEL, 0, WIRE_NET_BIT | 5, NULL, 0);
	rig_run(&r);
	CHECK_EQ(net_of(&r).net_conns, 0);
	ask_connect(&r, 5);
	CHECK_EQ(hear(&r, &r.init, WIRE_OK).id, WIRE_NET_BIT | 5);
	door_end(&r, d);
}

TEST(the_door_cancels)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "cut");

	ask_connect(&r, 5);
	CHECK_EQ(hear(&r, &r.init, WIRE_OK).id, WIRE_NET_BIT | 5);
	peer_say(&r.init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 5, "x", 1);
	CHECK_EQ(hear(&r, &r.init, WIRE_CANCEL).id, WIRE_NET_BIT | 5);
	CHECK_EQ(net_of(&r).net_conns, 0);
	CHECK(keeper_door_is_running(d));
	door_end(&r, d);
}

/* A door that dies takes its connections with it; the next request starts another, which is told
 * how much went through. */
TEST(a_door_dies)
{
	struct wire_say say;
	struct wire_frame f;
	struct rig r;
	struct keeper_door *d = door_begin(&r, "crash");

	ask_connect(&r, 1);
	ask_connect(&r, 2);
	hear(&r, &r.init, WIRE_OK);
	hear(&r, &r.init, WIRE_OK);
	peer_say(&r.init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 2, "12345", 5);
	hear(&r, &r.init, WIRE_CANCEL);
	hear(&r, &r.init, WIRE_CANCEL);
	CHECK_EQ(net_of(&r).net_conns, 0);
	CHECK(!keeper_door_is_running(d));
	events_have(&r, "ended (signal 9)");
	ask_connect(&r, 3);
	CHECK_EQ(hear(&r, &r.init, WIRE_OK).id, WIRE_NET_BIT | 3);
	ask_door(&r.clients[0], 4, "status");
	f = hear(&r, &r.clients[0], WIRE_SAY);
	CHECK_EQ(wire_say_decode(&f, &say), 0);
	CHECK(strstr(say.text, "box=rig created=77 max=1000/9 used=5 "));
	CHECK_EQ(hear(&r, &r.clients[0], WIRE_OK).id, 4);
	door_end(&r, d);
}

static void is_refused(struct rig *r, uint32_t id, const char *why)
{
	struct wire_frame f = hear(r, &r->init, WIRE_ERROR);
	struct wire_error m;

	CHECK_EQ(f.id, WIRE_NET_BIT | id);
	CHECK_EQ(wire_error_decode(&f, &m), 0);
	if (!strstr(m.msg, why))
		FAIL(m.msg);
}

/* And tried again, but not at every request. */
TEST(a_door_that_cannot_start)
{
	static const struct {
		const char *policy, *why;
	} cases[] = {
		{"missing", "install Cove again"},
		{"refuse", "policy.yaml:3: what?"},
		{"dies", "ended before it was ready"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;
		struct keeper_door *d = door_begin(&r, cases[i].policy);

		later_ms = 0;
		ask_name(&r, 1, "a.example");
		ask_connect(&r, 2);
		rig_run(&r);
		is_refused(&r, 1, cases[i].why);
		is_refused(&r, 2, cases[i].why);
		ask_connect(&r, 3);
		rig_run(&r);
		is_refused(&r, 3, cases[i].why);
		CHECK_EQ(net_of(&r).net_conns, 0);
		events_have(&r, "\"event\":\"door\"");
		later_ms = 2 * KEEPER_DOOR_RETRY_MS;
		ask_connect(&r, 4);
		is_refused(&r, 4, cases[i].why);
		CHECK_EQ(r.ends, 0);
		door_end(&r, d);
	}
}

TEST(a_door_that_says_nothing)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "mute");

	later_ms = 0;
	ask_connect(&r, 1);
	rig_run(&r);
	turn(&r);
	CHECK(peer_silent(&r, &r.init));
	later_ms = 2 * DOOR_START_MS;
	is_refused(&r, 1, "not there within 10 s");
	door_end(&r, d);
}

/* Init waits while the door is behind, and a door that takes nothing at all is ended. */
TEST(a_door_that_does_not_read)
{
	static char zeros[WIRE_DATA_MAX];
	enum { CONNS = 16 };
	struct wire_frame f = {0};
	uint64_t before;
	struct rig r;
	struct keeper_door *d = door_begin(&r, "deaf");

	later_ms = 0;
	ask_connect(&r, 0);
	hear(&r, &r.init, WIRE_OK);
	for (uint32_t i = 1; i < CONNS; i++) {
		ask_connect(&r, i);
		for (unsigned n = 0; n < WIRE_NET_WINDOW / WIRE_DATA_MAX; n++)
			peer_say(&r.init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | i, zeros,
				 sizeof(zeros));
	}
	rig_run(&r);
	CHECK_EQ(r.k.blocking, 1);
	CHECK(net_of(&r).net_up_bytes < (uint64_t)(CONNS - 1) * WIRE_NET_WINDOW);
	before = net_of(&r).net_up_bytes;
	/* At first the socket took some of it. */
	for (int i = 0; i < 6 && wire_decoder_next(&r.init.decoder, &f) == 0; i++) {
		later_ms += 2 * KEEPER_STALL_MS;
		turn(&r);
	}
	CHECK_EQ(f.type, WIRE_CANCEL);
	is_refused(&r, 1, "took nothing");
	/* Init is heard again. What it said meanwhile has connections of its own, for which another
	 * door may be up already. */
	for (int i = 0; i < TURNS && net_of(&r).net_up_bytes <= before; i++)
		turn(&r);
	CHECK(net_of(&r).net_up_bytes > before);
	events_have(&r, "ended: it took nothing");
	CHECK_EQ(r.ends, 0);
	door_end(&r, d);
}

TEST(a_door_beyond_its_credit)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "rude");

	ask_connect(&r, 1);
	hear(&r, &r.init, WIRE_OK);
	for (int i = 0; i < 4; i++)
		hear(&r, &r.init, WIRE_DATA);
	hear(&r, &r.init, WIRE_CANCEL);
	events_have(&r, "broke the protocol");
	CHECK_EQ(r.ends, 0);
	door_end(&r, d);
}

static void breaks(void (*say)(struct rig *r))
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	ask_connect(&r, 1);
	hear(&r, &r.init, WIRE_OK);
	say(&r);
	rig_run(&r);
	CHECK_STR(r.cause, "init broke the protocol");
	door_end(&r, d);
}

static void say_same_id(struct rig *r)
{
	ask_connect(r, 1);
}

static void say_too_much(struct rig *r)
{
	static char zeros[WIRE_DATA_MAX];

	for (unsigned n = 0; n <= WIRE_NET_WINDOW / WIRE_DATA_MAX; n++)
		peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 1, zeros, sizeof(zeros));
}

static void say_wrong_stream(struct rig *r)
{
	peer_say(&r->init, WIRE_DATA, WIRE_STDIN, WIRE_NET_BIT | 1, "x", 1);
}

static void say_after_end(struct rig *r)
{
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, WIRE_NET_BIT | 1, NULL, 0);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 1, "x", 1);
}

static void say_much_credit(struct rig *r)
{
	say_credit(&r->init, WIRE_NET_BIT | 1, WIRE_STDIN, 1);
}

static void say_garbage(struct rig *r)
{
	peer_say(&r->init, WIRE_CONNECT, 0, WIRE_NET_BIT | 9, "\x01\xff\xff", 3);
}

static void say_long_name(struct rig *r)
{
	static char name[8192];

	memset(name, 'a', sizeof(name) - 1);
	ask_name(r, 9, name);
}

static void say_exec(struct rig *r)
{
	peer_say(&r->init, WIRE_STARTED, 0, WIRE_NET_BIT | 1, NULL, 0);
}

static void say_data_for_name(struct rig *r)
{
	ask_name(r, 9, "a.example");
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 9, "x", 1);
}

static void say_too_many(struct rig *r)
{
	for (uint32_t i = 2; i <= INIT_CONNS_MAX + 1; i++)
		ask_connect(r, i);
}

TEST(what_an_honest_init_never_says)
{
	breaks(say_same_id);
	breaks(say_too_much);
	breaks(say_wrong_stream);
	breaks(say_after_end);
	breaks(say_much_credit);
	breaks(say_garbage);
	breaks(say_long_name);
	breaks(say_exec);
	breaks(say_data_for_name);
	breaks(say_too_many);
}

TEST(a_box_without_network)
{
	struct wire_frame f;
	struct wire_error m;
	struct rig r;

	rig_init(&r, true);
	ask_door(&r.clients[0], 4, "reload");
	f = peer_next(&r, &r.clients[0], WIRE_ERROR);
	CHECK_EQ(wire_error_decode(&f, &m), 0);
	CHECK_EQ(m.kind, ERR_CONFLICT);
	ask_name(&r, 1, "a.example");
	rig_run(&r);
	CHECK_STR(r.cause, "init broke the protocol");
	rig_done(&r);
}

TEST(what_is_said_without_a_door)
{
	struct wire_door_status status;
	struct wire_cut cut;
	struct wire_frame f;
	struct peer *p;
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	p = &r.clients[0];
	ask_door(p, 1, "status");
	f = peer_next(&r, p, WIRE_SAY);
	CHECK_EQ(wire_door_status_decode(&f, &status), 0);
	CHECK(!status.running);
	CHECK_STR(status.policy, "echo");
	peer_next(&r, p, WIRE_OK);
	ask_door(p, 2, "reload");
	f = peer_next(&r, p, WIRE_SAY);
	CHECK_EQ(wire_cut_decode(&f, &cut), 0);
	CHECK_EQ(cut.connections, 0);
	peer_next(&r, p, WIRE_OK);
	ask_door(p, 3, "asks");
	CHECK_EQ(peer_next(&r, p, WIRE_OK).id, 3);
	ask_door(p, 4, "answer");
	CHECK_EQ(peer_next(&r, p, WIRE_ERROR).id, 4);
	CHECK_EQ(r.k.clients->request_count, 0);
	door_end(&r, d);
}

TEST(a_change_is_for_a_door_to_record)
{
	struct wire_frame f;
	struct wire_error m;
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	ask_change(&r.clients[0], 1);
	CHECK_EQ(hear(&r, &r.clients[0], WIRE_SAY).id, 1);
	CHECK_EQ(hear(&r, &r.clients[0], WIRE_OK).id, 1);
	CHECK(keeper_door_is_running(d));
	door_end(&r, d);
	/* Where there can be none it is not said to be done. */
	d = door_begin(&r, "missing");
	ask_change(&r.clients[0], 1);
	f = hear(&r, &r.clients[0], WIRE_ERROR);
	CHECK_EQ(wire_error_decode(&f, &m), 0);
	CHECK(strstr(m.msg, "install Cove again"));
	door_end(&r, d);
}

/* Nothing of whoever started the box is there, but what the door needs. */
TEST(a_door_has_a_clean_environment)
{
	struct wire_say say;
	struct wire_frame f;
	struct rig r;
	struct keeper_door *d;

	setenv("AWS_SECRET_ACCESS_KEY", "decoy", 1);
	setenv("COVE_HOME", "/nonexistent", 1);
	setenv("SSL_CERT_FILE", "/nonexistent/bundle", 1);
	setenv("SSL_CERT_DIR", "/nonexistent/dir", 1);
	setenv("LANG", "C.UTF-8", 1);
	setenv("COVE_WITHOUT", "door-sni", 1);
	d = door_begin(&r, "echo");
	ask_door(&r.clients[0], 1, "once");
	f = hear(&r, &r.clients[0], WIRE_SAY);
	CHECK_EQ(wire_say_decode(&f, &say), 0);
	CHECK(strstr(say.text, "env:SSL_CERT_FILE=/nonexistent/bundle"));
	CHECK(strstr(say.text, "env:SSL_CERT_DIR=/nonexistent/dir"));
	CHECK(strstr(say.text, "env:LANG=C.UTF-8"));
	CHECK(strstr(say.text, "env:PATH="));
	CHECK(!strstr(say.text, "decoy") && !strstr(say.text, "COVE_HOME"));
	CHECK(!strstr(say.text, "COVE_WITHOUT"));
	CHECK(strstr(say.text, " fd:0 fd:1 fd:2 fd:3 fd:4"));
	CHECK(!strstr(say.text, "fd:5"));
	CHECK_EQ(hear(&r, &r.clients[0], WIRE_OK).id, 1);
	door_end(&r, d);
}

TEST(a_client_goes_while_it_asks)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "mute");

	ask_door(&r.clients[0], 1, "once");
	rig_run(&r);
	peer_close(&r.clients[0]);
	/* The launcher has its copies of descriptors until it runs. */
	for (int i = 0; i < TURNS && r.k.client_count; i++)
		turn(&r);
	CHECK_EQ(r.k.client_count, 0);
	door_end(&r, d);
}

/* What the door says to one that is gone is nobody's: others get their own answers. */
TEST(a_client_goes_and_the_door_answers)
{
	struct peer *other;
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	other = rig_client(&r);
	ask_change(&r.clients[0], 1);
	ask_change(other, 1);
	rig_run(&r);
	peer_close(&r.clients[0]);
	for (int i = 0; i < TURNS && r.k.client_count > 1; i++)
		turn(&r);
	CHECK_EQ(r.k.client_count, 1);
	CHECK_EQ(hear(&r, other, WIRE_SAY).id, 1);
	CHECK_EQ(hear(&r, other, WIRE_OK).id, 1);
	CHECK(peer_silent(&r, other));
	CHECK(keeper_door_is_running(d));
	door_end(&r, d);
}

TEST(a_client_whose_id_is_in_use)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "mute");

	ask_door(&r.clients[0], 1, "once");
	ask_door(&r.clients[0], 1, "once");
	peer_next(&r, &r.clients[0], WIRE_ERROR);
	/* The launcher has its copies of descriptors until it runs. */
	for (int i = 0; i < TURNS && !r.clients[0].ended; i++)
		turn(&r);
	CHECK(r.clients[0].ended);
	door_end(&r, d);
}

/* Plays the keeper, says who its door and its launcher are, and waits to be killed. */
static void be_keeper(int out)
{
	struct wire_say say;
	struct wire_frame f;
	struct rig r;

	door_begin(&r, "echo");
	remove_temporary(r.path);
	ask_door(&r.clients[0], 1, "once");
	f = hear(&r, &r.clients[0], WIRE_SAY);
	CHECK_EQ(wire_say_decode(&f, &say), 0);
	CHECK_EQ(fd_write_full(out, strstr(say.text, "pids="), 40), 0);
	for (;;)
		pause();
}

static int door_pidfd = -1, over;

static void on_over(struct keeper *k)
{
	struct pollfd p = {.fd = door_pidfd, .events = POLLIN};

	over++;
	CHECK_EQ(poll(&p, 1, 0), 1);
}

/* The end of a box waits for the end of its door, which writes its last rows; however it ends. */
TEST(the_end_waits_for_the_door)
{
	static const char *const ways[] = {"late", "killed", "stuck"};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct wire_say say;
		struct wire_frame f;
		struct rig r;
		struct keeper_door *d = door_begin(&r, ways[i]);
		int pids[2];

		over = 0;
		ask_door(&r.clients[0], 1, "once");
		f = hear(&r, &r.clients[0], WIRE_SAY);
		CHECK_EQ(wire_say_decode(&f, &say), 0);
		CHECK_EQ(sscanf(strstr(say.text, "pids="), "pids=%d/%d", &pids[0], &pids[1]), 2);
		door_pidfd = sys_pidfd_open(pids[0]);
		CHECK(door_pidfd >= 0);
		CHECK(!keeper_door_end(d, on_over));
		CHECK(over || !keeper_door_end(d, on_over));
		for (int n = 0; n < TURNS && !over; n++)
			turn(&r);
		CHECK_EQ(over, 1);
		CHECK(keeper_door_end(d, on_over));
		/* Nothing is begun any more. */
		ask_connect(&r, 1);
		hear(&r, &r.init, WIRE_ERROR);
		close(door_pidfd);
		door_end(&r, d);
	}
}

TEST(an_end_without_a_door_waits_for_nothing)
{
	struct rig r;
	struct keeper_door *d = door_begin(&r, "echo");

	CHECK(keeper_door_end(d, on_over));
	door_end(&r, d);
}

static void ends_soon(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	CHECK_EQ(poll(&p, 1, 60000), 1);
	close(pidfd);
}

/* The launcher ends with whoever holds its other end, and takes the door with it. */
TEST(no_process_outlives_the_keeper)
{
	int watch[2], door, launcher, pids[2];
	char text[41] = "";
	pid_t pid;

	CHECK_EQ(pipe(watch), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		be_keeper(watch[1]);
	CHECK_EQ(fd_read_full(watch[0], text, 40), 40);
	CHECK_EQ(sscanf(text, "pids=%d/%d", &pids[0], &pids[1]), 2);
	door = sys_pidfd_open(pids[0]);
	launcher = sys_pidfd_open(pids[1]);
	CHECK(door >= 0 && launcher >= 0 && pids[1] != pid);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	ends_soon(door);
	ends_soon(launcher);
}

TAP_MAIN
