/* Connections from a box to the door, and from the host into a box: cove-init's side. */
#include "net_client.h"
#include "tap.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/limits.h"

#include <fcntl.h>
#include <sys/socket.h>

enum { BIG = 5 << 20 };

static uint8_t *pattern(size_t n)
{
	uint8_t *p = malloc(n);

	CHECK(p != NULL);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + i / 251);
	return p;
}

static void reset_socket(int fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(fd);
}

NET_TEST(bytes_both_ways_and_both_ends)
{
	int fd = tcp_connect(r->proxy_port);
	struct way *w = rig_way(r, 0);
	char got[6] = "";

	CHECK_EQ(w->type, WIRE_CONNECT);
	CHECK_EQ(w->proxy, 1);
	CHECK_EQ(w->exec_id, 0);
	way_ok(r, w);
	tcp_write(r, fd, "hello", 5);
	way_wait_bytes(r, w, 5);
	CHECK_MEM(buf_data(&w->in), "hello", 5);
	way_send(r, w, "world", 5);
	tcp_read(r, fd, got, 5);
	CHECK_STR(got, "world");
	/* The box ends its side; the door still has something to say. */
	CHECK_EQ(shutdown(fd, SHUT_WR), 0);
	way_wait_eof(r, w);
	way_send(r, w, "later", 5);
	tcp_read(r, fd, got, 5);
	CHECK_STR(got, "later");
	way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
	CHECK_EQ(tcp_next(r, fd), 0);
	CHECK(!w->cancelled);
	close(fd);
}

NET_TEST(the_door_may_end_first)
{
	int fd = tcp_connect(r->proxy_port);
	struct way *w = rig_way(r, 0);

	way_ok(r, w);
	way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
	CHECK_EQ(tcp_next(r, fd), 0);
	tcp_write(r, fd, "still", 5);
	way_wait_bytes(r, w, 5);
	close(fd);
	way_wait_eof(r, w);
	CHECK(!w->cancelled);
}

NET_TEST(bytes_come_before_the_answer)
{
	int fd = tcp_connect(r->proxy_port);
	struct way *w = rig_way(r, 0);
	char got[3] = "";

	tcp_write(r, fd, "early", 5);
	way_wait_bytes(r, w, 5);
	way_send(r, w, "re", 2);
	tcp_read(r, fd, got, 2);
	way_ok(r, w);
	close(fd);
}

NET_TEST(much_both_ways_stays_within_windows)
{
	int fd = tcp_connect(r->proxy_port);
	struct way *w = rig_way(r, 0);
	uint8_t *p = pattern(BIG), *got = malloc(BIG);
	pid_t child;

	way_ok(r, w);
	tcp_write(r, fd, p, BIG);
	way_wait_bytes(r, w, BIG);
	CHECK_MEM(buf_data(&w->in), p, BIG);
	/* The other way: somebody else reads, slowly at first. */
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK_EQ(fd_read_full(fd, got, BIG), BIG);
		_exit(memcmp(got, p, BIG) == 0 ? 0 : 1);
	}
	way_send(r, w, p, BIG);
	int status;

	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	close(fd);
	free(p);
	free(got);
}

/* Without credit init stops at the window, and the client is held back; others go on. */
NET_TEST(a_slow_door_holds_back_only_its_own)
{
	uint8_t *p = pattern(BIG);
	size_t sent = 0;
	struct way *w, *other;
	ssize_t n;
	int fd, fd2;

	r->hold_credit = true;
	fd = tcp_connect(r->proxy_port);
	w = rig_way(r, 0);
	way_ok(r, w);
	while (buf_len(&w->in) < WIRE_NET_WINDOW) {
		n = send(fd, p + sent, BIG - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
		if (buf_len(&w->in) < WIRE_NET_WINDOW)
			rig_pump(r, -1, false);
	}
	r->hold_credit = false;
	fd2 = tcp_connect(r->proxy_port);
	other = rig_way(r, 1);
	tcp_write(r, fd2, "through", 7);
	way_wait_bytes(r, other, 7);
	CHECK_EQ(buf_len(&w->in), WIRE_NET_WINDOW);
	/* Then it gets on. */
	w->hold_credit = false;
	w->back.left += WIRE_NET_WINDOW;
	way_credit(r, w, WIRE_STDOUT, WIRE_NET_WINDOW);
	tcp_write(r, fd, p + sent, BIG - sent);
	way_wait_bytes(r, w, BIG);
	CHECK_MEM(buf_data(&w->in), p, BIG);
	close(fd);
	close(fd2);
	free(p);
}

/* A client that reads nothing: the door gets no credit beyond what the kernel took, and the window
 * is the most that waits. */
NET_TEST(a_client_that_reads_nothing)
{
	int fd = tcp_connect(r->proxy_port), fd2;
	struct way *w = rig_way(r, 0), *other;
	uint8_t *p = pattern(WIRE_DATA_MAX);
	char got[4];

	while (w->out.left > 0 && buf_len(&r->out) < (32u << 20)) {
		size_t now = w->out.left < WIRE_DATA_MAX ? (size_t)w->out.left : WIRE_DATA_MAX;

		w->out.left -= now;
		way_frame(r, w, WIRE_DATA, WIRE_STDIN, p, now);
		rig_flush(r);
		/* Another connection's turn proves that all before was taken in. */
		fd2 = tcp_connect(r->proxy_port);
		other = rig_way(r, r->count);
		way_send(r, other, "pong", 4);
		tcp_read(r, fd2, got, 4);
		close(fd2);
	}
	CHECK_EQ(w->out.left, 0);
	close(fd);
	way_wait_cancel(r, w);
	free(p);
}

NET_TEST(a_refusal_is_a_reset)
{
	int fd = tcp_connect(r->proxy_port);
	struct way *w = rig_way(r, 0);

	way_error(r, w, ERR_DENIED);
	CHECK_EQ(tcp_next(r, fd), -ECONNRESET);
	close(fd);
	/* Frames for what is over find nobody. */
	way_frame(r, w, WIRE_DATA, WIRE_STDIN, "x", 1);
	way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
	way_frame(r, w, WIRE_CANCEL, 0, NULL, 0);
	way_ok(r, w);
	way_credit(r, w, WIRE_STDOUT, 5);
	fd = tcp_connect(r->proxy_port);
	w = rig_way(r, 1);
	CHECK_EQ(w->id, r->ways[0]->id + 1);
	close(fd);
}

/* In every state, from the door: at once, after OK, after each half's end, with bytes waiting. */
NET_TEST(cancel_in_every_state)
{
	uint8_t *p = pattern(WIRE_NET_WINDOW);

	for (int state = 0; state < 6; state++) {
		int fd = tcp_connect(r->proxy_port), got;
		struct way *w = rig_way(r, (unsigned)state);

		if (state > 0)
			way_ok(r, w);
		if (state == 2 || state == 4) {
			CHECK_EQ(shutdown(fd, SHUT_WR), 0);
			way_wait_eof(r, w);
		}
		if (state == 3) {
			way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
			CHECK_EQ(tcp_next(r, fd), 0);
		}
		if (state >= 4)
			way_send(r, w, p, WIRE_NET_WINDOW);
		way_frame(r, w, WIRE_CANCEL, 0, NULL, 0);
		do
			got = tcp_next(r, fd);
		while (got == 1);
		/* After an end of file a reset can only be seen by writing. */
		for (int i = 0; state == 3 && got == 0 && i < 10000; i++) {
			ssize_t n = send(fd, "x", 1, MSG_NOSIGNAL);

			got = n < 0 ? -errno : 0;
		}
		CHECK(got == -ECONNRESET || got == -EPIPE);
		CHECK(!w->cancelled);
		close(fd);
	}
	free(p);
}

/* And from the box, by a reset. */
NET_TEST(resets_are_passed_on)
{
	for (int state = 0; state < 3; state++) {
		int fd = tcp_connect(r->proxy_port);
		struct way *w = rig_way(r, (unsigned)state);

		if (state > 0)
			way_ok(r, w);
		if (state == 2) {
			way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
			CHECK_EQ(tcp_next(r, fd), 0);
		}
		reset_socket(fd);
		way_wait_cancel(r, w);
		CHECK(!w->eof);
	}
}

/* Both ends at the same moment, again and again. */
NET_TEST(a_reset_shows_while_nothing_is_read_or_written)
{
	int fd = tcp_connect(r->proxy_port);
	struct way *w = rig_way(r, 0);

	/* It said all, and then gives up. */
	tcp_write(r, fd, "x", 1);
	shutdown(fd, SHUT_WR);
	way_wait_eof(r, w);
	reset_socket(fd);
	way_wait_cancel(r, w);
	/* It said as much as it may. */
	r->hold_credit = true;
	fd = tcp_connect(r->proxy_port);
	w = rig_way(r, 1);
	for (size_t i = 0; i < WIRE_NET_WINDOW / 64; i++)
		tcp_write(r, fd, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			  64);
	way_wait_bytes(r, w, WIRE_NET_WINDOW);
	reset_socket(fd);
	way_wait_cancel(r, w);
}

NET_TEST(ends_that_cross)
{
	for (unsigned i = 0; i < 200; i++) {
		int fd = tcp_connect(r->proxy_port);
		struct way *w = rig_way(r, i);

		way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
		if (i % 2)
			reset_socket(fd);
		else
			close(fd);
		while (!w->eof && !w->cancelled)
			rig_pump(r, -1, false);
	}
}

NET_TEST(a_door_that_lost_count_loses_the_connection)
{
	uint8_t *p = pattern(WIRE_DATA_MAX);
	int fd = tcp_connect(r->proxy_port);
	struct way *w = rig_way(r, 0);

	way_credit(r, w, WIRE_STDOUT, WIRE_NET_WINDOW + 1);
	way_wait_cancel(r, w);
	CHECK_EQ(tcp_next(r, fd), -ECONNRESET);
	close(fd);
	fd = tcp_connect(r->proxy_port);
	w = rig_way(r, 1);
	/* Far more than the window and all that a kernel buffers. */
	w->out.window = UINT64_MAX / 2;
	for (int i = 0; i < 1024 && !w->cancelled; i++) {
		way_frame(r, w, WIRE_DATA, WIRE_STDIN, p, WIRE_DATA_MAX);
		rig_flush(r);
	}
	way_wait_cancel(r, w);
	close(fd);
	fd = tcp_connect(r->proxy_port);
	w = rig_way(r, 2);
	way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
	way_frame(r, w, WIRE_DATA, WIRE_STDIN, p, 1); /* after the end */
	way_wait_cancel(r, w);
	close(fd);
	free(p);
}

/* More clients than INIT_CONNS_MAX: those beyond wait, and each gets its turn. */
NET_TEST(a_flood_waits_in_the_kernel)
{
	enum { CLIENTS = INIT_CONNS_MAX + 300 };
	static int fds[CLIENTS];

	for (int i = 0; i < CLIENTS; i++)
		fds[i] = tcp_connect(r->proxy_port);
	rig_way(r, INIT_CONNS_MAX - 1);
	CHECK_EQ(r->count, INIT_CONNS_MAX);
	for (int i = 0; i < CLIENTS; i++) {
		struct way *w = rig_way(r, (unsigned)i);

		CHECK(r->count <= (unsigned)i + INIT_CONNS_MAX);
		way_ok(r, w);
		way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
		close(fds[i]);
	}
	while (r->count < CLIENTS)
		rig_pump(r, -1, false);
}

NET_TEST(many_connections_at_once)
{
	enum { CLIENTS = 1000 };
	static int fds[CLIENTS];
	uint32_t n, got;

	for (int i = 0; i < CLIENTS; i++)
		fds[i] = tcp_connect(r->proxy_port);
	for (n = 0; n < CLIENTS; n++)
		tcp_write(r, fds[n], &n, sizeof(n));
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct way *w = rig_way(r, i);

		way_wait_bytes(r, w, sizeof(n));
		way_send(r, w, buf_data(&w->in), sizeof(n));
	}
	for (n = 0; n < CLIENTS; n++) {
		tcp_read(r, fds[n], &got, sizeof(got));
		CHECK_EQ(got, n);
		close(fds[n]);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		way_wait_eof(r, r->ways[i]);
}

/* ---- the other direction ---- */

static int accept_for(struct rig *r, int listener)
{
	int fd;

	fd_set_nonblock(listener, true);
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
		CHECK_EQ(errno, EAGAIN);
		rig_pump(r, listener, false);
	}
	return fd;
}

static void check_port(struct rig *r, int family)
{
	uint16_t port = 0;
	int listener = tcp_listen(family, &port), fd;
	struct way *w = rig_port(r, port);
	char got[6] = "";

	way_send(r, w, "hello", 5); /* before it is there */
	fd = accept_for(r, listener);
	way_wait_answer(r, w);
	CHECK(w->ok);
	tcp_read(r, fd, got, 5);
	CHECK_STR(got, "hello");
	tcp_write(r, fd, "world", 5);
	way_wait_bytes(r, w, 5);
	way_frame(r, w, WIRE_EOF, WIRE_STDIN, NULL, 0);
	CHECK_EQ(tcp_next(r, fd), 0);
	tcp_write(r, fd, "!", 1);
	close(fd);
	way_wait_eof(r, w);
	CHECK_EQ(buf_len(&w->in), 6);
	close(listener);
}

NET_TEST(ports_of_the_box)
{
	check_port(r, AF_INET);
	check_port(r, AF_INET6);
}

TEST(ports_without_a_network)
{
	struct rig *r = rig_start_with(&(struct rig_fds){.count = 0});

	check_port(r, AF_INET);
	rig_stop(r);
}

NET_TEST(ports_where_nobody_listens)
{
	uint16_t port = 0;
	int listener = tcp_listen(AF_INET, &port);
	static const uint64_t bad[] = {0, 65536, UINT64_MAX};
	struct way *w;

	close(listener);
	w = rig_port(r, port);
	way_frame(r, w, WIRE_DATA, WIRE_STDIN, "x", 1);
	way_wait_answer(r, w);
	CHECK(w->failed);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		w = rig_port(r, bad[i]);
		way_wait_answer(r, w);
		CHECK(w->failed);
		CHECK_EQ(w->error_kind, ERR_INVALID);
	}
}

NET_TEST(a_cancelled_port_is_a_reset)
{
	uint16_t port = 0;
	int listener = tcp_listen(AF_INET, &port), fd;
	struct way *w = rig_port(r, port);

	fd = accept_for(r, listener);
	way_wait_answer(r, w);
	way_frame(r, w, WIRE_CANCEL, 0, NULL, 0);
	CHECK_EQ(tcp_next(r, fd), -ECONNRESET);
	close(fd);
	/* Cancelled in the same breath. */
	CHECK_EQ(wire_port_encode(&r->out, 0x80001000u, 0, &(struct wire_port){.port = port}), 0);
	CHECK_EQ(wire_encode(&r->out, WIRE_CANCEL, 0, 0x80001000u, NULL, 0), 0);
	fd = accept_for(r, listener);
	CHECK_EQ(tcp_next(r, fd), -ECONNRESET);
	close(fd);
	close(listener);
}

NET_TEST(ports_are_bounded)
{
	uint16_t port = 0;
	int listener = tcp_listen(AF_INET, &port);
	struct way *w = NULL;

	for (unsigned i = 0; i < INIT_PORTS_MAX; i++) {
		w = rig_port(r, port);
		way_wait_answer(r, w);
		CHECK(w->ok);
	}
	w = rig_port(r, port);
	way_wait_answer(r, w);
	CHECK(w->failed);
	way_frame(r, r->ways[0], WIRE_CANCEL, 0, NULL, 0);
	w = rig_port(r, port);
	way_wait_answer(r, w);
	CHECK(w->ok);
	close(listener);
}

TAP_MAIN
