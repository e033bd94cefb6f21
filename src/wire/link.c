/*
 * A link; see link.h.
 *
 * Reading is level-triggered and takes one buffer per turn, then every whole frame in it. Writing
 * is tried once at the end of the turn; what does not fit waits for EPOLLOUT. The flag `gone` lives
 * on the stack of whoever calls back, so that a callback may free the link.
 *
 * Frames that are passed on are lent: while a link hands out what one read gave it, those that go
 * the same way and lie behind each other become one piece, which is written when all are handed
 * out. What the other side does not take then is copied to its queue, because the buffer is about
 * to be used again.
 */
#include "wire/link.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>

enum { LINK_KEEP = 16 << 10, LINK_IDLE_MS = 1000 };

static void stop_watching(struct wire_link *l)
{
	ev_io_remove(l->ev, &l->rio);
	ev_io_remove(l->ev, &l->wio);
	ev_defer_cancel(l->ev, &l->flush);
	ev_timer_stop(l->ev, &l->idle);
}

/* After each use: sees to it that a large buffer does not outlive the flood that needed it. */
static void watch_memory(struct wire_link *l)
{
	if (l->decoder.in.cap <= LINK_KEEP && l->out.cap <= LINK_KEEP)
		return;
	l->busy = true;
	if (!l->idle.armed)
		ev_timer_set(l->ev, &l->idle, LINK_IDLE_MS);
}

static void on_idle(struct ev_timer *t)
{
	struct wire_link *l = container(t, struct wire_link, idle);

	if (l->busy) {
		l->busy = false;
		ev_timer_set(l->ev, t, LINK_IDLE_MS);
		return;
	}
	wire_decoder_trim(&l->decoder);
	if (buf_len(&l->out) == 0)
		buf_done(&l->out);
}

static void fail(struct wire_link *l, int error)
{
	if (l->closed)
		return;
	l->closed = true;
	stop_watching(l);
	l->on_close(l, error);
}

static ssize_t write_some(struct wire_link *l, const uint8_t *p, size_t n)
{
	ssize_t r = l->rfd == l->wfd ? send(l->wfd, p, n, MSG_NOSIGNAL) : write(l->wfd, p, n);

	return r < 0 ? -errno : r;
}

/* Nothing is lent any more. */
static void take_back(struct wire_link *l)
{
	if (l->lender)
		l->lender->borrower = NULL;
	l->lender = NULL;
	l->lent = NULL;
	l->lent_len = 0;
}

/* What cannot be written now is for the flush that comes, and so is any failure. */
void wire_link_write_lent(struct wire_link *l)
{
	const uint8_t *p = l->lent;
	size_t n = l->lent_len;

	if (!l->lender)
		return;
	if (!l->closed && buf_len(&l->out) == 0) {
		ssize_t r = write_some(l, p, n);

		p += r > 0 ? r : 0;
		n -= r > 0 ? (size_t)r : 0;
	}
	if (n > 0 && !l->closed)
		l->lost = buf_append(&l->out, p, n);
	take_back(l);
	wire_link_flush(l);
}

int wire_link_pass(struct wire_link *l, struct wire_link *from, const struct wire_frame *f)
{
	const uint8_t *p = f->payload - WIRE_HEADER;
	size_t n = WIRE_HEADER + (size_t)f->len;

	if (l->lender && (l->lender != from || l->lent + l->lent_len != p))
		wire_link_write_lent(l);
	if (from->borrower && from->borrower != l)
		wire_link_write_lent(from->borrower);
	if (!l->lender && buf_len(&l->out) > 0) {
		int r = buf_append(&l->out, p, n);

		wire_link_flush(l);
		return r;
	}
	if (!l->lender)
		l->lent = p;
	l->lent_len += n;
	l->lender = from;
	from->borrower = l;
	return 0;
}

/* Hands out every whole frame. True if the link still stands. */
static bool deliver(struct wire_link *l)
{
	bool gone = false, *outer = l->gone;
	struct wire_frame f;
	int r = 0;

	l->gone = &gone;
	while (!l->paused && !l->held && !l->closed &&
	       (r = wire_decoder_next(&l->decoder, &f)) > 0) {
		l->on_frame(l, &f);
		if (gone) {
			if (outer)
				*outer = true;
			return false;
		}
		/* Before the decoder is asked again: its memory may go with its last frame. */
		if (l->borrower && wire_decoder_is_last(&l->decoder))
			wire_link_write_lent(l->borrower);
	}
	l->gone = outer;
	if (l->borrower)
		wire_link_write_lent(l->borrower);
	if (r < 0) {
		fail(l, r); /* which may free it */
		return false;
	}
	return !l->closed;
}

static void on_readable(struct ev_io *io, uint32_t events)
{
	struct wire_link *l = container(io, struct wire_link, rio);
	size_t room;
	uint8_t *p;
	ssize_t n;

	if (l->paused) {
		/* Paused and hung up: nothing will be read, so the end is now. */
		if (events & (EPOLLHUP | EPOLLERR))
			fail(l, 0);
		return;
	}
	p = wire_decoder_space(&l->decoder, &room);
	if (!p) {
		fail(l, -ENOMEM);
		return;
	}
	n = read(io->fd, p, room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fail(l, n < 0 && errno != ECONNRESET ? -errno : 0);
		return;
	}
	wire_decoder_fill(&l->decoder, (size_t)n);
	watch_memory(l);
	deliver(l);
}

/* Without a second epoll entry for the same descriptor: a socket's EPOLLOUT is asked for on rio. */
static void want_write(struct wire_link *l, bool on)
{
	if (l->rfd == l->wfd) {
		uint32_t in = l->paused ? 0 : EPOLLIN;

		ev_io_set(l->ev, &l->rio, in | (on ? EPOLLOUT : 0));
	} else if (on && !l->wio.added) {
		ev_io_add(l->ev, &l->wio, EPOLLOUT);
	} else if (!on) {
		ev_io_remove(l->ev, &l->wio);
	}
}

static void flush_now(struct wire_link *l)
{
	watch_memory(l);
	while (buf_len(&l->out) > 0) {
		size_t len = buf_len(&l->out);
		ssize_t n = write_some(l, buf_data(&l->out), len);

		if (n == -EINTR)
			continue;
		if (n < 0 && n != -EAGAIN) {
			fail(l, n == -EPIPE || n == -ECONNRESET ? 0 : (int)n);
			return;
		}
		if (n > 0)
			buf_consume(&l->out, (size_t)n);
		/* What was cut short found no more room: asking again would only say so. */
		if (n < (ssize_t)len) {
			want_write(l, true);
			return;
		}
	}
	want_write(l, false);
	if (l->on_drained)
		l->on_drained(l);
}

static void on_writable(struct ev_io *io, uint32_t events)
{
	flush_now(container(io, struct wire_link, wio));
}

static void on_socket(struct ev_io *io, uint32_t events)
{
	struct wire_link *l = container(io, struct wire_link, rio);
	bool gone = false, *outer = l->gone;

	l->gone = &gone;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		on_readable(io, events);
	if (gone) {
		if (outer)
			*outer = true;
		return;
	}
	l->gone = outer;
	if ((events & EPOLLOUT) && !l->closed)
		flush_now(l);
}

static void on_flush(struct ev_defer *d)
{
	struct wire_link *l = container(d, struct wire_link, flush);

	if (l->closed)
		return;
	if (l->lost < 0)
		fail(l, l->lost);
	else if (l->paused || deliver(l))
		flush_now(l);
}

int wire_link_init(struct wire_link *l, struct ev *ev, int rfd, int wfd)
{
	/* A socket of ours has no other flag that could be lost: one call. */
	int r = rfd != wfd			      ? fd_set_nonblock(rfd, true)
		: fcntl(rfd, F_SETFL, O_NONBLOCK) < 0 ? -errno
						      : 0;

	l->ev = ev;
	l->rfd = rfd;
	l->wfd = wfd;
	l->paused = l->closed = l->busy = l->held = false;
	l->gone = NULL;
	l->lent = NULL;
	l->lent_len = 0;
	l->lost = 0;
	l->lender = l->borrower = NULL;
	l->rio = (struct ev_io){.on_event = rfd == wfd ? on_socket : on_readable, .fd = rfd};
	l->wio = (struct ev_io){.on_event = on_writable, .fd = wfd};
	l->flush = (struct ev_defer){.on_defer = on_flush};
	l->idle = (struct ev_timer){.on_timer = on_idle};
	wire_decoder_init(&l->decoder);
	buf_init(&l->out, WIRE_OUT_MAX);
	if (r == 0 && wfd != rfd)
		r = fd_set_nonblock(wfd, true);
	if (wfd == rfd)
		fd_set_send_room(wfd, WIRE_SOCKET_BYTES);
	return r < 0 ? r : ev_io_add(ev, &l->rio, EPOLLIN);
}

void wire_link_done(struct wire_link *l)
{
	if (!l->ev)
		return;
	if (l->gone)
		*l->gone = true;
	if (l->borrower)
		wire_link_write_lent(l->borrower);
	take_back(l);
	stop_watching(l);
	if (l->wfd != l->rfd)
		fd_close(&l->wfd);
	fd_close(&l->rfd);
	wire_decoder_done(&l->decoder);
	buf_done(&l->out);
	l->ev = NULL;
}

void wire_link_flush(struct wire_link *l)
{
	if (!l->closed)
		ev_defer(l->ev, &l->flush);
}

void wire_link_push(struct wire_link *l)
{
	ssize_t n = 1;

	while (!l->closed && n > 0 && buf_len(&l->out) > 0) {
		n = write_some(l, buf_data(&l->out), buf_len(&l->out));
		if (n > 0)
			buf_consume(&l->out, (size_t)n);
	}
	wire_link_flush(l);
}

int wire_link_send(struct wire_link *l, enum wire_type type, uint8_t stream, uint32_t id,
		   const void *p, size_t n)
{
	int r = wire_encode(&l->out, type, stream, id, p, n);

	if (r == 0)
		wire_link_flush(l);
	return r;
}

void wire_link_pause(struct wire_link *l, bool on)
{
	if (l->paused == on || l->closed)
		return;
	l->paused = on;
	ev_io_set(l->ev, &l->rio, (on ? 0 : EPOLLIN) | (l->rio.events & EPOLLOUT));
	if (!on)
		ev_defer(l->ev, &l->flush); /* frames may wait in the decoder */
}

void wire_link_hold(struct wire_link *l, bool on)
{
	l->held = on;
	if (!on)
		wire_link_flush(l); /* frames may wait in the decoder */
}

size_t wire_link_queued(const struct wire_link *l)
{
	return buf_len(&l->out) + l->lent_len;
}

void wire_flow_init(struct wire_flow *f)
{
	*f = (struct wire_flow){.window = WIRE_WINDOW, .left = WIRE_WINDOW};
}

void wire_flow_init_net(struct wire_flow *f)
{
	*f = (struct wire_flow){.window = WIRE_NET_WINDOW, .left = WIRE_NET_WINDOW};
}

uint64_t wire_flow_took(struct wire_flow *f, uint64_t n)
{
	uint64_t give;

	f->pending += n;
	if (f->pending < f->window / 2)
		return 0;
	give = f->pending;
	f->pending = 0;
	return give;
}

int wire_flow_credit(struct wire_flow *f, uint64_t n)
{
	if (n > f->window || f->left > f->window - n)
		return -EBADMSG;
	f->left += n;
	return 0;
}
