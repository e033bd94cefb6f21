/* See keeper_rig.h. */
#include "keeper_rig.h"

#include "base/fd.h"
#include "base/limits.h"
#include "storage/tree.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

void remove_temporary(const char *path)
{
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_EQ(tree_remove(tmp, path + strlen("/tmp/"), NULL), 0);
	close(tmp);
}

static struct rig *rig_of(struct keeper *k)
{
	return container(k, struct rig, k);
}

static void on_up(struct keeper *k)
{
	rig_of(k)->up = true;
}

static void on_lost(struct keeper *k, int error)
{
	rig_of(k)->lost = true;
}

static void on_first_gone(struct keeper *k)
{
	rig_of(k)->first_gone = true;
}

static void on_end(struct keeper *k, const struct keeper_end *end)
{
	struct rig *r = rig_of(k);

	r->ends++;
	r->remove = r->remove || end->remove;
	r->grace_ms = end->grace_ms;
	snprintf(r->cause, sizeof(r->cause), "%s", end->cause);
	snprintf(r->by, sizeof(r->by), "%s", end->by ? end->by : "");
}

static void peer_init(struct peer *p, int fd)
{
	*p = (struct peer){.fd = fd};
	CHECK_EQ(fd_set_nonblock(fd, true), 0);
	wire_decoder_init(&p->decoder);
	buf_init(&p->out, 64 << 20);
}

static void peer_done(struct peer *p)
{
	fd_close(&p->fd);
	wire_decoder_done(&p->decoder);
	buf_done(&p->out);
}

void peer_close(struct peer *p)
{
	fd_close(&p->fd);
}

static void core_begin(struct rig *r)
{
	int pair[2];

	r->k = (struct keeper){
		.ev = r->ev,
		.name = "rig",
		.on_up = on_up,
		.on_lost = on_lost,
		.on_end = on_end,
		.on_first_gone = on_first_gone,
	};
	keeper_init(&r->k, r->box_fd);
	CHECK_EQ(keeper_load(&r->k, NULL), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	peer_init(&r->init, pair[0]);
	CHECK_EQ(keeper_connect(&r->k, pair[1], pair[1]), 0);
}

static void say_hello(struct rig *r)
{
	struct wire_hello m = {.lowest = WIRE_VERSION_MIN, .notes = "a note\nwith \x1b[31mcolour"};

	CHECK_EQ(wire_hello_encode(&r->init.out, 0, 0, &m), 0);
	rig_run(r);
	CHECK(r->up);
	/* The keeper's own would come with its first request. */
	wire_link_flush(&r->k.init);
	peer_next(r, &r->init, WIRE_HELLO);
}

void rig_init(struct rig *r, bool hello)
{
	*r = (struct rig){.path = "/tmp/cove-rig-XXXXXX"};
	CHECK(mkdtemp(r->path));
	r->box_fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(r->box_fd >= 0);
	CHECK_EQ(ev_new(&r->ev), 0);
	core_begin(r);
	if (!hello)
		return;
	say_hello(r);
	rig_client(r);
}

static void drop_peers(struct rig *r)
{
	keeper_done(&r->k);
	peer_done(&r->init);
	for (unsigned i = 0; i < r->client_count; i++)
		peer_done(&r->clients[i]);
	r->client_count = 0;
	r->up = false;
}

void rig_restart(struct rig *r)
{
	drop_peers(r);
	core_begin(r);
	say_hello(r);
	rig_client(r);
}

void rig_done(struct rig *r)
{
	drop_peers(r);
	ev_free(r->ev);
	fd_close(&r->box_fd);
	remove_temporary(r->path);
}

struct peer *rig_client(struct rig *r)
{
	struct peer *p = &r->clients[r->client_count];
	int pair[2];

	CHECK(r->client_count < RIG_PEERS);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	peer_init(p, pair[0]);
	CHECK_EQ(keeper_add_client(&r->k, pair[1], r->client_count == 0), 0);
	r->client_count++;
	peer_next(r, p, WIRE_HELLO);
	return p;
}

/* Writes and reads what goes. True if something moved. */
static bool peer_move(struct peer *p)
{
	bool moved = false;
	uint8_t *space;
	size_t room;
	ssize_t n;

	while (p->fd >= 0 && buf_len(&p->out) > 0) {
		n = send(p->fd, buf_data(&p->out), buf_len(&p->out), MSG_NOSIGNAL);
		if (n <= 0)
			break;
		buf_consume(&p->out, (size_t)n);
		moved = true;
	}
	/* Bounded, so that a test can leave bytes in the socket. */
	if (p->fd < 0 || p->deaf || p->ended || buf_len(&p->decoder.in) > (1 << 19))
		return moved;
	space = wire_decoder_space(&p->decoder, &room);
	n = recv(p->fd, space, room, 0);
	if (n > 0)
		wire_decoder_fill(&p->decoder, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		p->ended = true;
	return moved || n > 0;
}

struct quit {
	struct ev_timer timer;
	struct ev *ev;
};

static void on_quit(struct ev_timer *t)
{
	ev_quit(((struct quit *)t)->ev);
}

static void one_turn(struct rig *r)
{
	struct quit q = {.timer = {.on_timer = on_quit}, .ev = r->ev};

	ev_timer_set(r->ev, &q.timer, 0);
	CHECK_EQ(ev_run(r->ev), 0);
	ev_timer_stop(r->ev, &q.timer);
}

void rig_run(struct rig *r)
{
	for (int quiet = 0; quiet < 4; quiet++) {
		bool moved = peer_move(&r->init);

		for (unsigned i = 0; i < r->client_count; i++)
			moved |= peer_move(&r->clients[i]);
		one_turn(r);
		if (moved || (r->k.syncing && !r->sync_hangs))
			quiet = 0;
	}
}

void peer_say(struct peer *p, enum wire_type type, uint8_t stream, uint32_t id, const void *data,
	      size_t n)
{
	CHECK_EQ(wire_encode(&p->out, type, stream, id, data, n), 0);
}

struct wire_frame peer_next(struct rig *r, struct peer *p, enum wire_type type)
{
	struct wire_frame f = {0};
	int got = wire_decoder_next(&p->decoder, &f);

	if (got == 0) {
		rig_run(r);
		got = wire_decoder_next(&p->decoder, &f);
	}
	CHECK_EQ(got, 1);
	CHECK_EQ(f.type, type);
	return f;
}

struct exec_record peer_exit(struct rig *r, struct peer *p, uint32_t id)
{
	struct wire_frame f = peer_next(r, p, WIRE_EXIT);
	struct exec_record m;

	CHECK_EQ(f.id, id);
	CHECK_EQ(wire_exit_decode(&f, &m), 0);
	return m;
}

struct wire_error peer_error(struct rig *r, struct peer *p, uint32_t id)
{
	struct wire_frame f = peer_next(r, p, WIRE_ERROR);
	struct wire_error m;

	CHECK_EQ(f.id, id);
	CHECK_EQ(wire_error_decode(&f, &m), 0);
	return m;
}

bool peer_silent(struct rig *r, struct peer *p)
{
	struct wire_frame f;

	rig_run(r);
	return wire_decoder_next(&p->decoder, &f) == 0;
}

void say_credit(struct peer *p, uint32_t id, uint8_t stream, uint64_t bytes)
{
	CHECK_EQ(wire_credit_encode(&p->out, id, stream, &(struct wire_credit){.bytes = bytes}), 0);
}

void say_started(struct rig *r, uint32_t id)
{
	struct wire_started m = {.exec_id = id, .pid = 1000 + id};

	CHECK_EQ(wire_started_encode(&r->init.out, id, 0, &m), 0);
}

void say_exit(struct rig *r, uint32_t id, int code)
{
	struct exec_record m = {
		.has_exit = 1,
		.exit_code = (uint64_t)code,
		.cause = "exit",
		.stdout_bytes = 1ull << 60, /* a lie: the keeper counts itself */
		.cwd = "/tmp",
	};

	CHECK_EQ(wire_exit_encode(&r->init.out, id, 0, &m), 0);
}

struct wire_exec plain_command(void)
{
	static const char argv[] = "make\0-j4";

	return (struct wire_exec){.argv = {.data = argv, .bytes = sizeof(argv), .count = 2}};
}

uint32_t start_command(struct rig *r, struct peer *p, uint32_t id, const struct wire_exec *m)
{
	struct wire_started started;
	struct wire_frame f;
	uint32_t exec_id;

	CHECK_EQ(wire_exec_encode(&p->out, id, 0, m), 0);
	f = peer_next(r, &r->init, WIRE_EXEC);
	exec_id = f.id;
	say_started(r, exec_id);
	f = peer_next(r, p, WIRE_STARTED);
	CHECK_EQ(f.id, id);
	CHECK_EQ(wire_started_decode(&f, &started), 0);
	CHECK_EQ(started.exec_id, exec_id);
	CHECK_EQ(started.pid, 1000 + exec_id);
	return exec_id;
}

void hear_bytes(struct rig *r, struct peer *p, uint8_t stream, uint8_t byte, size_t n)
{
	while (n > 0) {
		struct wire_frame f = peer_next(r, p, WIRE_DATA);

		CHECK_EQ(f.stream, stream);
		CHECK(f.len > 0 && f.len <= n);
		for (uint32_t i = 0; i < f.len; i++)
			CHECK_EQ(f.payload[i], byte);
		say_credit(p, f.id, stream, f.len);
		n -= f.len;
	}
}
