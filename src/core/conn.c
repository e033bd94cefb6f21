/* A client's connection to a keeper; see conn.h. */
#include "core/conn.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"
#include "wire/msg.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int conn_new(int fd, struct conn **ret, struct err *e)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return err_errno(e, ENOMEM, "make a connection");
	}
	c->fd = fd;
	c->claim_fd = -1;
	fd_set_send_room(fd, WIRE_SOCKET_BYTES);
	wire_decoder_init(&c->decoder);
	buf_init(&c->out, WIRE_OUT_MAX);
	*ret = c;
	return 0;
}

void conn_free(struct conn *c)
{
	if (!c)
		return;
	fd_close(&c->fd);
	fd_close(&c->claim_fd);
	wire_decoder_done(&c->decoder);
	buf_done(&c->out);
	free(c);
}

/* A state directory may lie deeper than the 107 bytes a socket address holds; a descriptor's own
 * name is always short. */
static int connect_below(int sock, int run_fd, const char *box)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int n = snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s/keeper.sock",
			 run_fd, box);

	if (n < 0 || (size_t)n >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	while (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int conn_connect(int run_fd, const char *box, struct conn **ret, struct err *e)
{
	autoclose int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r;

	if (sock < 0)
		return err_errno(e, errno, "make a socket");
	r = connect_below(sock, run_fd, box);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		err_set(e, ERR_CONFLICT, ENOTCONN, "box '%s' is not running", box);
		return r;
	}
	if (r < 0)
		return err_errno(e, -r, "connect to the keeper of box '%s'", box);
	return conn_new(take_fd(sock), ret, e);
}

bool conn_is_dead(const struct conn *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};

	return c->broken || (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)));
}

uint32_t conn_id(struct conn *c)
{
	/* 0 means the connection itself. */
	if (++c->last_id == 0)
		c->last_id = 1;
	return c->last_id;
}

static int fail_gone(struct conn *c, struct err *e)
{
	c->broken = true;
	if (!c->ready)
		return err_set(e, ERR_INTERRUPTED, ECONNRESET,
			       "the box's keeper ended before the box was up");
	return err_set(e, ERR_INTERRUPTED, ECONNRESET,
		       "the box ended before it answered; what was under way there is interrupted");
}

int conn_flush(struct conn *c, struct err *e)
{
	while (buf_len(&c->out) > 0) {
		ssize_t n = send(c->fd, buf_data(&c->out), buf_len(&c->out), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		/* What the keeper said before it went may still be there to read: its reason. */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			buf_clear(&c->out);
			return 0;
		}
		if (n < 0) {
			c->broken = true;
			return err_errno(e, errno, "write to the box's keeper");
		}
		buf_consume(&c->out, (size_t)n);
	}
	return 0;
}

/* 1 when bytes came, 0 when the time passed. */
static int read_more(struct conn *c, int timeout_ms, struct err *e)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	size_t room = 0;
	uint8_t *space = wire_decoder_space(&c->decoder, &room);
	ssize_t n;
	int r;

	if (!space)
		return err_errno(e, ENOMEM, "read from the box's keeper");
	for (;;) {
		n = recv(c->fd, space, room, timeout_ms < 0 ? 0 : MSG_DONTWAIT);
		if (n > 0) {
			wire_decoder_fill(&c->decoder, (size_t)n);
			return 1;
		}
		if (n == 0 || errno == ECONNRESET)
			return fail_gone(c, e);
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN) {
			c->broken = true;
			return err_errno(e, errno, "read from the box's keeper");
		}
		if (timeout_ms == 0)
			return 0;
		r = poll(&p, 1, timeout_ms);
		if (r == 0)
			return 0;
	}
}

static int fail_protocol(struct conn *c, struct err *e)
{
	c->broken = true;
	return err_set(e, ERR_PROTOCOL, EPROTO, "the box's keeper broke the protocol");
}

/* The sentence may have been written inside the box, so it is made safe to print. */
static int take_error(struct conn *c, const struct wire_frame *f, struct err *e)
{
	struct wire_error m;
	char shown[sizeof(e->msg)];
	enum err_kind kind;
	int code;

	if (wire_error_decode(f, &m) < 0)
		return fail_protocol(c, e);
	kind = m.kind > ERR_NONE && m.kind < ERR_KIND_COUNT ? (enum err_kind)m.kind : ERR_INTERNAL;
	code = m.code > 0 && m.code < 4096 ? (int)m.code : EIO;
	core_show(shown, sizeof(shown), m.msg ? m.msg : "no reason was given");
	if (e)
		*e = (struct err){.kind = kind, .code = code};
	if (e)
		memcpy(e->msg, shown, sizeof(e->msg));
	return -code;
}

/* 1: a frame of a request; 0: it was for the connection and is dealt with. */
static int sort_frame(struct conn *c, const struct wire_frame *f, struct err *e)
{
	struct wire_hello hello;

	if (f->id != 0)
		return 1;
	if (f->type == WIRE_ERROR) {
		c->broken = true;
		return take_error(c, f, e);
	}
	if (f->type != WIRE_HELLO || c->ready || wire_hello_decode(f, &hello) < 0)
		return fail_protocol(c, e);
	if (hello.version != WIRE_VERSION) {
		c->broken = true;
		return err_set(e, ERR_UNSUPPORTED, EPROTO,
			       "the box runs under another version of Cove; restart it (cove stop, "
			       "cove start)");
	}
	c->ready = true;
	fd_close(&c->claim_fd);
	return 0;
}

static int wait_left(uint64_t deadline_ms)
{
	uint64_t now = clock_mono_ms();

	return now >= deadline_ms ? 0 : (int)(deadline_ms - now);
}

/* One frame of any request, or 0; with hello, 0 also as soon as HELLO came. */
static int next_frame(struct conn *c, int timeout_ms, bool hello, struct wire_frame *ret,
		      struct err *e)
{
	uint64_t deadline = timeout_ms > 0 ? clock_mono_ms() + (uint64_t)timeout_ms : 0;
	int r;

	for (;;) {
		r = wire_decoder_next(&c->decoder, ret);
		if (r < 0)
			return fail_protocol(c, e);
		if (r > 0) {
			r = sort_frame(c, ret, e);
			if (r != 0 || (hello && c->ready))
				return r;
			continue;
		}
		r = read_more(c, timeout_ms > 0 ? wait_left(deadline) : timeout_ms, e);
		if (r <= 0)
			return r;
	}
}

int conn_hello(struct conn *c, int timeout_ms, struct err *e)
{
	struct wire_frame f;
	int r;

	if (c->ready)
		return 0;
	r = next_frame(c, timeout_ms, true, &f, e);
	if (r < 0 || c->ready)
		return r < 0 ? r : 0;
	if (r > 0)
		return fail_protocol(c, e);
	return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the box did not come up in %d s",
		       timeout_ms / 1000);
}

int conn_next(struct conn *c, uint32_t id, int timeout_ms, struct wire_frame *ret, struct err *e)
{
	int r;

	do {
		r = next_frame(c, timeout_ms, false, ret, e);
		if (r <= 0)
			return r;
	} while (ret->id != id);
	return ret->type == WIRE_ERROR ? take_error(c, ret, e) : 1;
}

int conn_wait_ok(struct conn *c, uint32_t id, int timeout_ms, struct err *e)
{
	struct wire_frame f;
	int r = conn_next(c, id, timeout_ms, &f, e);

	if (r == 0)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the box's keeper did not answer in %d s",
			       timeout_ms / 1000);
	if (r < 0)
		return r;
	return f.type == WIRE_OK ? 0 : conn_unexpected(c, &f, e);
}

void conn_cancel(struct conn *c, uint32_t id)
{
	if (wire_encode(&c->out, WIRE_CANCEL, 0, id, NULL, 0) < 0)
		c->broken = true;
}

int conn_unexpected(struct conn *c, const struct wire_frame *f, struct err *e)
{
	c->broken = true;
	return err_set(e, ERR_PROTOCOL, EPROTO,
		       "the box's keeper sent a frame of type %d out of turn", (int)f->type);
}
