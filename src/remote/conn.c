/*
 * A connection to the server, used blockingly; see remote.h.
 *
 * How it works: the channel (a Unix or TCP socket, TLS above it) is asked first, and only where it
 * has nothing is the loop run until the channel is ready, the time is over, or the caller's cancel
 * descriptor is readable. The channel stays wanted for reading, so that the loop's descriptor
 * (ev_fd) is readable whenever something came: a caller of cove_exec_fd polls that.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "net/channel_tcp.h"
#include "remote/remote.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { READ_BYTES = 64 << 10, PAUSE_FIRST_MS = 20, PAUSE_MAX_MS = 1000 };

const char *remote_name(const struct cove *cove, char ret[300])
{
	const struct remote_host *h = &cove->host;

	if (h->path[0])
		snprintf(ret, 300, "unix:%s", h->path);
	else
		snprintf(ret, 300, "%s://%.200s", h->is_tls ? "https" : "http", h->authority);
	return ret;
}

bool remote_is_lost(int r)
{
	return r == -ECONNRESET;
}

/* ---- waiting ---- */

struct waiting {
	struct ev *ev;
	struct ev_timer timer;
	struct ev_io cancel;
	bool over;
};

static void on_late(struct ev_timer *t)
{
	struct waiting *w = container(t, struct waiting, timer);

	w->over = true;
	ev_quit(w->ev);
}

static void on_cancel(struct ev_io *io, uint32_t events)
{
	struct waiting *w = container(io, struct waiting, cancel);

	w->over = true;
	ev_quit(w->ev);
}

int remote_wait(struct ev *ev, int timeout_ms, int cancel_fd)
{
	struct waiting w = {.ev = ev, .timer.on_timer = on_late};
	int r = 0;

	if (timeout_ms >= 0)
		ev_timer_set(ev, &w.timer, (uint64_t)timeout_ms);
	w.cancel = (struct ev_io){.on_event = on_cancel, .fd = cancel_fd};
	if (cancel_fd > 0)
		r = ev_io_add(ev, &w.cancel, EPOLLIN);
	if (r == 0)
		r = ev_run(ev);
	ev_timer_stop(ev, &w.timer);
	ev_io_remove(ev, &w.cancel);
	return r < 0 ? r : w.over ? -EAGAIN : 0;
}

static void on_ready(struct channel *channel, unsigned what)
{
	struct remote_conn *c = channel->owner;

	c->ready |= what;
	ev_quit(c->ev);
}

static int left_of(uint64_t end_ms)
{
	uint64_t now = clock_mono_ms();

	return end_ms > now ? (int)(end_ms - now) : 0;
}

/* ---- connecting ---- */

static int connect_fd(int fd, const struct sockaddr *to, socklen_t len, int timeout_ms)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	int error = 0, n;
	socklen_t size = sizeof(error);

	if (connect(fd, to, len) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	do
		n = poll(&wait, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 ? -ETIMEDOUT : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		return -errno;
	return -error;
}

static int open_unix(const char *path, int timeout_ms, int *ret_fd)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && !str_copy(to.sun_path, sizeof(to.sun_path), path))
		r = -ENAMETOOLONG;
	if (r == 0)
		r = connect_fd(fd, (struct sockaddr *)&to, sizeof(to), timeout_ms);
	if (r == 0)
		*ret_fd = take_fd(fd);
	return r;
}

/* A host that went away is noticed, after some minutes. */
static void keep_alive(int fd)
{
	static const int options[][3] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
					 {IPPROTO_TCP, TCP_KEEPIDLE, 30},
					 {IPPROTO_TCP, TCP_KEEPINTVL, 15},
					 {IPPROTO_TCP, TCP_KEEPCNT, 6}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		(void)setsockopt(fd, options[i][0], options[i][1], &options[i][2], sizeof(int));
}

static int open_tcp(const struct remote_host *h, int timeout_ms, int *ret_fd, struct err *e)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	char port[8];
	int r;

	snprintf(port, sizeof(port), "%u", h->port);
	r = getaddrinfo(h->name, port, &hints, &list);
	if (r != 0)
		return err_set(e, ERR_NOT_FOUND, EHOSTUNREACH, "the server's host '%.150s': %s",
			       h->name, gai_strerror(r));
	r = -EHOSTUNREACH;
	for (const struct addrinfo *a = list; a && r < 0; a = a->ai_next) {
		autoclose int fd =
			socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		r = fd < 0 ? -errno : connect_fd(fd, a->ai_addr, a->ai_addrlen, timeout_ms);
		if (r == 0) {
			keep_alive(fd);
			*ret_fd = take_fd(fd);
		}
	}
	freeaddrinfo(list);
	return r;
}

static int begin_tls(struct cove *cove, struct remote_conn *c, struct err *e)
{
	const struct tls_upstream to = {
		.host = cove->host.name, .port = cove->host.port, .is_secret = true};
	int r = cove->tls ? 0 : tls_new(&cove->tls, NULL, e);

	if (r < 0)
		return r;
	c->channel = channel_tls_connect(cove->tls, c->ev, c->channel, &to, e);
	return c->channel ? 0 : -(e->code ? e->code : EIO);
}

/* Why the channel ended: its own sentence, where it has one. */
static int channel_failed(struct remote_conn *c, int r, const char *name, struct err *e)
{
	c->ended = true;
	if (r == -EKEYREJECTED) {
		*e = c->channel->error;
		e->kind = ERR_DENIED;
		err_prefix(e, "%.100s", name);
		return r;
	}
	if (c->channel->error.kind && r != -ECONNRESET && r != -EPIPE && r != -ETIMEDOUT) {
		*e = c->channel->error;
		err_prefix(e, "%.100s", name);
		return r == -EAGAIN ? -EPROTO : r;
	}
	err_set(e, ERR_INTERRUPTED, -r, "the connection to %.120s was lost", name);
	return -ECONNRESET;
}

/* The handshake. */
static int await_tls(struct remote_conn *c, int timeout_ms, const char *name, struct err *e)
{
	uint64_t end = clock_mono_ms() + (uint64_t)timeout_ms;
	uint8_t nothing;
	ssize_t n;
	int r;

	channel_want(c->channel, CHANNEL_IN | CHANNEL_OUT);
	while (!channel_tls_is_up(c->channel)) {
		n = channel_read(c->channel, &nothing, 0);
		if (n < 0 && n != -EAGAIN)
			return channel_failed(c, (int)n, name, e);
		if (channel_tls_is_up(c->channel))
			break;
		r = remote_wait(c->ev, left_of(end), 0);
		if (r == -EAGAIN)
			return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
				       "%.150s: the TLS handshake takes too long", name);
		if (r < 0)
			return err_errno(e, -r, "wait for the server");
	}
	return 0;
}

static int open_once(struct cove *cove, struct ev *ev, int timeout_ms, struct remote_conn **ret,
		     struct err *e)
{
	struct remote_conn *c;
	char name[300];
	int fd = -1, r;

	remote_name(cove, name);
	e->kind = ERR_NONE;
	if (cove->host.path[0])
		r = open_unix(cove->host.path, timeout_ms, &fd);
	else
		r = open_tcp(&cove->host, timeout_ms, &fd, e);
	if (r < 0 && e->kind == ERR_NONE)
		return err_set(e, ERR_INTERNAL, -r, "the server at %.150s (COVE_HOST)", name);
	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return err_errno(e, ENOMEM, "connect to the server");
	}
	c->ev = ev;
	buf_init(&c->in, REMOTE_IN_MAX);
	r = channel_tcp_take(&c->channel, ev, fd);
	if (r < 0)
		err_errno(e, -r, "connect to the server");
	if (r == 0 && cove->host.is_tls)
		r = begin_tls(cove, c, e);
	if (r == 0) {
		c->channel->owner = c;
		c->channel->on_ready = on_ready;
	}
	if (r == 0 && cove->host.is_tls)
		r = await_tls(c, timeout_ms, name, e);
	if (r < 0)
		remote_conn_free(c);
	else
		*ret = c;
	return r;
}

static bool may_come_back(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET || r == -ETIMEDOUT ||
	       r == -EAGAIN || r == -EHOSTUNREACH || r == -ENETUNREACH;
}

int remote_conn_open(struct cove *cove, struct ev *ev, int timeout_ms, struct remote_conn **ret,
		     struct err *e)
{
	uint64_t end = clock_mono_ms() + REMOTE_AWAY_MS;
	int pause = PAUSE_FIRST_MS, r;

	for (;;) {
		r = open_once(cove, ev, timeout_ms < 0 ? REMOTE_CONNECT_MS : timeout_ms, ret, e);
		if (r == 0 || !cove->reached || timeout_ms >= 0 || !may_come_back(r) ||
		    left_of(end) == 0)
			return r;
		(void)remote_wait(ev, pause, 0);
		pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
	}
}

void remote_conn_free(struct remote_conn *c)
{
	if (!c)
		return;
	channel_free(c->channel, false);
	buf_done(&c->in);
	free(c);
}

/* ---- reading and writing ---- */

static int lost(struct remote_conn *c, int r, struct err *e)
{
	return channel_failed(c, r, "the server", e);
}

/* What is there now, or -EAGAIN. */
static ssize_t read_some(struct remote_conn *c, struct err *e)
{
	size_t room = c->in.max - buf_len(&c->in);
	uint8_t *to = room ? buf_reserve(&c->in, room < READ_BYTES ? room : READ_BYTES) : NULL;
	ssize_t n;

	if (!to)
		return err_set(e, ERR_PROTOCOL, EMSGSIZE, "the server's answer is too long");
	n = channel_read(c->channel, to, room < READ_BYTES ? room : READ_BYTES);
	if (n > 0)
		buf_commit(&c->in, (size_t)n);
	if (n == 0)
		c->ended = true;
	return n < 0 && n != -EAGAIN ? lost(c, (int)n, e) : n;
}

ssize_t remote_conn_read(struct remote_conn *c, int timeout_ms, int cancel_fd, struct err *e)
{
	uint64_t end = timeout_ms < 0 ? 0 : clock_mono_ms() + (uint64_t)timeout_ms;
	ssize_t n;
	int r;

	for (;;) {
		n = c->ended ? 0 : read_some(c, e);
		if (n != -EAGAIN)
			return n;
		channel_want(c->channel, CHANNEL_IN | (c->channel->wanted & CHANNEL_OUT));
		c->ready = 0;
		r = remote_wait(c->ev, timeout_ms < 0 ? -1 : left_of(end), cancel_fd);
		if (c->ready == CHANNEL_OUT && c->out && buf_len(c->out) > 0) {
			/* That it cannot be sent any more shows when it is read. */
			if (remote_conn_flush(c, c->out) < 0)
				buf_clear(c->out);
			return -EAGAIN;
		}
		if (r == -EAGAIN && !(c->ready & CHANNEL_IN))
			return -EAGAIN;
		if (r < 0 && r != -EAGAIN)
			return err_errno(e, -r, "wait for the server");
	}
}

int remote_conn_flush(struct remote_conn *c, struct buf *out)
{
	while (buf_len(out) > 0) {
		ssize_t n = channel_write(c->channel, buf_data(out), buf_len(out));

		if (n == -EAGAIN)
			break;
		if (n < 0)
			return (int)n;
		buf_consume(out, (size_t)n);
	}
	channel_want(c->channel, CHANNEL_IN | (buf_len(out) > 0 ? CHANNEL_OUT : 0));
	return 0;
}

int remote_conn_write(struct remote_conn *c, const void *p, size_t n, struct err *e)
{
	const uint8_t *at = p;

	while (n > 0) {
		ssize_t took = channel_write(c->channel, at, n);
		int r;

		if (took > 0) {
			at += took;
			n -= (size_t)took;
		} else if (took == -EAGAIN) {
			channel_want(c->channel, CHANNEL_OUT);
			r = remote_wait(c->ev, REMOTE_STALL_MS, 0);
			if (r < 0)
				return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
					       "the server takes nothing any more");
		} else {
			return lost(c, (int)took, e);
		}
	}
	channel_want(c->channel, CHANNEL_IN);
	return 0;
}
