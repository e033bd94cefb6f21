/* The asynchronous core: many requests on a connection, many connections in a thread, against
 * keepers played by this very test at the other ends of socket pairs. */
#include "base/fd.h"
#include "base/limits.h"
#include "core/call.h"
#include "core_peer.h"
#include "tap.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MANY = 1000, CONNS = 200 };

/* The other end of a connection. */
struct fake {
	struct core_conn *conn;
	struct peer p;
};

struct ask {
	struct core_request q;
	struct ev *ev;
	unsigned *left; /* requests that are not over */
	char text[32];
	size_t len;
	unsigned frames;
	bool done;
	int result;
	struct err why;
	struct core_conn *frees; /* freed when this one is done */
};

static void say_hello(struct fake *f)
{
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN, .name = "box"};

	CHECK_EQ(wire_hello_encode(&f->p.out, 0, 0, &hello), 0);
	peer_flush(&f->p);
}

static void fake_start(struct fake *f, struct ev *ev, bool hello)
{
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_EQ(core_conn_new(ev, pair[0], &f->conn, NULL), 0);
	f->p = (struct peer){.fd = pair[1]};
	wire_decoder_init(&f->p.decoder);
	buf_init(&f->p.out, WIRE_OUT_MAX);
	if (hello)
		say_hello(f);
}

static void fake_stop(struct fake *f)
{
	core_conn_free(f->conn);
	fd_close(&f->p.fd);
	wire_decoder_done(&f->p.decoder);
	buf_done(&f->p.out);
}

static int on_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	struct ask *a = container(q, struct ask, q);

	a->frames++;
	if (f->type == WIRE_OK)
		return 1;
	if (f->type != WIRE_DATA)
		return core_unexpected(q, f, e);
	if (a->len + f->len >= sizeof(a->text))
		return err_set(e, ERR_LIMIT, EFBIG, "enough");
	memcpy(a->text + a->len, f->payload, f->len);
	a->len += f->len;
	return 0;
}

static void on_done(struct core_request *q, int r, const struct err *e)
{
	struct ask *a = container(q, struct ask, q);

	CHECK(!a->done && !q->conn);
	a->done = true;
	a->result = r;
	a->why = *e;
	core_conn_free(a->frees);
	if (--*a->left == 0)
		ev_quit(a->ev);
}

static void ask(struct ask *a, struct core_conn *c, struct ev *ev, unsigned *left)
{
	*a = (struct ask){.q = {.on_frame = on_frame, .on_done = on_done}, .ev = ev, .left = left};
	++*left;
	core_request_begin(&a->q, c);
	CHECK_EQ(wire_encode(core_out(c), WIRE_STATUS, 0, a->q.id, NULL, 0), 0);
	core_send(c);
}

static void on_stop(struct ev_timer *t)
{
	ev_quit(*(struct ev **)(void *)(t + 1));
}

/* Turns the loop until nothing is left to do at once. */
static void spin(struct ev *ev)
{
	struct {
		struct ev_timer timer;
		struct ev *ev;
	} stop = {.timer.on_timer = on_stop, .ev = ev};

	for (int i = 0; i < 4; i++) {
		ev_timer_set(ev, &stop.timer, 0);
		CHECK_EQ(ev_run(ev), 0);
	}
}

TEST(a_thousand_requests_share_a_connection)
{
	static struct ask asks[MANY];
	uint32_t ids[MANY];
	char word[32];
	struct fake f;
	unsigned left = 0;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	fake_start(&f, ev, true);
	for (int i = 0; i < MANY; i++)
		ask(&asks[i], f.conn, ev, &left);
	spin(ev);
	for (int i = 0; i < MANY; i++)
		ids[i] = peer_expect(&f.p, WIRE_STATUS).id;
	/* Each gets its own two words, a piece at a time and last come first. */
	for (int round = 0; round < 3; round++) {
		for (int i = MANY - 1; i >= 0; i--) {
			snprintf(word, sizeof(word), "%d-%d;", i, round);
			if (round < 2)
				peer_data(&f.p, ids[i], WIRE_STDOUT, word, strlen(word));
			else
				peer_send(&f.p, WIRE_OK, 0, ids[i]);
		}
		peer_flush(&f.p);
		if (round < 2)
			spin(ev);
	}
	CHECK_EQ(ev_run(ev), 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(word, sizeof(word), "%d-0;%d-1;", i, i);
		CHECK(asks[i].done && asks[i].result == 0);
		CHECK_STR(asks[i].text, word);
	}
	CHECK_EQ(f.conn->count, 0);
	fake_stop(&f);
	ev_free(ev);
}

/* Every other one is stalled: it never answers, or not even says HELLO. */
TEST(a_stalled_box_delays_no_other)
{
	static struct fake fakes[CONNS];
	static struct ask asks[CONNS];
	unsigned left = 0, stalled = 0;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	for (int i = 0; i < CONNS; i++) {
		fake_start(&fakes[i], ev, i % 4 != 1);
		ask(&asks[i], fakes[i].conn, ev, i % 2 ? &stalled : &left);
	}
	spin(ev);
	for (int i = 0; i < CONNS; i += 2) {
		uint32_t id = peer_expect(&fakes[i].p, WIRE_STATUS).id;

		peer_data(&fakes[i].p, id, WIRE_STDOUT, "x", 1);
		peer_send(&fakes[i].p, WIRE_OK, 0, id);
		peer_flush(&fakes[i].p);
	}
	CHECK_EQ(ev_run(ev), 0);
	for (int i = 0; i < CONNS; i++)
		CHECK_EQ(asks[i].done, i % 2 == 0);
	CHECK_EQ(stalled, CONNS / 2);
	/* Freeing ends what is under way. */
	for (int i = 0; i < CONNS; i++)
		fake_stop(&fakes[i]);
	for (int i = 1; i < CONNS; i += 2)
		CHECK(asks[i].done && asks[i].result == -ECANCELED);
	ev_free(ev);
}

TEST(a_cancelled_request_hears_nothing_more)
{
	struct ask a, b;
	unsigned left = 0;
	struct wire_frame frame;
	struct fake f;
	struct ev *ev;
	uint32_t id;

	CHECK_EQ(ev_new(&ev), 0);
	fake_start(&f, ev, true);
	ask(&a, f.conn, ev, &left);
	spin(ev);
	id = peer_expect(&f.p, WIRE_STATUS).id;
	core_request_cancel(&a.q);
	core_request_cancel(&a.q);
	ask(&b, f.conn, ev, &left);
	CHECK(b.q.id != id);
	spin(ev);
	frame = peer_expect(&f.p, WIRE_CANCEL);
	CHECK_EQ(frame.id, id);
	CHECK_EQ(peer_expect(&f.p, WIRE_STATUS).id, b.q.id);
	peer_data(&f.p, id, WIRE_STDOUT, "late", 4);
	peer_error(&f.p, id, ECANCELED, "late too");
	peer_send(&f.p, WIRE_OK, 0, b.q.id);
	peer_flush(&f.p);
	spin(ev);
	CHECK(!a.done && a.frames == 0);
	CHECK(b.done && b.result == 0);
	/* One that is given up by its own callback is cancelled there as well. */
	ask(&b, f.conn, ev, &left);
	spin(ev);
	id = peer_expect(&f.p, WIRE_STATUS).id;
	peer_data(&f.p, id, WIRE_STDOUT, "more than thirty-two bytes of text", 34);
	peer_flush(&f.p);
	spin(ev);
	CHECK(b.done && b.result == -EFBIG && b.why.kind == ERR_LIMIT);
	CHECK_EQ(peer_expect(&f.p, WIRE_CANCEL).id, id);
	CHECK(!f.conn->lost);
	fake_stop(&f);
	ev_free(ev);
}

TEST(how_bytes_are_cut_does_not_matter)
{
	struct ask a, b;
	unsigned left = 0;
	struct fake f;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	fake_start(&f, ev, false);
	ask(&a, f.conn, ev, &left);
	ask(&b, f.conn, ev, &left);
	CHECK_EQ(wire_hello_encode(&f.p.out, 0, 0,
				   &(struct wire_hello){.lowest = WIRE_VERSION_MIN, .name = "box"}),
		 0);
	peer_data(&f.p, a.q.id, WIRE_STDOUT, "one", 3);
	peer_error(&f.p, b.q.id, EPERM, "no");
	peer_send(&f.p, WIRE_OK, 0, a.q.id);
	while (buf_len(&f.p.out) > 0) {
		CHECK_EQ(send(f.p.fd, buf_data(&f.p.out), 1, 0), 1);
		buf_consume(&f.p.out, 1);
		spin(ev);
	}
	CHECK(a.done && a.result == 0);
	CHECK_STR(a.text, "one");
	CHECK(b.done && b.result == -EPERM && b.why.kind == ERR_DENIED);
	CHECK(!f.conn->lost);
	fake_stop(&f);
	ev_free(ev);
}

TEST(a_keeper_that_dies_ends_every_request_once)
{
	struct ask asks[5], late;
	unsigned left = 0;
	struct fake f;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	fake_start(&f, ev, true);
	for (int i = 0; i < 5; i++)
		ask(&asks[i], f.conn, ev, &left);
	spin(ev);
	peer_data(&f.p, asks[2].q.id, WIRE_STDOUT, "half", 4);
	/* It dies in the middle of a frame. */
	peer_data(&f.p, asks[3].q.id, WIRE_STDOUT, "never whole", 11);
	CHECK_EQ(send(f.p.fd, buf_data(&f.p.out), buf_len(&f.p.out) - 5, 0),
		 (long long)buf_len(&f.p.out) - 5);
	fd_close(&f.p.fd);
	CHECK_EQ(ev_run(ev), 0);
	for (int i = 0; i < 5; i++)
		CHECK(asks[i].done && asks[i].result == -ECONNRESET &&
		      asks[i].why.kind == ERR_INTERRUPTED);
	CHECK_STR(asks[2].text, "half");
	CHECK_EQ(asks[3].frames, 0);
	/* Who comes too late is told from the loop, and may free it all. */
	ask(&late, f.conn, ev, &left);
	late.frees = take_ptr(f.conn);
	CHECK(!late.done);
	CHECK_EQ(ev_run(ev), 0);
	CHECK(late.done && late.result == -ECONNRESET);
	fake_stop(&f);
	ev_free(ev);
}

/* Why the box did not start is read although nothing can be written any more. */
TEST(the_reason_comes_before_the_end)
{
	struct wire_error m = {.kind = ERR_UNSUPPORTED, .code = ENOSYS, .msg = "no such wall"};
	struct ask a;
	unsigned left = 0;
	struct fake f;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	fake_start(&f, ev, false);
	f.conn->first = true;
	CHECK_EQ(wire_error_encode(&f.p.out, 0, 0, &m), 0);
	peer_flush(&f.p);
	fd_close(&f.p.fd);
	ask(&a, f.conn, ev, &left);
	CHECK_EQ(ev_run(ev), 0);
	CHECK(a.done && a.result == -ENOSYS && a.why.kind == ERR_UNSUPPORTED);
	fake_stop(&f);
	ev_free(ev);
}

static void send_raw(struct fake *f, const void *p, size_t n)
{
	CHECK_EQ(send(f->p.fd, p, n, 0), (long long)n);
}

/* Each of these is the end of the connection, and of nothing else. */
TEST(hostile_frames_end_the_connection)
{
	static const uint8_t bad_type[12] = {0, 0, 0, 0, 200}, huge[12] = {255, 255, 255, 255, 5};

	for (int i = 0; i < 8; i++) { /* 0, 1 and 7 before HELLO */
		struct ask a, b;
		unsigned left = 0;
		struct fake f, other;
		struct ev *ev;

		CHECK_EQ(ev_new(&ev), 0);
		fake_start(&other, ev, true);
		fake_start(&f, ev, i > 1 && i != 7);
		ask(&a, f.conn, ev, &left);
		ask(&b, other.conn, ev, &left);
		spin(ev);
		if (i == 0)
			peer_send(&f.p, WIRE_OK, 0, a.q.id);
		else if (i == 1)
			send_raw(&f, bad_type, sizeof(bad_type));
		else if (i == 2)
			send_raw(&f, huge, sizeof(huge));
		else if (i == 3) /* a second one */
			say_hello(&f);
		else if (i == 4) /* out of turn */
			peer_send(&f.p, WIRE_EOF, WIRE_STDOUT, a.q.id);
		else if (i == 5) /* not an error at all */
			CHECK_EQ(wire_encode(&f.p.out, WIRE_ERROR, 0, a.q.id, "\1\1", 2), 0);
		else if (i == 6)
			peer_send(&f.p, WIRE_OK, 0, 0);
		else /* a HELLO that is none */
			CHECK_EQ(wire_encode(&f.p.out, WIRE_HELLO, 0, 0, "\1\377", 2), 0);
		peer_flush(&f.p);
		spin(ev);
		CHECK(a.done && f.conn->lost);
		CHECK(a.result == -EPROTO && a.why.kind == ERR_PROTOCOL);
		CHECK(!b.done && !other.conn->lost);
		fake_stop(&f);
		fake_stop(&other);
		ev_free(ev);
	}
}

/* A newer keeper may say more than this client knows: to the connection, and beside an answer. */
TEST(unknown_types_are_dropped)
{
	unsigned left = 0;
	struct fake f;
	struct ev *ev;
	struct ask a;

	CHECK_EQ(ev_new(&ev), 0);
	fake_start(&f, ev, true);
	ask(&a, f.conn, ev, &left);
	spin(ev);
	for (unsigned type = WIRE_TYPE_COUNT; type <= UINT8_MAX; type++) {
		peer_send(&f.p, (enum wire_type)type, 0, 0);
		peer_send(&f.p, (enum wire_type)type, 0, a.q.id);
	}
	peer_flush(&f.p);
	spin(ev);
	CHECK(!a.done && a.frames == 0 && !f.conn->lost);
	peer_send(&f.p, WIRE_OK, 0, a.q.id);
	peer_flush(&f.p);
	spin(ev);
	CHECK(a.done && a.result == 0);
	fake_stop(&f);
	ev_free(ev);
}

/* What waits to be written is bounded, and the other connections go on meanwhile. */
TEST(a_keeper_that_reads_nothing_is_bounded)
{
	static char block[WIRE_DATA_MAX];
	struct ask a, b;
	unsigned left = 0;
	struct fake f, other;
	struct ev *ev;
	int r = 0;

	CHECK_EQ(ev_new(&ev), 0);
	fake_start(&f, ev, true);
	fake_start(&other, ev, true);
	ask(&a, f.conn, ev, &left);
	for (int i = 0; i < 1000 && r == 0; i++) {
		r = wire_encode(core_out(f.conn), WIRE_DATA, WIRE_STDIN, a.q.id, block,
				sizeof(block));
		core_send(f.conn);
		spin(ev);
	}
	CHECK_EQ(r, -ENOBUFS);
	CHECK(wire_link_queued(&f.conn->link) <= WIRE_OUT_MAX);
	ask(&b, other.conn, ev, &left);
	spin(ev);
	peer_send(&other.p, WIRE_OK, 0, peer_expect(&other.p, WIRE_STATUS).id);
	peer_flush(&other.p);
	spin(ev);
	CHECK(b.done && !a.done && !f.conn->lost);
	core_request_cancel(&a.q);
	fake_stop(&f);
	fake_stop(&other);
	ev_free(ev);
}

/* The blocking face over it: a frame is the caller's until it comes for the next, and the words
 * before an end are all handed out. */
TEST(a_blocking_call_sees_every_frame_before_the_end)
{
	struct core_call call;
	struct wire_frame got;
	struct err e = {0};
	struct fake f;

	fake_start(&f, NULL, true);
	CHECK_EQ(core_conn_wait_ready(f.conn, -1, &e), 0);
	core_call_begin(&call, f.conn);
	CHECK_EQ(wire_encode(core_out(f.conn), WIRE_STATUS, 0, call.q.id, NULL, 0), 0);
	CHECK_EQ(core_conn_flush(f.conn, &e), 0);
	CHECK_EQ(core_call_next(&call, 0, &got, &e), 0);
	CHECK_EQ(peer_expect(&f.p, WIRE_STATUS).id, call.q.id);
	for (int i = 0; i < 3; i++)
		peer_data(&f.p, call.q.id, WIRE_STDOUT, &(char){(char)('a' + i)}, 1);
	peer_flush(&f.p);
	fd_close(&f.p.fd);
	CHECK_EQ(core_call_next(&call, -1, &got, &e), 1);
	CHECK_EQ(got.payload[0], 'a');
	/* A write finds out first that the keeper is gone. */
	CHECK_EQ(wire_encode(core_out(f.conn), WIRE_EOF, 0, call.q.id, NULL, 0), 0);
	CHECK_EQ(core_conn_flush(f.conn, &e), 0);
	CHECK_EQ(got.payload[0], 'a');
	CHECK_EQ(core_call_next(&call, -1, &got, &e), 1);
	CHECK_EQ(got.payload[0], 'b');
	CHECK_EQ(core_call_next(&call, 0, &got, &e), 1);
	CHECK_EQ(got.payload[0], 'c');
	CHECK_EQ(core_call_next(&call, 60000, &got, &e), -ECONNRESET);
	CHECK_EQ(core_call_next(&call, 0, &got, &e), -ECONNRESET);
	core_call_end(&call, false);
	core_call_end(&call, false);
	fake_stop(&f);
}

/* The keeper went while its last frame was in use: who waits for its end afterwards has it. */
TEST(an_end_that_came_beside_a_frame_is_not_waited_for)
{
	struct core_call call;
	struct wire_frame got;
	struct err e = {0};
	struct fake f;

	fake_start(&f, NULL, true);
	CHECK_EQ(core_conn_wait_ready(f.conn, -1, &e), 0);
	core_call_begin(&call, f.conn);
	peer_data(&f.p, call.q.id, WIRE_STDOUT, "a", 1);
	peer_flush(&f.p);
	fd_close(&f.p.fd);
	/* A write finds out first. */
	CHECK_EQ(wire_encode(core_out(f.conn), WIRE_STATUS, 0, call.q.id, NULL, 0), 0);
	core_send(f.conn);
	CHECK_EQ(core_call_next(&call, -1, &got, &e), 1);
	CHECK(f.conn->closing && !f.conn->lost);
	core_call_end(&call, true);
	core_conn_wait_end(f.conn, 100);
	CHECK(f.conn->lost);
	fake_stop(&f);
}

TAP_MAIN
