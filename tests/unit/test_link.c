/* Links over a socket and over pipes: order, back-pressure, ends, freeing in a callback, credit. */
#include "tap.h"

#include "wire/link.h"

#include "base/fd.h"
#include "base/limits.h"

#include <fcntl.h>
#include <sys/socket.h>

struct side {
	struct wire_link link;
	uint64_t frames, bytes, sum, drained;
	int closed; /* 1 after on_close */
	int error;
	uint64_t quit_after; /* frames */
	bool done_in_frame;
};

static struct ev *ev;

static struct side *side_of(struct wire_link *l)
{
	return (struct side *)l;
}

static void on_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct side *s = side_of(l);

	CHECK(!s->closed);
	CHECK_EQ(f->id, s->frames);
	s->frames++;
	s->bytes += f->len;
	for (uint32_t i = 0; i < f->len; i++)
		s->sum += f->payload[i];
	if (s->frames != s->quit_after)
		return;
	if (s->done_in_frame)
		wire_link_done(l);
	ev_quit(ev);
}

static void on_close(struct wire_link *l, int error)
{
	CHECK(!side_of(l)->closed);
	side_of(l)->closed = 1;
	side_of(l)->error = error;
	ev_quit(ev);
}

static void on_drained(struct wire_link *l)
{
	side_of(l)->drained++;
}

static void side_init(struct side *s, int rfd, int wfd)
{
	*s = (struct side){
		.link = {.on_frame = on_frame, .on_close = on_close, .on_drained = on_drained}};
	CHECK_EQ(wire_link_init(&s->link, ev, rfd, wfd), 0);
}

static void make_socket(struct side *a, struct side *b)
{
	int pair[2];

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	side_init(a, pair[0], pair[0]);
	side_init(b, pair[1], pair[1]);
}

static void make_pipes(struct side *a, struct side *b)
{
	int there[2], back[2];

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(pipe2(there, O_CLOEXEC), 0);
	CHECK_EQ(pipe2(back, O_CLOEXEC), 0);
	side_init(a, back[0], there[1]);
	side_init(b, there[0], back[1]);
}

static void finish(struct side *a, struct side *b)
{
	wire_link_done(&a->link);
	wire_link_done(&a->link);
	wire_link_done(&b->link);
	ev_free(ev);
}

static void flood(struct side *a, struct side *b)
{
	enum { N = 100 };
	static uint8_t data[WIRE_DATA_MAX];
	uint64_t sum = 0;

	memset(data, 3, sizeof(data));
	for (uint32_t i = 0; i < N; i++) {
		size_t n = i * 631 % WIRE_DATA_MAX;

		CHECK_EQ(wire_link_send(&a->link, WIRE_DATA, 1, i, data, n), 0);
		sum += 3 * n;
	}
	b->quit_after = N;
	CHECK(wire_link_queued(&a->link) > 0);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b->frames, N);
	CHECK_EQ(b->sum, sum);
	CHECK_EQ(wire_link_queued(&a->link), 0);
	CHECK(a->drained > 0);
}

TEST(flood_over_a_socket)
{
	struct side a, b;

	make_socket(&a, &b);
	flood(&a, &b);
	finish(&a, &b);
}

TEST(flood_over_pipes)
{
	struct side a, b;

	make_pipes(&a, &b);
	flood(&a, &b);
	finish(&a, &b);
}

static void hang_up(struct side *a, struct side *b)
{
	CHECK_EQ(wire_link_send(&a->link, WIRE_OK, 0, 0, NULL, 0), 0);
	b->quit_after = 1;
	CHECK_EQ(ev_run(ev), 0);
	wire_link_done(&a->link);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b->closed, 1);
	CHECK_EQ(b->error, 0);
	CHECK_EQ(b->frames, 1);
}

/* A turn of the loop takes longer than a link waits before it calls itself idle. */
static uint64_t slow_clock(void *arg)
{
	return *(uint64_t *)arg += 2000;
}

/* Keeps the loop turning, without a wait, for a few turns. */
static void on_turn(struct ev_defer *d)
{
	static int turns;

	if (++turns == 8)
		ev_quit(ev);
	else
		ev_defer(ev, d);
}

TEST(an_idle_link_keeps_no_large_buffer)
{
	struct ev_defer turn = {.on_defer = on_turn};
	struct side a, b;
	uint64_t now;

	make_socket(&a, &b);
	flood(&a, &b);
	CHECK(a.link.out.cap > 0);
	CHECK(b.link.decoder.in.cap > 0);
	now = ev_now(ev);
	ev_set_clock(ev, slow_clock, &now);
	ev_defer(ev, &turn);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(a.link.out.cap, 0);
	CHECK_EQ(b.link.decoder.in.cap, 0);
	CHECK_EQ(wire_link_send(&a.link, WIRE_OK, 0, (uint32_t)b.frames, NULL, 0), 0);
	b.quit_after = b.frames + 1;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b.frames, b.quit_after);
	finish(&a, &b);
}

TEST(end_of_file_over_a_socket)
{
	struct side a, b;

	make_socket(&a, &b);
	hang_up(&a, &b);
	finish(&a, &b);
}

TEST(end_of_file_over_pipes)
{
	struct side a, b;

	make_pipes(&a, &b);
	hang_up(&a, &b);
	finish(&a, &b);
}

TEST(garbage_ends_the_link)
{
	struct side a, b;

	make_socket(&a, &b);
	CHECK_EQ(buf_append_str(&a.link.out, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 0);
	wire_link_flush(&a.link);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b.closed, 1);
	CHECK_EQ(b.error, -EBADMSG);
	CHECK_EQ(b.frames, 0);
	finish(&a, &b);
}

TEST(a_callback_may_end_the_link)
{
	struct side a, b;

	make_socket(&a, &b);
	for (uint32_t i = 0; i < 5; i++)
		CHECK_EQ(wire_link_send(&a.link, WIRE_OK, 0, i, NULL, 0), 0);
	b.quit_after = 2;
	b.done_in_frame = true;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b.frames, 2);
	finish(&a, &b);
}

static void stop_loop(struct ev_timer *t)
{
	ev_quit(ev);
}

TEST(pause_holds_frames_back)
{
	struct ev_timer soon = {.on_timer = stop_loop};
	struct side a, b;

	make_socket(&a, &b);
	wire_link_pause(&b.link, true);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(wire_link_send(&a.link, WIRE_OK, 0, i, NULL, 0), 0);
	ev_timer_set(ev, &soon, 20);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b.frames, 0);
	wire_link_pause(&b.link, false);
	b.quit_after = 3;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b.frames, 3);
	finish(&a, &b);
}

/* a -> passer.in, passed to passer.out -> b. */
struct passer {
	struct wire_link in, out;
	uint32_t settle_every; /* 0: never by itself */
	uint32_t seen, done_at;
};

static void on_pass(struct wire_link *l, const struct wire_frame *f)
{
	struct passer *p = container(l, struct passer, in);

	p->seen++;
	CHECK_EQ(wire_link_pass(&p->out, l, f), 0);
	if (p->settle_every && p->seen % p->settle_every == 0)
		wire_link_write_lent(&p->out);
	if (p->seen == p->done_at)
		wire_link_done(l);
}

static void on_pass_close(struct wire_link *l, int error)
{
	CHECK(false);
}

static void make_passer(struct side *a, struct passer *p, struct side *b)
{
	int first[2], second[2];

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second), 0);
	*p = (struct passer){.in = {.on_frame = on_pass, .on_close = on_pass_close},
			     .out = {.on_frame = on_pass, .on_close = on_pass_close}};
	side_init(a, first[0], first[0]);
	CHECK_EQ(wire_link_init(&p->in, ev, first[1], first[1]), 0);
	CHECK_EQ(wire_link_init(&p->out, ev, second[0], second[0]), 0);
	side_init(b, second[1], second[1]);
}

TEST(frames_are_passed_on_as_they_are)
{
	enum { SMALL = 40 };
	struct side a, b;
	struct passer p;

	for (uint32_t every = 0; every < 4; every++) {
		uint64_t sum;

		make_passer(&a, &p, &b);
		p.settle_every = every;
		flood(&a, &b);
		/* The large buffer is given back while small frames go through it. */
		sum = b.sum;
		for (uint32_t i = 0; i < SMALL; i++) {
			CHECK_EQ(wire_link_send(&a.link, WIRE_DATA, 0, 100 + i, "\1\2\3", 3), 0);
			b.quit_after++;
			CHECK_EQ(ev_run(ev), 0);
		}
		CHECK_EQ(b.sum, sum + SMALL * 6);
		CHECK_EQ(wire_link_queued(&p.out), 0);
		wire_link_done(&p.in);
		wire_link_done(&p.out);
		finish(&a, &b);
	}
}

TEST(what_was_lent_outlives_its_lender_but_not_its_borrower)
{
	enum { N = 10 };
	struct side a, b;
	struct passer p;

	make_passer(&a, &p, &b);
	for (uint32_t i = 0; i < N; i++)
		CHECK_EQ(wire_link_send(&a.link, WIRE_DATA, 1, i, "xyz", 3), 0);
	p.done_at = N / 2;
	b.quit_after = N / 2;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b.frames, N / 2);
	wire_link_done(&p.in);
	wire_link_done(&p.out);
	finish(&a, &b);
}

TEST(the_queue_is_bounded)
{
	static uint8_t data[WIRE_DATA_MAX];
	struct side a, b;
	uint32_t i = 0;

	make_socket(&a, &b);
	while (wire_link_send(&a.link, WIRE_DATA, 0, i, data, sizeof(data)) == 0)
		CHECK(++i < 1000);
	CHECK(wire_link_queued(&a.link) <= WIRE_OUT_MAX);
	b.quit_after = i;
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(b.frames, i);
	finish(&a, &b);
}

TEST(credit)
{
	struct wire_flow sender, receiver;
	uint64_t sent = 0;

	wire_flow_init(&sender);
	wire_flow_init(&receiver);
	CHECK_EQ(sender.left, WIRE_WINDOW);
	CHECK_EQ(wire_flow_credit(&sender, 1), -EBADMSG);
	for (int i = 0; i < 1000; i++) {
		uint64_t n = sender.left < 10007 ? sender.left : 10007, give;

		sender.left -= n;
		sent += n;
		give = wire_flow_took(&receiver, n);
		if (give)
			CHECK_EQ(wire_flow_credit(&sender, give), 0);
	}
	CHECK_EQ(sent, 10007 * 1000);
	CHECK_EQ(wire_flow_credit(&sender, UINT64_MAX), -EBADMSG);
	CHECK_EQ(wire_flow_credit(&sender, WIRE_WINDOW + 1u), -EBADMSG);
}

TAP_MAIN
