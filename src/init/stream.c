/*
 * One output stream; see stream.h.
 *
 * A stream is in one of three places: watched by the loop (it has credit and there is room on the
 * link), waiting for room, or asleep without credit. Asleep it is taken out of the loop
 * altogether, because a hung-up pipe would wake an epoll that asks for nothing. Bytes are read
 * straight into the link's queue behind the space for their header, and never more than there is
 * credit for.
 *
 * The first reads are small: most commands say little, and a small buffer stays small.
 */
#include "init/stream.h"

#include "base/fd.h"
#include "base/limits.h"
#include "init/job.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { CHUNK_FIRST = 4096 };

enum got {
	GOT_BYTES,
	GOT_NOTHING, /* for now */
	GOT_END,
};

static void sleep_stream(struct out_stream *s)
{
	ev_io_remove(s->ev, &s->io);
	init_wait_room_cancel(init_of_link(s->link), &s->room);
}

/* Puts it where it belongs. */
static void place_stream(struct out_stream *s)
{
	struct init *in = init_of_link(s->link);

	if (s->ended || s->flow.left == 0) {
		sleep_stream(s);
	} else if (!init_has_room(in)) {
		ev_io_remove(s->ev, &s->io);
		init_wait_room(in, &s->room);
	} else if (!s->io.added && ev_io_add(s->ev, &s->io, EPOLLIN) < 0) {
		init_broken(in, "no memory to watch an output stream");
	}
}

/* Without credit: is there anything that credit would be for? An end needs none and is taken. */
static bool has_more(struct out_stream *s)
{
	struct pollfd p = {.fd = s->io.fd, .events = POLLIN};

	if (poll(&p, 1, 0) <= 0)
		return false;
	if (p.revents & POLLIN)
		return true;
	out_stream_end(s);
	return false;
}

/* Takes every `hide` out of n bytes and returns how many are left. */
static size_t hide(const struct out_stream *s, uint8_t *p, size_t n)
{
	size_t len = s->hide ? strlen(s->hide) : 0;
	uint8_t *at = p, *end = p + n;

	while (len > 0 && (at = memmem(at, (size_t)(end - at), s->hide, len))) {
		memmove(at, at + len, (size_t)(end - at) - len);
		end -= len;
	}
	return (size_t)(end - p);
}

/* How many bytes at the end of a full read may be the beginning of a `hide`: the rest of it was
 * written at once and comes with the next read, for which there must be credit. */
static size_t count_held(const struct out_stream *s, const uint8_t *p, size_t n)
{
	size_t len = s->hide ? strlen(s->hide) : 0;
	size_t held = n < len ? n : len - (len > 0);

	if (s->flow.left < n + len)
		return 0;
	while (held > 0 && memcmp(p + n - held, s->hide, held) != 0)
		held--;
	return held;
}

/* n bytes are behind the space for their header, at `at`. */
static void send_data(struct out_stream *s, size_t at, size_t n)
{
	struct buf *out = &s->link->out;

	if (n == 0)
		return;
	buf_commit(out, WIRE_HEADER + n);
	wire_encode_end(out, at, WIRE_DATA, s->stream, s->id);
	wire_link_flush(s->link);
	s->flow.left -= (uint64_t)n;
	s->bytes += (uint64_t)n;
}

/* One read, one DATA frame. A queue that is full although room was asked for is a stuck link. */
static enum got read_once(struct out_stream *s)
{
	size_t room = s->chunk < s->flow.left ? s->chunk : (size_t)s->flow.left;
	struct buf *out = &s->link->out;
	size_t at = buf_len(out), held = s->held, all;
	uint8_t *p = buf_reserve(out, WIRE_HEADER + room);
	ssize_t n;

	if (!p) {
		init_broken(init_of_link(s->link), "no room for output");
		return GOT_END;
	}
	p += WIRE_HEADER;
	if (held > 0)
		memcpy(p, s->hide, held);
	do {
		n = read(s->io.fd, p + held, room - held);
	} while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		return GOT_END; /* a terminal ends with EIO, a pipe with 0 */
	if (n < 0) {
		s->held = 0;
		send_data(s, at, held);
		return GOT_NOTHING;
	}
	all = held + (size_t)n;
	s->chunk = all == s->chunk ? WIRE_DATA_MAX : CHUNK_FIRST;
	n = (ssize_t)hide(s, p, all);
	s->held = all == room ? count_held(s, p, (size_t)n) : 0;
	send_data(s, at, (size_t)n - s->held);
	return GOT_BYTES;
}

static void on_readable(struct ev_io *io, uint32_t events)
{
	struct out_stream *s = container(io, struct out_stream, io);

	if (read_once(s) != GOT_END) {
		place_stream(s);
		return;
	}
	out_stream_end(s);
	if (s->on_end)
		s->on_end(s);
	else
		init_job_on_stream(s);
}

static void on_room(struct room_wait *w)
{
	struct out_stream *s = container(w, struct out_stream, room);

	place_stream(s);
	init_job_on_stream(s);
}

int out_stream_start(struct out_stream *s, struct ev *ev, struct wire_link *link, int fd,
		     uint32_t id, uint8_t stream)
{
	int r;

	s->ev = ev;
	s->link = link;
	s->io = (struct ev_io){.on_event = on_readable, .fd = fd};
	s->room = (struct room_wait){.on_room = on_room};
	s->id = id;
	s->stream = stream;
	s->bytes = 0;
	s->chunk = CHUNK_FIRST;
	s->drained = 0;
	s->held = 0;
	s->ended = false;
	wire_flow_init(&s->flow);
	r = ev_io_add(ev, &s->io, EPOLLIN);
	if (r < 0) {
		s->ended = true;
		fd_close(&s->io.fd);
	}
	return r;
}

void out_stream_done(struct out_stream *s)
{
	if (!s->ev || s->ended)
		return;
	s->ended = true;
	sleep_stream(s);
	fd_close(&s->io.fd);
}

void out_stream_end(struct out_stream *s)
{
	if (!s->ev || s->ended)
		return;
	out_stream_done(s);
	if (s->held > 0 &&
	    wire_link_send(s->link, WIRE_DATA, s->stream, s->id, s->hide, s->held) < 0)
		init_broken(init_of_link(s->link), "no room for output");
	s->bytes += s->held;
	s->held = 0;
	if (wire_encode(&s->link->out, WIRE_EOF, s->stream, s->id, NULL, 0) < 0)
		init_broken(init_of_link(s->link), "no room for an end of output");
}

void out_stream_credit(struct out_stream *s, uint64_t bytes)
{
	if (!s->ev || s->ended)
		return;
	if (wire_flow_credit(&s->flow, bytes) < 0)
		init_broken(init_of_link(s->link), "more credit than a window");
	else
		place_stream(s);
}

bool out_stream_drain(struct out_stream *s)
{
	struct init *in = init_of_link(s->link);
	enum got got = GOT_BYTES;

	while (s->ev && !s->ended && got == GOT_BYTES && s->drained < INIT_DRAIN_BYTES) {
		uint64_t before = s->bytes;

		if (s->flow.left == 0 || !init_has_room(in)) {
			place_stream(s);
			return has_more(s);
		}
		got = read_once(s);
		s->drained += (uint32_t)(s->bytes - before);
	}
	if (got == GOT_END)
		out_stream_end(s);
	else if (s->ev)
		place_stream(s);
	return false;
}
