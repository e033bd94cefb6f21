/*
 * A channel over a TCP socket; see channel_tcp.h.
 *
 * The loop's own level-triggered interest is what channel.h promises. A socket that hung up is
 * reported by the kernel whether it is waited for or not, so it is taken out of the loop while
 * nothing is wanted of it.
 */
#include "net/channel_tcp.h"

#include "base/fd.h"
#include "base/limits.h"
#include "net/host.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct tcp {
	struct channel channel;
	struct ev *ev;
	struct ev_io io;
	int fd;		       /* owned */
	struct tcp_room *room; /* borrowed; it has one of the wide ones. NULL: it has not */
	bool connecting;
};

static struct tcp *tcp_of(struct channel *c)
{
	return container(c, struct tcp, channel);
}

static ssize_t tcp_read(struct channel *c, void *p, size_t n)
{
	ssize_t r = recv(tcp_of(c)->fd, p, n, 0);

	if (r >= 0)
		return r;
	return errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t tcp_write(struct channel *c, const void *p, size_t n)
{
	ssize_t r = send(tcp_of(c)->fd, p, n, MSG_NOSIGNAL);

	if (r >= 0)
		return r;
	return errno == EINTR ? -EAGAIN : -errno;
}

static int tcp_finish(struct channel *c)
{
	return shutdown(tcp_of(c)->fd, SHUT_WR) < 0 && errno != ENOTCONN ? -errno : 0;
}

static void tcp_want(struct channel *c, unsigned what)
{
	struct tcp *t = tcp_of(c);
	uint32_t events = (what & CHANNEL_IN ? EPOLLIN : 0u) | (what & CHANNEL_OUT ? EPOLLOUT : 0u);
	int r = 0;

	if (events == 0)
		ev_io_remove(t->ev, &t->io);
	else if (!t->io.added)
		r = ev_io_add(t->ev, &t->io, events);
	else if (t->io.events != events)
		r = ev_io_set(t->ev, &t->io, events);
	/* Without a place in the loop it would wait for ever: the other side is let go instead,
	 * and the owner's own time-out finds it. */
	if (r < 0)
		shutdown(t->fd, SHUT_RDWR);
}

static void tcp_free(struct channel *c, bool abort)
{
	struct tcp *t = tcp_of(c);
	struct linger cut = {.l_onoff = 1};

	ev_io_remove(t->ev, &t->io);
	if (t->room)
		t->room->wide--;
	if (abort)
		setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &cut, sizeof(cut));
	fd_close(&t->fd);
	free(t);
}

static const struct channel_ops tcp_ops = {
	.read = tcp_read,
	.write = tcp_write,
	.finish = tcp_finish,
	.want = tcp_want,
	.free = tcp_free,
};

static void on_event(struct ev_io *io, uint32_t events)
{
	struct channel *c = &container(io, struct tcp, io)->channel;
	unsigned what = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		what |= CHANNEL_IN;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		what |= CHANNEL_OUT;
	what &= c->wanted;
	if (what && c->on_ready)
		c->on_ready(c, what);
	else if (!what)
		ev_io_remove(container(io, struct tcp, io)->ev, io);
}

int channel_tcp_take(struct channel **ret, struct ev *ev, int fd)
{
	struct tcp *t = calloc(1, sizeof(*t));
	int one = 1;

	if (!t) {
		close(fd);
		return -ENOMEM;
	}
	t->channel.ops = &tcp_ops;
	t->ev = ev;
	t->fd = fd;
	t->io = (struct ev_io){.on_event = on_event, .fd = fd};
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*ret = &t->channel;
	return 0;
}

/* ---- what the kernel may hold ---- */

/* The third number of tcp_rmem or tcp_wmem: how far the kernel goes by itself. */
static uint64_t tuned_max(const char *path)
{
	autofree char *text = NULL;
	unsigned long long max = 0;

	if (fd_read_file(AT_FDCWD, path, 256, &text, NULL) < 0 ||
	    sscanf(text, "%*u %*u %llu", &max) != 1 || max == 0)
		return DOOR_TCP_WIDE;
	return max;
}

void tcp_room_init(struct tcp_room *r)
{
	uint64_t one =
		tuned_max("/proc/sys/net/ipv4/tcp_rmem") + tuned_max("/proc/sys/net/ipv4/tcp_wmem");

	*r = (struct tcp_room){.wide_max = (unsigned)(DOOR_TCP_WIDE / one)};
	if (r->wide_max == 0)
		r->wide_max = 1; /* a door with one connection may be fast on any host */
}

int channel_tcp_connect(struct channel **ret, struct ev *ev, struct tcp_room *room,
			const struct tcp_address *to)
{
	struct sockaddr_storage address;
	socklen_t len = addr_socket(&address, to->family, to->addr, to->port);
	bool is_wide = room->wide < room->wide_max, connecting;
	autoclose int fd = socket(to->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r, bytes = DOOR_TCP_NARROW;

	/* Before it connects, so that no larger window is ever offered. */
	if (fd < 0 ||
	    (!is_wide && (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) < 0 ||
			  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) < 0)))
		return -errno;
	r = connect(fd, (struct sockaddr *)&address, len);
	connecting = r < 0;
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	r = channel_tcp_take(ret, ev, take_fd(fd));
	if (r < 0)
		return r;
	tcp_of(*ret)->connecting = connecting;
	if (is_wide) {
		tcp_of(*ret)->room = room;
		room->wide++;
	}
	return 0;
}

int channel_tcp_result(struct channel *c)
{
	struct tcp *t = tcp_of(c);
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	int error = 0;
	socklen_t size = sizeof(error);

	if (!t->connecting)
		return 0;
	if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		return -errno;
	if (error)
		return -error;
	if (getpeername(t->fd, (struct sockaddr *)&peer, &len) < 0)
		return errno == ENOTCONN ? -EINPROGRESS : -errno;
	t->connecting = false;
	return 0;
}
