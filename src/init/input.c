/* The input stream of a command; see input.h. */
#include "init/input.h"

#include "base/fd.h"
#include "base/limits.h"
#include "init/pty.h"

#include <errno.h>

static void give_credit(struct in_stream *s, size_t n)
{
	struct wire_credit m = {.bytes = wire_flow_took(&s->flow, n)};

	if (m.bytes == 0)
		return;
	if (wire_credit_encode(&s->link->out, s->id, WIRE_STDIN, &m) < 0)
		init_broken(init_of_link(s->link), "no room for credit");
	else
		wire_link_flush(s->link);
}

/* Nothing goes in any more; what was waiting is given back as if it had been read. */
static void close_input(struct in_stream *s)
{
	size_t n = buf_len(&s->waiting);

	ev_io_remove(s->ev, &s->io);
	fd_close(&s->io.fd);
	buf_done(&s->waiting);
	if (n > 0)
		give_credit(s, n);
}

/* Writes what it can. Returns the bytes taken; -1 once the other side is gone. */
static ssize_t write_some(struct in_stream *s, const uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = write(s->io.fd, p + done, n - done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			break;
		if (r <= 0)
			return -1;
		done += (size_t)r;
	}
	if (done > 0)
		s->last = p[done - 1];
	return (ssize_t)done;
}

static void finish(struct in_stream *s)
{
	if (s->tty)
		pty_type_eof(s->io.fd, s->last == '\n');
	else
		close_input(s);
	s->ending = false;
}

static void on_writable(struct ev_io *io, uint32_t events)
{
	struct in_stream *s = container(io, struct in_stream, io);
	ssize_t n = write_some(s, buf_data(&s->waiting), buf_len(&s->waiting));

	if (n < 0) {
		close_input(s);
		return;
	}
	buf_consume(&s->waiting, (size_t)n);
	give_credit(s, (size_t)n);
	if (buf_len(&s->waiting) > 0)
		return;
	ev_io_remove(s->ev, &s->io);
	if (s->ending)
		finish(s);
}

int in_stream_start(struct in_stream *s, struct wire_link *link, int fd, uint32_t id, bool tty)
{
	int r = fd < 0 ? 0 : fd_set_nonblock(fd, true);

	*s = (struct in_stream){
		.ev = link->ev,
		.link = link,
		.io = {.on_event = on_writable, .fd = fd},
		.id = id,
		.tty = tty,
		.last = '\n',
	};
	wire_flow_init(&s->flow);
	buf_init(&s->waiting, WIRE_WINDOW);
	if (r < 0)
		fd_close(&s->io.fd);
	return r;
}

int in_stream_adopt(struct in_stream *s, int fd)
{
	int r = fd < 0 ? -EBADF : fd_set_nonblock(fd, true);

	s->held = false;
	s->io.fd = fd;
	if (r == 0 && buf_len(&s->waiting) > 0)
		r = ev_io_add(s->ev, &s->io, EPOLLOUT);
	else if (r == 0 && s->ending)
		finish(s);
	if (r < 0)
		close_input(s);
	return r;
}

void in_stream_done(struct in_stream *s)
{
	if (!s->ev)
		return;
	s->held = false;
	ev_io_remove(s->ev, &s->io);
	fd_close(&s->io.fd);
	buf_done(&s->waiting);
}

void in_stream_data(struct in_stream *s, const uint8_t *p, size_t n)
{
	ssize_t done = 0;

	if ((s->io.fd < 0 && !s->held) || s->ending) {
		give_credit(s, n);
		return;
	}
	if (buf_len(&s->waiting) == 0 && !s->held)
		done = write_some(s, p, n);
	if (done < 0) {
		close_input(s);
		give_credit(s, n);
		return;
	}
	give_credit(s, (size_t)done);
	if ((size_t)done == n)
		return;
	if (buf_append(&s->waiting, p + done, n - (size_t)done) < 0 ||
	    (!s->held && !s->io.added && ev_io_add(s->ev, &s->io, EPOLLOUT) < 0))
		init_broken(init_of_link(s->link), "more input than a window");
}

void in_stream_eof(struct in_stream *s)
{
	if (s->io.fd < 0 && !s->held)
		return;
	if (s->held || buf_len(&s->waiting) > 0)
		s->ending = true;
	else
		finish(s);
}
