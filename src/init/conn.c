/*
 * One connection; see conn.h.
 *
 * The socket is watched only for what can be done with it: reading where there is credit and room
 * on the link, writing where something waits. With nothing to be done it is watched for nothing,
 * which still tells of a reset: that ends the connection at once, so that the door does not go on
 * for a program that is gone. Only after our own end it is taken out of the loop, which would be
 * woken by the peer's as long as bytes before that wait for credit. Bytes are read straight into
 * the link's queue, behind the space for their header.
 *
 * The first reads are small: most connections begin with a line, and a small buffer stays small.
 */
#include "init/conn.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <sys/socket.h>

enum { CHUNK_FIRST = 4096 };

struct conn *conn_find(const struct conn_table *t, uint32_t id)
{
	struct conn *c = t->buckets[id % CONN_BUCKETS];

	while (c && c->id != id)
		c = c->next;
	return c;
}

void conn_add(struct conn_table *t, struct conn *c)
{
	struct conn **at = &t->buckets[c->id % CONN_BUCKETS];

	c->next = *at;
	*at = c;
	t->count++;
}

void conn_remove(struct conn_table *t, struct conn *c)
{
	struct conn **at = &t->buckets[c->id % CONN_BUCKETS];

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	t->count--;
}

static void send_frame(struct conn *c, enum wire_type type)
{
	uint8_t stream = type == WIRE_EOF ? WIRE_STDOUT : 0;

	if (wire_link_send(&c->in->link, type, stream, c->id, NULL, 0) < 0)
		init_broken(c->in, "no room for the end of a connection");
}

/* Ends it both ways; a reset for the peer. */
static void cancel(struct conn *c)
{
	send_frame(c, WIRE_CANCEL);
	conn_done(c);
	c->on_over(c);
}

static bool is_over(const struct conn *c)
{
	return c->read_end && c->shut;
}

static void give_credit(struct conn *c, size_t n)
{
	struct wire_credit m = {.bytes = wire_flow_took(&c->back, n)};

	if (m.bytes == 0 || c->wire_end)
		return;
	if (wire_credit_encode(&c->in->link.out, c->id, WIRE_STDIN, &m) < 0)
		init_broken(c->in, "no room for credit");
	else
		wire_link_flush(&c->in->link);
}

/* Puts it where it belongs, or ends it. */
static void settle(struct conn *c)
{
	uint32_t want = buf_len(&c->waiting) > 0 ? EPOLLOUT : 0;
	bool reads = !c->read_end && c->out.left > 0;
	int r = 0;

	if (c->held)
		return;
	if (is_over(c)) {
		conn_done(c);
		c->on_over(c);
		return;
	}
	if (reads && !init_has_room(c->in))
		init_wait_room(c->in, &c->room);
	else if (reads)
		want |= EPOLLIN;
	if (!want && c->shut)
		ev_io_remove(c->in->ev, &c->io);
	else if (!c->io.added)
		r = ev_io_add(c->in->ev, &c->io, want);
	else if (c->io.events != want)
		r = ev_io_set(c->in->ev, &c->io, want);
	if (r < 0)
		cancel(c);
}

/* One read, one DATA frame. 0, or -errno once the peer is gone for good. */
static int read_once(struct conn *c)
{
	size_t want = c->chunk < c->out.left ? c->chunk : (size_t)c->out.left;
	struct buf *out = &c->in->link.out;
	size_t at = buf_len(out);
	uint8_t *p = buf_reserve(out, WIRE_HEADER + want);
	ssize_t n;

	if (!p)
		return -ENOMEM;
	do {
		n = recv(c->io.fd, p + WIRE_HEADER, want, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n == 0) {
		c->read_end = true;
		send_frame(c, WIRE_EOF);
		return 0;
	}
	buf_commit(out, WIRE_HEADER + (size_t)n);
	wire_encode_end(out, at, WIRE_DATA, WIRE_STDOUT, c->id);
	wire_link_flush(&c->in->link);
	c->out.left -= (uint64_t)n;
	if ((size_t)n == c->chunk)
		c->chunk = WIRE_DATA_MAX;
	else if ((size_t)n <= CHUNK_FIRST)
		c->chunk = CHUNK_FIRST;
	return 0;
}

/* Writes what it can. Returns the bytes taken, or -errno. */
static ssize_t write_some(struct conn *c, const uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = send(c->io.fd, p + done, n - done, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			break;
		if (r < 0)
			return -errno;
		done += (size_t)r;
	}
	if (done > 0)
		give_credit(c, done);
	return (ssize_t)done;
}

static int write_waiting(struct conn *c)
{
	ssize_t n = write_some(c, buf_data(&c->waiting), buf_len(&c->waiting));

	if (n < 0)
		return (int)n;
	buf_consume(&c->waiting, (size_t)n);
	if (buf_len(&c->waiting) == 0)
		buf_done(&c->waiting);
	return 0;
}

/* The wire's end becomes the socket's, behind the last byte. */
static int pass_end(struct conn *c)
{
	if (!c->wire_end || c->shut || buf_len(&c->waiting) > 0)
		return 0;
	c->shut = true;
	return shutdown(c->io.fd, SHUT_WR) < 0 ? -errno : 0;
}

static void on_event(struct ev_io *io, uint32_t events)
{
	struct conn *c = container(io, struct conn, io);
	bool may_read = io->events & EPOLLIN, may_write = io->events & EPOLLOUT;
	int r = 0;

	if (may_write && events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		r = write_waiting(c);
	if (r == 0)
		r = pass_end(c);
	if (r == 0 && may_read && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = read_once(c);
	/* Watched for nothing: its peer neither says nor hears anything any more. */
	if (r == 0 && !may_read && !may_write && !c->shut && events & (EPOLLHUP | EPOLLERR))
		r = -ECONNRESET;
	if (r < 0)
		cancel(c);
	else
		settle(c);
}

static void on_room(struct room_wait *w)
{
	settle(container(w, struct conn, room));
}

int conn_init(struct conn *c, struct init *in, int fd, uint32_t id, bool held)
{
	int r = fd_set_nonblock(fd, true);

	c->in = in;
	c->id = id;
	c->io = (struct ev_io){.on_event = on_event, .fd = fd};
	c->room = (struct room_wait){.on_room = on_room};
	c->chunk = CHUNK_FIRST;
	c->held = held;
	c->read_end = c->wire_end = c->shut = false;
	wire_flow_init_net(&c->out);
	wire_flow_init_net(&c->back);
	buf_init(&c->waiting, WIRE_NET_WINDOW);
	if (r == 0 && !held)
		r = ev_io_add(in->ev, &c->io, EPOLLIN);
	if (r < 0)
		conn_done(c);
	return r;
}

void conn_go(struct conn *c)
{
	int r;

	c->held = false;
	r = buf_len(&c->waiting) > 0 ? write_waiting(c) : 0;
	if (r == 0)
		r = pass_end(c);
	if (r < 0)
		cancel(c);
	else
		settle(c);
}

void conn_done(struct conn *c)
{
	static const struct linger reset = {.l_onoff = 1, .l_linger = 0};

	ev_io_remove(c->in->ev, &c->io);
	init_wait_room_cancel(c->in, &c->room);
	if (c->io.fd >= 0 && !is_over(c))
		setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	fd_close(&c->io.fd);
	buf_done(&c->waiting);
}

/* Whoever sends more than a window, or after the end, has lost count: that connection ends. */
static int take_data(struct conn *c, const struct wire_frame *f)
{
	ssize_t done = 0;

	if (c->wire_end || f->stream != WIRE_STDIN)
		return -EBADMSG;
	if (!c->held && buf_len(&c->waiting) == 0)
		done = write_some(c, f->payload, f->len);
	if (done < 0)
		return (int)done;
	return (size_t)done == f->len
		       ? 0
		       : buf_append(&c->waiting, f->payload + done, f->len - (size_t)done);
}

static int take_credit(struct conn *c, const struct wire_frame *f)
{
	struct wire_credit m;

	if (wire_credit_decode(f, &m) < 0 || f->stream != WIRE_STDOUT)
		return -EBADMSG;
	return c->read_end ? 0 : wire_flow_credit(&c->out, m.bytes);
}

void conn_frame(struct conn *c, const struct wire_frame *f)
{
	int r = 0;

	switch (f->type) {
	case WIRE_DATA:
		r = take_data(c, f);
		break;
	case WIRE_EOF:
		c->wire_end = true;
		r = c->held ? 0 : pass_end(c);
		break;
	case WIRE_CREDIT:
		r = take_credit(c, f);
		break;
	case WIRE_CANCEL:
		conn_done(c);
		c->on_over(c);
		return;
	default:
		return;
	}
	if (r < 0)
		cancel(c);
	else
		settle(c);
}
