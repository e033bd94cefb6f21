/* A scripted keeper; see core_peer.h. */
#include "core_peer.h"

#include "base/limits.h"
#include "tap.h"

#include <sys/socket.h>

static int peer_fill(struct peer *p)
{
	size_t room = 0;
	uint8_t *space = wire_decoder_space(&p->decoder, &room);
	ssize_t n = space ? recv(p->fd, space, room, 0) : -1;

	if (n <= 0)
		return 0;
	wire_decoder_fill(&p->decoder, (size_t)n);
	return 1;
}

struct wire_frame peer_expect(struct peer *p, enum wire_type type)
{
	struct wire_frame f;

	for (;;) {
		int r = wire_decoder_next(&p->decoder, &f);

		CHECK(r >= 0);
		if (r > 0 && f.type == type)
			return f;
		/* HELLO comes first, credit when it likes. */
		p->cancelled = p->cancelled || (r > 0 && f.type == WIRE_CANCEL);
		if (r > 0)
			CHECK(f.type == WIRE_HELLO || f.type == WIRE_CREDIT ||
			      f.type == WIRE_DATA || f.type == WIRE_CANCEL);
		else if (!peer_fill(p))
			_exit(0);
	}
}

void peer_flush(struct peer *p)
{
	while (buf_len(&p->out) > 0) {
		ssize_t n = send(p->fd, buf_data(&p->out), buf_len(&p->out), MSG_NOSIGNAL);

		if (n <= 0)
			_exit(0);
		buf_consume(&p->out, (size_t)n);
	}
}

void peer_entry(struct peer *p, uint32_t id, char type, const char *path, const char *target)
{
	struct wire_entry m = {
		.type = (uint64_t)type, .path = path, .target = target, .mode = 04755};

	CHECK_EQ(wire_entry_encode(&p->out, id, 0, &m), 0);
}

void peer_data(struct peer *p, uint32_t id, uint8_t stream, const void *data, size_t n)
{
	CHECK_EQ(wire_encode(&p->out, WIRE_DATA, stream, id, data, n), 0);
}

void peer_send(struct peer *p, enum wire_type type, uint8_t stream, uint32_t id)
{
	CHECK_EQ(wire_encode(&p->out, type, stream, id, NULL, 0), 0);
}

void peer_error(struct peer *p, uint32_t id, int code, const char *msg)
{
	struct wire_error m = {.kind = ERR_DENIED, .code = (uint64_t)code, .msg = msg};

	CHECK_EQ(wire_error_encode(&p->out, id, 0, &m), 0);
}

static void run_script(int fd, bool today, void (*script)(struct peer *p, void *arg), void *arg)
{
	struct peer p = {.fd = fd};
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN, .name = "box"};

	if (today)
		hello = wire_hello_ours();
	wire_decoder_init(&p.decoder);
	buf_init(&p.out, WIRE_OUT_MAX);
	CHECK_EQ(wire_hello_encode(&p.out, 0, 0, &hello), 0);
	script(&p, arg);
	peer_flush(&p);
	_exit(0);
}

static struct cove_box *make_box(bool today, void (*script)(struct peer *p, void *arg), void *arg)
{
	static struct cove cove;
	struct core_conn *conn;
	struct cove_box *box;
	int pair[2];
	pid_t pid;

	cove.state.run_fd = -1;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		close(pair[0]);
		run_script(pair[1], today, script, arg);
	}
	close(pair[1]);
	CHECK_EQ(core_conn_new(NULL, pair[0], &conn, NULL), 0);
	conn->first = true;
	CHECK_EQ(box_handle_take(&cove, "box", false, conn, &box, NULL), 0);
	return box;
}

struct cove_box *peer_box(void (*script)(struct peer *p, void *arg), void *arg)
{
	return make_box(false, script, arg);
}

struct cove_box *peer_box_of_today(void (*script)(struct peer *p, void *arg), void *arg)
{
	return make_box(true, script, arg);
}
