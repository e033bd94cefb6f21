/*
 * A socket and a stream of the wire; see socket.h. Bytes are read straight into the link's queue,
 * behind the space for their header. The first reads are small: most connections begin with a line,
 * and a small buffer stays small.
 */
#include "wire/socket.h"

#include "base/fd.h"
#include "base/limits.h"
#include "wire/msg.h"

#include <errno.h>
#include <sys/socket.h>

enum { CHUNK_FIRST = 4096 };

int wire_socket_init(struct wire_socket *s, struct wire_link *link, int fd, uint32_t id,
		     enum wire_stream to_wire)
{
	int r = fd_set_nonblock(fd, true);

	*s = (struct wire_socket){
		.link = link,
		.io = {.on_event = s->io.on_event, .fd = fd},
		.id = id,
		.to_wire = (uint8_t)to_wire,
		.from_wire = to_wire == WIRE_STDOUT ? WIRE_STDIN : WIRE_STDOUT,
		.chunk = CHUNK_FIRST,
	};
	wire_flow_init_net(&s->out);
	wire_flow_init_net(&s->back);
	buf_init(&s->waiting, WIRE_NET_WINDOW);
	if (r < 0)
		wire_socket_done(s);
	return r;
}

void wire_socket_done(struct wire_socket *s)
{
	static const struct linger reset = {.l_onoff = 1, .l_linger = 0};

	if (s->io.fd >= 0 && !wire_socket_is_over(s))
		setsockopt(s->io.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	fd_close(&s->io.fd);
	buf_done(&s->waiting);
}

/* One read, one DATA frame. */
static int read_once(struct wire_socket *s)
{
	size_t want = s->chunk < s->out.left ? s->chunk : (size_t)s->out.left;
	struct buf *out = &s->link->out;
	size_t at = buf_len(out);
	uint8_t *p = buf_reserve(out, WIRE_HEADER + want);
	ssize_t n;

	if (!p)
		return -ENOBUFS;
	do {
		n = recv(s->io.fd, p + WIRE_HEADER, want, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n == 0 && s->write_lost)
		return -ECONNRESET;
	if (n == 0) {
		s->read_end = true;
		return wire_link_send(s->link, WIRE_EOF, s->to_wire, s->id, NULL, 0);
	}
	buf_commit(out, WIRE_HEADER + (size_t)n);
	wire_encode_end(out, at, WIRE_DATA, s->to_wire, s->id);
	wire_link_flush(s->link);
	s->out.left -= (uint64_t)n;
	if ((size_t)n == s->chunk)
		s->chunk = WIRE_DATA_MAX;
	else if ((size_t)n <= CHUNK_FIRST)
		s->chunk = CHUNK_FIRST;
	return 0;
}

/* Writes what it can. Returns the bytes taken, or -errno. */
static ssize_t write_some(struct wire_socket *s, const uint8_t *p, size_t n)
{
	struct wire_credit m;
	size_t done = 0;

	if (s->write_lost)
		done = n;
	while (done < n) {
		ssize_t sent = send(s->io.fd, p + done, n - done, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			break;
		s->write_lost = sent < 0 && !s->read_end && (errno == EPIPE || errno == ECONNRESET);
		if (sent < 0 && !s->write_lost)
			return -errno;
		done = s->write_lost ? n : done + (size_t)sent;
	}
	m.bytes = wire_flow_took(&s->back, done);
	if (m.bytes > 0 && !s->wire_end) {
		if (wire_credit_encode(&s->link->out, s->id, s->from_wire, &m) < 0)
			return -ENOBUFS;
		wire_link_flush(s->link);
	}
	return (ssize_t)done;
}

/* The wire's end becomes the socket's, behind the last byte. */
static int pass_end(struct wire_socket *s)
{
	if (s->held || !s->wire_end || s->shut || s->write_lost || buf_len(&s->waiting) > 0)
		return 0;
	s->shut = true;
	return shutdown(s->io.fd, SHUT_WR) < 0 ? -errno : 0;
}

int wire_socket_write(struct wire_socket *s)
{
	ssize_t n = write_some(s, buf_data(&s->waiting), buf_len(&s->waiting));

	if (n < 0)
		return (int)n;
	buf_consume(&s->waiting, (size_t)n);
	if (buf_len(&s->waiting) == 0)
		buf_done(&s->waiting);
	return pass_end(s);
}

int wire_socket_event(struct wire_socket *s, uint32_t events)
{
	bool may_read = s->io.events & EPOLLIN, may_write = s->io.events & EPOLLOUT;
	int r = 0;

	if (may_write && events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		r = wire_socket_write(s);
	if (r == 0 && may_read && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = read_once(s);
	/* Watched for nothing: its peer neither says nor hears anything any more. */
	if (r == 0 && !may_read && !may_write && !s->shut && events & (EPOLLHUP | EPOLLERR))
		r = -ECONNRESET;
	return r;
}

/* Whoever sends more than a window, or after the end, has lost count. */
static int take_data(struct wire_socket *s, const struct wire_frame *f)
{
	ssize_t done = 0;

	if (s->wire_end || f->stream != s->from_wire)
		return -EBADMSG;
	if (!s->held && buf_len(&s->waiting) == 0)
		done = write_some(s, f->payload, f->len);
	if (done < 0)
		return (int)done;
	return (size_t)done == f->len
		       ? 0
		       : buf_append(&s->waiting, f->payload + done, f->len - (size_t)done);
}

int wire_socket_frame(struct wire_socket *s, const struct wire_frame *f)
{
	struct wire_credit m;

	switch (f->type) {
	case WIRE_DATA:
		return take_data(s, f);
	case WIRE_EOF:
		s->wire_end = true;
		return pass_end(s);
	case WIRE_CREDIT:
		if (wire_credit_decode(f, &m) < 0 || f->stream != s->to_wire)
			return -EBADMSG;
		return s->read_end ? 0 : wire_flow_credit(&s->out, m.bytes);
	default:
		return -EBADMSG;
	}
}

int wire_socket_watch(struct wire_socket *s, struct ev *ev, bool has_room)
{
	uint32_t want = (buf_len(&s->waiting) > 0 ? EPOLLOUT : 0u) |
			(has_room && wire_socket_may_read(s) ? EPOLLIN : 0u);

	if (!want && s->shut) {
		ev_io_remove(ev, &s->io);
		return 0;
	}
	if (!s->io.added)
		return ev_io_add(ev, &s->io, want);
	return s->io.events == want ? 0 : ev_io_set(ev, &s->io, want);
}
