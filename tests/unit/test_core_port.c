/* A connection to a port of a box, against what a keeper may say: frames in, callbacks out. */
#include "base/limits.h"
#include "core/port.h"
#include "tap.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct rig {
	struct ev *ev;
	struct core_conn *conn;
	struct core_port *port;
	int fd; /* the keeper's end */
	struct buf says;
	struct buf got; /* what came from the box */
	unsigned rooms, ends, overs;
	int r;
	bool takes, cancels; /* gives back what comes; cancels at the first bytes */
	struct ev_timer stop;
};

static void on_bytes(struct core_port *p, const void *data, size_t n)
{
	struct rig *rig = p->arg;

	CHECK_EQ(buf_append(&rig->got, data, n), 0);
	if (rig->cancels) {
		core_port_cancel(p);
		rig->port = NULL;
	} else if (rig->takes) {
		core_port_took(p, n);
	}
}

static void on_end(struct core_port *p)
{
	((struct rig *)p->arg)->ends++;
}

static void on_room(struct core_port *p)
{
	((struct rig *)p->arg)->rooms++;
}

static void on_over(struct core_port *p, int r, const struct err *e)
{
	struct rig *rig = p->arg;

	rig->overs++;
	rig->r = r;
	CHECK(r == 0 || e->msg[0]);
	core_port_cancel(p);
	rig->port = NULL;
}

static void begin(struct rig *rig)
{
	const struct core_port callbacks = {.on_bytes = on_bytes,
					    .on_end = on_end,
					    .on_room = on_room,
					    .on_over = on_over,
					    .arg = rig};
	struct wire_hello hello = wire_hello_ours();
	int fds[2];

	*rig = (struct rig){.takes = true};
	buf_init(&rig->says, 4 << 20);
	buf_init(&rig->got, 4 << 20);
	CHECK_EQ(ev_new(&rig->ev), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	rig->fd = fds[1];
	CHECK_EQ(core_conn_new(rig->ev, fds[0], &rig->conn, NULL), 0);
	CHECK_EQ(wire_hello_encode(&rig->says, 0, 0, &hello), 0);
	CHECK_EQ(core_port_begin(rig->conn, 80, &callbacks, &rig->port, NULL), 0);
	CHECK_EQ(rig->port->q.id, 1);
}

static void say(struct rig *rig, enum wire_type type, uint8_t stream, const void *p, size_t n)
{
	CHECK_EQ(wire_encode(&rig->says, type, stream, 1, p, n), 0);
}

static void on_stop(struct ev_timer *t)
{
	ev_quit(container(t, struct rig, stop)->ev);
}

/* All that was said is heard: the loop runs until it has nothing more to do. */
static void run(struct rig *rig)
{
	while (buf_len(&rig->says) > 0) {
		ssize_t n = send(rig->fd, buf_data(&rig->says), buf_len(&rig->says), MSG_DONTWAIT);

		if (n > 0)
			buf_consume(&rig->says, (size_t)n);
		rig->stop.on_timer = on_stop;
		ev_timer_set(rig->ev, &rig->stop, 1);
		CHECK_EQ(ev_run(rig->ev), 0);
		if (rig->conn->lost)
			break;
	}
}

/* Types of frames that the keeper got, as letters. */
static void check_heard(struct rig *rig, const char *want)
{
	struct wire_decoder d;
	struct wire_frame f;
	char said[64] = "";
	size_t room, n = 0;
	uint8_t *space;
	ssize_t got = 1;

	rig->stop.on_timer = on_stop;
	ev_timer_set(rig->ev, &rig->stop, 1);
	CHECK_EQ(ev_run(rig->ev), 0);
	wire_decoder_init(&d);
	while (got > 0) {
		space = wire_decoder_space(&d, &room);
		got = space ? recv(rig->fd, space, room, MSG_DONTWAIT) : -1;
		if (got > 0)
			wire_decoder_fill(&d, (size_t)got);
		while (wire_decoder_next(&d, &f) > 0 && n < sizeof(said) - 1)
			said[n++] = f.type == WIRE_HELLO    ? 'h'
				    : f.type == WIRE_PORT   ? 'p'
				    : f.type == WIRE_DATA   ? 'd'
				    : f.type == WIRE_EOF    ? 'e'
				    : f.type == WIRE_CREDIT ? 'c'
				    : f.type == WIRE_CANCEL ? 'x'
							    : '?';
	}
	said[n] = 0;
	CHECK_STR(said, want);
	wire_decoder_done(&d);
}

static void finish(struct rig *rig)
{
	core_port_cancel(rig->port);
	core_conn_free(rig->conn);
	ev_timer_stop(rig->ev, &rig->stop);
	ev_free(rig->ev);
	close(rig->fd);
	buf_done(&rig->says);
	buf_done(&rig->got);
}

TEST(bytes_both_ways_and_an_end)
{
	struct rig rig;

	begin(&rig);
	say(&rig, WIRE_OK, 0, NULL, 0);
	say(&rig, WIRE_DATA, WIRE_STDOUT, "hello", 5);
	CHECK_EQ(core_port_write(rig.port, "abc", 3), 3);
	run(&rig);
	CHECK_STR(buf_cstr(&rig.got), "hello");
	CHECK_EQ(rig.rooms, 1);
	say(&rig, WIRE_EOF, WIRE_STDOUT, NULL, 0);
	run(&rig);
	CHECK_EQ(rig.ends, 1);
	CHECK_EQ(rig.overs, 0);
	core_port_let_go(rig.port);
	rig.port = NULL;
	check_heard(&rig, "hpde");
	CHECK_EQ(rig.conn->count, 0);
	finish(&rig);
}

TEST(one_that_was_let_go_drops_what_still_comes)
{
	struct rig rig;

	begin(&rig);
	say(&rig, WIRE_OK, 0, NULL, 0);
	run(&rig);
	core_port_let_go(rig.port);
	rig.port = NULL;
	say(&rig, WIRE_DATA, WIRE_STDOUT, "late", 4);
	run(&rig);
	CHECK_EQ(buf_len(&rig.got), 0);
	CHECK_EQ(rig.conn->count, 1);
	say(&rig, WIRE_EOF, WIRE_STDOUT, NULL, 0);
	run(&rig);
	CHECK_EQ(rig.conn->count, 0);
	check_heard(&rig, "hpe");
	finish(&rig);
}

TEST(credit_bounds_both_sides)
{
	static uint8_t much[1 << 20];
	struct wire_credit credit = {.bytes = 1000};
	struct rig rig;

	begin(&rig);
	CHECK_EQ(core_port_write(rig.port, much, sizeof(much)), WIRE_NET_WINDOW);
	CHECK_EQ(core_port_write(rig.port, much, 1), 0);
	CHECK_EQ(wire_credit_encode(&rig.says, 1, WIRE_STDIN, &credit), 0);
	run(&rig);
	CHECK_EQ(rig.rooms, 1);
	CHECK_EQ(core_port_write(rig.port, much, sizeof(much)), 1000);
	for (size_t i = 0; i < WIRE_NET_WINDOW / WIRE_DATA_MAX; i++)
		say(&rig, WIRE_DATA, WIRE_STDOUT, much, WIRE_DATA_MAX);
	run(&rig);
	CHECK_EQ(buf_len(&rig.got), WIRE_NET_WINDOW);
	CHECK_EQ(rig.overs, 0);
	finish(&rig);
}

TEST(how_it_is_refused_and_cut)
{
	struct wire_error refused = {.kind = ERR_INTERNAL, .code = ECONNREFUSED, .msg = "no"};
	struct rig rig;

	begin(&rig);
	CHECK_EQ(wire_error_encode(&rig.says, 1, 0, &refused), 0);
	run(&rig);
	CHECK_EQ(rig.overs, 1);
	CHECK_EQ(rig.r, -ECONNREFUSED);
	finish(&rig);
	begin(&rig);
	say(&rig, WIRE_OK, 0, NULL, 0);
	say(&rig, WIRE_DATA, WIRE_STDOUT, "x", 1);
	say(&rig, WIRE_CANCEL, 0, NULL, 0);
	run(&rig);
	CHECK_EQ(rig.overs, 1);
	CHECK_EQ(rig.r, -ECONNRESET);
	CHECK_EQ(buf_len(&rig.got), 1);
	finish(&rig);
}

TEST(the_owner_may_cancel_it_in_the_middle)
{
	struct rig rig;

	begin(&rig);
	rig.cancels = true;
	say(&rig, WIRE_DATA, WIRE_STDOUT, "x", 1);
	say(&rig, WIRE_DATA, WIRE_STDOUT, "y", 1);
	say(&rig, WIRE_EOF, WIRE_STDOUT, NULL, 0);
	run(&rig);
	CHECK_STR(buf_cstr(&rig.got), "x");
	CHECK_EQ(rig.ends + rig.overs, 0);
	check_heard(&rig, "hpx");
	finish(&rig);
}

/* What breaks the rules ends the connection, and so the port, once. */
static void broken(enum wire_type type, uint8_t stream, const void *p, size_t n, unsigned times)
{
	struct rig rig;

	begin(&rig);
	rig.takes = false;
	for (unsigned i = 0; i < times; i++)
		say(&rig, type, stream, p, n);
	run(&rig);
	CHECK_EQ(rig.overs, 1);
	CHECK(rig.r < 0 && rig.conn->lost);
	finish(&rig);
}

TEST(a_keeper_that_breaks_the_rules)
{
	static uint8_t much[WIRE_DATA_MAX];

	broken(WIRE_DATA, WIRE_STDOUT, much, sizeof(much), WIRE_NET_WINDOW / WIRE_DATA_MAX + 1);
	broken(WIRE_DATA, WIRE_STDERR, much, 1, 1);
	broken(WIRE_DATA, WIRE_STDIN, much, 1, 1);
	broken(WIRE_EOF, WIRE_STDOUT, NULL, 0, 2);
	broken(WIRE_EOF, WIRE_STDIN, NULL, 0, 1);
	broken(WIRE_CREDIT, WIRE_STDOUT, NULL, 0, 1);
	broken(WIRE_CREDIT, WIRE_STDIN, "\xff\xff\xff", 3, 1);
	broken(WIRE_ENTRY, 0, NULL, 0, 1);
	broken(WIRE_EXIT, 0, NULL, 0, 1);
}

TAP_MAIN
