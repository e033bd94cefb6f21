/* A port of the host that leads into a box, against a scripted keeper. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "core_peer.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* What a client of the port does, in a process of its own; its exit status says how it went. */
struct client {
	int (*act)(unsigned port, void *arg);
	void *arg;
	int stop_fd;
	bool stops; /* ends the forwarding when it is done */
	unsigned port;
	pid_t pid;
};

static int dial(unsigned port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void on_ready(void *arg, const char *address, unsigned port)
{
	struct client *c = arg;

	CHECK_STR(address, "127.0.0.1");
	CHECK(port > 0);
	c->port = port;
	c->pid = fork();
	CHECK(c->pid >= 0);
	if (c->pid == 0) {
		int status = c->act(port, c->arg);

		if (c->stops)
			CHECK_EQ(eventfd_write(c->stop_fd, 1), 0);
		_exit(status);
	}
}

/* Forwards until it ends; the client's exit status. */
static int forward(void (*script)(struct peer *p, void *arg), struct client *c, int *ret_result,
		   struct cove_error *err)
{
	struct cove_box *box;
	struct cove_forward o = {.size = sizeof(o), .port = 8000, .on_ready = on_ready, .arg = c};
	autoclose int stop_fd = eventfd(0, EFD_CLOEXEC);
	int status = -1;

	o.stop_fd = c->stop_fd = stop_fd;
	box = peer_box(script, c->arg);
	*ret_result = cove_forward(box, &o, err);
	if (c->pid > 0)
		CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
	cove_box_free(box);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static uint32_t expect_port(struct peer *p)
{
	struct wire_frame f = peer_expect(p, WIRE_PORT);
	struct wire_port m;

	CHECK_EQ(wire_port_decode(&f, &m), 0);
	CHECK_EQ(m.port, 8000);
	return f.id;
}

/* What comes last, when clients go, is not looked at. */
static void until_the_end(struct peer *p)
{
	char bytes[4096];

	peer_flush(p);
	while (recv(p->fd, bytes, sizeof(bytes), 0) > 0)
		;
}

/* ---- both ways, half-closes ---- */

static void echo_script(struct peer *p, void *arg)
{
	struct wire_frame f;
	uint32_t id;

	peer_flush(p);
	id = expect_port(p);
	f = peer_expect(p, WIRE_DATA);
	CHECK_EQ(f.id, id);
	CHECK_EQ(f.stream, WIRE_STDIN);
	CHECK_EQ(f.len, 4);
	CHECK(memcmp(f.payload, "ping", 4) == 0);
	f = peer_expect(p, WIRE_EOF);
	CHECK_EQ(f.stream, WIRE_STDIN);
	/* The answer comes after the other side has ended. */
	peer_send(p, WIRE_OK, 0, id);
	peer_data(p, id, WIRE_STDOUT, "pong", 4);
	peer_send(p, WIRE_EOF, WIRE_STDOUT, id);
	peer_flush(p);
	until_the_end(p);
}

static int echo_client(unsigned port, void *arg)
{
	autoclose int fd = dial(port);
	char answer[8] = "";

	CHECK_EQ(send(fd, "ping", 4, 0), 4);
	CHECK_EQ(shutdown(fd, SHUT_WR), 0);
	CHECK_EQ(fd_read_full(fd, answer, sizeof(answer)), 4);
	CHECK_STR(answer, "pong");
	return 0;
}

TEST(bytes_and_ends_pass_both_ways)
{
	struct client c = {.act = echo_client, .stops = true};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(echo_script, &c, &r, &err), 0);
	CHECK_EQ(r, 0);
}

/* ---- nobody listens in the box ---- */

static void refuse_script(struct peer *p, void *arg)
{
	peer_flush(p);
	for (int i = 0; i < 3; i++) {
		peer_error(p, expect_port(p), ECONNREFUSED, "nobody listens there");
		peer_flush(p);
	}
	until_the_end(p);
}

static int refused_client(unsigned port, void *arg)
{
	char byte;

	for (int i = 0; i < 3; i++) {
		autoclose int fd = dial(port);

		CHECK_EQ(recv(fd, &byte, 1, 0), -1);
		CHECK_EQ(errno, ECONNRESET);
	}
	return 0;
}

TEST(where_nobody_listens_it_is_reset)
{
	struct client c = {.act = refused_client, .stops = true};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(refuse_script, &c, &r, &err), 0);
	CHECK_EQ(r, 0);
}

/* ---- windows ---- */

enum { FLOOD = 3 * WIRE_NET_WINDOW };

/* Takes a window and no byte more until it gives credit. */
static void flood_script(struct peer *p, void *arg)
{
	struct wire_credit credit = {.bytes = WIRE_NET_WINDOW};
	size_t total = 0, window = WIRE_NET_WINDOW;
	uint32_t id;

	peer_flush(p);
	id = expect_port(p);
	peer_send(p, WIRE_OK, 0, id);
	peer_flush(p);
	while (total < FLOOD) {
		struct wire_frame f = peer_expect(p, WIRE_DATA);

		total += f.len;
		CHECK(total <= window);
		if (total == window) {
			window += WIRE_NET_WINDOW;
			CHECK_EQ(wire_credit_encode(&p->out, id, WIRE_STDIN, &credit), 0);
			peer_flush(p);
		}
	}
	(void)peer_expect(p, WIRE_EOF);
	peer_data(p, id, WIRE_STDOUT, "all", 3);
	peer_send(p, WIRE_EOF, WIRE_STDOUT, id);
	peer_flush(p);
	until_the_end(p);
}

static int flood_client(unsigned port, void *arg)
{
	autoclose int fd = dial(port);
	autofree char *bytes = calloc(1, FLOOD);
	char answer[4] = "";

	CHECK_EQ(fd_write_full(fd, bytes, FLOOD), 0);
	CHECK_EQ(shutdown(fd, SHUT_WR), 0);
	CHECK_EQ(fd_read_full(fd, answer, sizeof(answer)), 3);
	return 0;
}

TEST(no_more_is_sent_than_the_box_takes)
{
	struct client c = {.act = flood_client, .stops = true};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(flood_script, &c, &r, &err), 0);
	CHECK_EQ(r, 0);
}

/* A keeper that sends beyond the window has lost count: that connection ends, the others live. */
static void overrun_script(struct peer *p, void *arg)
{
	static uint8_t bytes[WIRE_DATA_MAX];
	uint32_t id;

	peer_flush(p);
	id = expect_port(p);
	peer_send(p, WIRE_OK, 0, id);
	/* Far more than the sockets between can hold. */
	for (size_t n = 0; n < (64u << 20); n += sizeof(bytes)) {
		peer_data(p, id, WIRE_STDOUT, bytes, sizeof(bytes));
		peer_flush(p);
	}
	id = expect_port(p);
	peer_send(p, WIRE_OK, 0, id);
	peer_data(p, id, WIRE_STDOUT, "x", 1);
	peer_flush(p);
	until_the_end(p);
}

static int overrun_client(unsigned port, void *arg)
{
	autoclose int fd = dial(port), second = -1;
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};
	char byte;

	/* It reads nothing until it is cut. */
	CHECK(poll(&p, 1, 60000) > 0);
	second = dial(port);
	CHECK_EQ(recv(second, &byte, 1, 0), 1);
	CHECK_EQ(byte, 'x');
	return 0;
}

TEST(data_beyond_the_window_ends_that_connection)
{
	struct client c = {.act = overrun_client, .stops = true};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(overrun_script, &c, &r, &err), 0);
	CHECK_EQ(r, 0);
}

/* ---- resets ---- */

static void cancel_script(struct peer *p, void *arg)
{
	uint32_t id;

	peer_flush(p);
	id = expect_port(p);
	peer_send(p, WIRE_OK, 0, id);
	peer_send(p, WIRE_CANCEL, 0, id);
	/* What is late, or was never asked for, is for nobody. */
	peer_data(p, id, WIRE_STDOUT, "late", 4);
	peer_data(p, 77, WIRE_STDOUT, "what", 4);
	peer_flush(p);
	id = expect_port(p);
	peer_send(p, WIRE_OK, 0, id);
	peer_data(p, id, WIRE_STDOUT, "go", 2);
	peer_flush(p);
	CHECK_EQ(peer_expect(p, WIRE_CANCEL).id, id);
	CHECK_EQ(eventfd_write(*(int *)arg, 1), 0);
	until_the_end(p);
}

static int reset_client(unsigned port, void *arg)
{
	static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
	autoclose int first = dial(port);
	eventfd_t n;
	char byte;
	int fd;

	CHECK_EQ(recv(first, &byte, 1, 0), -1);
	CHECK_EQ(errno, ECONNRESET);
	fd = dial(port);
	CHECK_EQ(recv(fd, &byte, 1, 0), 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	CHECK_EQ(eventfd_read(*(int *)arg, &n), 0);
	return 0;
}

TEST(a_reset_passes_both_ways)
{
	autoclose int seen = eventfd(0, 0);
	struct client c = {.act = reset_client, .stops = true, .arg = &seen};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(cancel_script, &c, &r, &err), 0);
	CHECK_EQ(r, 0);
}

/* ---- many ---- */

enum { MANY = FORWARD_CONNS_MAX + 20 };

/* Never more open than the maximum; the ones beyond come when others have ended. */
static void many_script(struct peer *p, void *arg)
{
	uint32_t ids[MANY];

	peer_flush(p);
	for (unsigned i = 0; i < FORWARD_CONNS_MAX; i++)
		ids[i] = expect_port(p);
	for (unsigned i = 0; i < MANY; i++) {
		if (i >= FORWARD_CONNS_MAX)
			ids[i] = expect_port(p);
		peer_send(p, WIRE_OK, 0, ids[i]);
		peer_data(p, ids[i], WIRE_STDOUT, "x", 1);
		peer_send(p, WIRE_CANCEL, 0, ids[i]);
		peer_flush(p);
	}
	until_the_end(p);
}

static int many_client(unsigned port, void *arg)
{
	int fds[MANY];
	char byte;

	for (unsigned i = 0; i < MANY; i++)
		fds[i] = dial(port);
	for (unsigned i = 0; i < MANY; i++) {
		/* A reset may overtake the byte before it. */
		CHECK(recv(fds[i], &byte, 1, 0) == 1 || errno == ECONNRESET);
		close(fds[i]);
	}
	return 0;
}

TEST(more_than_the_maximum_wait_for_their_turn)
{
	struct client c = {.act = many_client, .stops = true};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(many_script, &c, &r, &err), 0);
	CHECK_EQ(r, 0);
}

/* ---- ends ---- */

static void vanish_script(struct peer *p, void *arg)
{
	peer_flush(p);
	(void)expect_port(p);
	_exit(0);
}

static int waiting_client(unsigned port, void *arg)
{
	autoclose int fd = dial(port);
	char byte;

	CHECK_EQ(recv(fd, &byte, 1, 0), -1);
	CHECK_EQ(errno, ECONNRESET);
	return 0;
}

TEST(the_end_of_the_box_is_an_error)
{
	struct client c = {.act = waiting_client};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(vanish_script, &c, &r, &err), 0);
	CHECK_EQ(r, -ECONNRESET);
	CHECK_EQ(err.kind, COVE_INTERRUPTED);
	CHECK(strstr(err.message, "box 'box' ended"));
}

static void broken_script(struct peer *p, void *arg)
{
	peer_flush(p);
	(void)expect_port(p);
	CHECK_EQ(buf_append(&p->out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12), 0);
	peer_flush(p);
	until_the_end(p);
}

TEST(a_keeper_that_breaks_the_protocol)
{
	struct client c = {.act = waiting_client};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(broken_script, &c, &r, &err), 0);
	CHECK_EQ(err.kind, COVE_PROTOCOL);
}

static void reason_script(struct peer *p, void *arg)
{
	peer_flush(p);
	(void)expect_port(p);
	peer_error(p, 0, EIO, "the box\nis no more");
	peer_flush(p);
	until_the_end(p);
}

TEST(a_keeper_that_says_why)
{
	struct client c = {.act = waiting_client};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(reason_script, &c, &r, &err), 0);
	CHECK_EQ(err.kind, COVE_INTERRUPTED);
	CHECK(strstr(err.message, "is no more"));
	CHECK(!strchr(err.message, '\n'));
}

static void idle_script(struct peer *p, void *arg)
{
	peer_flush(p);
	until_the_end(p);
}

static int no_client(unsigned port, void *arg)
{
	return 0;
}

TEST(it_stops_when_told_to)
{
	struct client c = {.act = no_client, .stops = true};
	struct cove_error err = {0};
	int r;

	CHECK_EQ(forward(idle_script, &c, &r, &err), 0);
	CHECK_EQ(r, 0);
}

/* ---- wrong use ---- */

static int listen_on(struct cove_box *box, const char *address, unsigned port, unsigned local,
		     struct cove_error *err)
{
	struct cove_forward o = {.size = sizeof(o),
				 .port = port,
				 .address = address,
				 .local_port = local,
				 .stop_fd = -1};

	return cove_forward(box, &o, err);
}

TEST(what_cannot_be_listened_on)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	autoclose int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);
	struct cove_box *box = peer_box(idle_script, NULL);
	struct cove_error err;

	CHECK_EQ(bind(taken, (struct sockaddr *)&at, len), 0);
	CHECK_EQ(listen(taken, 1), 0);
	CHECK_EQ(getsockname(taken, (struct sockaddr *)&at, &len), 0);
	CHECK_EQ(listen_on(box, NULL, 80, ntohs(at.sin_port), &err), -EADDRINUSE);
	CHECK_EQ(err.kind, COVE_CONFLICT);
	CHECK(strstr(err.message, "in use"));
	CHECK_EQ(listen_on(box, "localhost", 80, 0, &err), -EINVAL);
	CHECK_EQ(listen_on(box, "", 80, 0, &err), -EINVAL);
	CHECK_EQ(listen_on(box, "127.0.0.1:80", 80, 0, &err), -EINVAL);
	CHECK_EQ(listen_on(box, "192.0.2.1", 80, 0, &err), -EADDRNOTAVAIL);
	CHECK(strstr(err.message, "no address of this host"));
	CHECK_EQ(listen_on(box, NULL, 0, 0, &err), -EINVAL);
	CHECK_EQ(listen_on(box, NULL, 65536, 0, &err), -EINVAL);
	CHECK_EQ(listen_on(box, NULL, 80, 65536, &err), -EINVAL);
	cove_box_free(box);
}

TAP_MAIN
