/*
 * Connections that something in the box makes; see net.h.
 *
 *	accept -> where was it going? -> whose is it? -> CONNECT(id) -> conn.c: bytes both ways
 *	                                                  OK: nothing to do, bytes flow anyway
 *	                                                  ERROR: reset
 *
 * Bytes go to the door as they come, without waiting for OK: it holds them within the window. A
 * connection that went nowhere in particular (to the redirect's own port, to a synthetic address
 * that was never given out) is reset here.
 *
 * At INIT_CONNS_MAX, or half of the descriptors that init may have, the listeners are left alone
 * until a connection ends: clients wait in the kernel's queue.
 */
#include "init/net.h"

#include "base/fd.h"
#include "base/limits.h"
#include "init/net_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { ORIGINAL_DST = 80, TURN_MAX = 32, RETRY_MS = 100, LISTENERS = 3 };

struct init_listener {
	struct init_net *net;
	struct ev_io io; /* io.fd is owned; -1: none */
	bool proxy;
};

struct init_net {
	struct init *in;
	struct init_listener listeners[LISTENERS];
	struct init_conn_table conns;
	unsigned conns_max;
	uint32_t last_id;
	struct ev_timer retry; /* after the kernel had no descriptor for us */
	struct names names;
	struct owner owner;
	struct stub *stub; /* owned */
};

uint32_t init_net_id(struct init_net *net)
{
	uint32_t id;

	do {
		id = WIRE_NET_BIT | (++net->last_id & (WIRE_NET_BIT - 1));
	} while (init_conn_find(&net->conns, id) || stub_has(net->stub, id));
	return id;
}

static void listen_again(struct init_net *net)
{
	for (int i = 0; i < LISTENERS && net->conns.count < net->conns_max; i++) {
		struct ev_io *io = &net->listeners[i].io;

		if (io->fd >= 0 && !io->added && ev_io_add(net->in->ev, io, EPOLLIN) < 0)
			init_broken(net->in, "no memory to watch the network's sockets");
	}
}

static void listen_no_more(struct init_net *net)
{
	for (int i = 0; i < LISTENERS; i++)
		ev_io_remove(net->in->ev, &net->listeners[i].io);
}

static void on_retry(struct ev_timer *t)
{
	listen_again(container(t, struct init_net, retry));
}

static void on_over(struct init_conn *c)
{
	struct init_net *net = c->in->net;

	init_conn_remove(&net->conns, c);
	if (c->name_addr)
		names_release(&net->names, c->name_addr, ev_now(net->in->ev));
	free(c);
	listen_again(net);
}

static void reset(int fd)
{
	static const struct linger now = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

/* Takes fd. name_addr: synthetic, or 0. */
static void begin(struct init_net *net, int fd, uint32_t name_addr, struct wire_connect *m)
{
	struct init_conn *c = calloc(1, sizeof(*c));
	struct init *in = net->in;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (!c) {
		reset(fd);
		return;
	}
	c->on_over = on_over;
	if (init_conn_init(c, in, fd, init_net_id(net), false) < 0) {
		free(c);
		return;
	}
	init_conn_add(&net->conns, c);
	c->name_addr = name_addr;
	if (name_addr)
		names_hold(&net->names, name_addr);
	if (wire_connect_encode(&in->link.out, c->s.id, 0, m) < 0)
		init_broken(in, "no room for a connection");
	wire_link_flush(&in->link);
}

/* Where a redirected connection was going. */
static int original_aim(int fd, sa_family_t family, union net_addr *ret)
{
	socklen_t len = sizeof(*ret);
	int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
	struct sockaddr_in v4 = {.sin_family = AF_INET};

	memset(ret, 0, sizeof(*ret));
	if (getsockopt(fd, level, ORIGINAL_DST, ret, &len) < 0)
		return -errno;
	/* An IPv4 address in the clothes of an IPv6 one is what it is. */
	if (ret->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&ret->v6.sin6_addr)) {
		v4.sin_port = ret->v6.sin6_port;
		memcpy(&v4.sin_addr, ret->v6.sin6_addr.s6_addr + 12, 4);
		ret->v4 = v4;
	}
	return 0;
}

/* The name or address that is meant, and the port. Loopback is what came here by itself. */
static int aim_text(const struct init_net *net, const union net_addr *a, char *text, size_t size,
		    struct wire_connect *m, uint32_t *ret_name_addr)
{
	uint32_t v4;

	m->host = text;
	if (a->any.sa_family == AF_INET6) {
		m->port = ntohs(a->v6.sin6_port);
		if (IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr))
			return -EHOSTUNREACH;
		return inet_ntop(AF_INET6, &a->v6.sin6_addr, text, (socklen_t)size) ? 0 : -errno;
	}
	m->port = ntohs(a->v4.sin_port);
	v4 = ntohl(a->v4.sin_addr.s_addr);
	if (v4 >> 24 == 127)
		return -EHOSTUNREACH;
	if (names_is_synthetic(v4)) {
		m->host = names_find(&net->names, v4);
		*ret_name_addr = v4;
		return m->host ? 0 : -EHOSTUNREACH;
	}
	return inet_ntop(AF_INET, &a->v4.sin_addr, text, (socklen_t)size) ? 0 : -errno;
}

static void on_connection(struct init_listener *l, int fd, union net_addr *from)
{
	struct init_net *net = l->net;
	struct wire_connect m = {.proxy = l->proxy};
	char text[INET6_ADDRSTRLEN];
	union net_addr aim;
	socklen_t len = sizeof(aim);
	uint32_t name_addr = 0;
	int r;

	if (l->proxy) {
		memset(&aim, 0, sizeof(aim));
		r = getsockname(fd, &aim.any, &len) < 0 ? -errno : 0;
	} else {
		r = original_aim(fd, from->any.sa_family, &aim);
		if (r == 0)
			r = aim_text(net, &aim, text, sizeof(text), &m, &name_addr);
	}
	if (r < 0) {
		reset(fd);
		return;
	}
	m.exec_id = owner_find(&net->owner, from, &aim);
	begin(net, fd, name_addr, &m);
}

static void on_accept(struct ev_io *io, uint32_t events)
{
	struct init_listener *l = container(io, struct init_listener, io);
	struct init_net *net = l->net;

	for (int i = 0; i < TURN_MAX && net->conns.count < net->conns_max; i++) {
		union net_addr from;
		socklen_t len = sizeof(from);
		int fd = accept4(io->fd, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			on_connection(l, fd, &from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			listen_no_more(net);
			ev_timer_set(net->in->ev, &net->retry, RETRY_MS);
		}
		return;
	}
	if (net->conns.count >= net->conns_max)
		listen_no_more(net);
}

bool init_net_frame(struct init *in, const struct wire_frame *f)
{
	struct init_net *net = in->net;
	struct init_conn *c = net ? init_conn_find(&net->conns, f->id) : NULL;

	if (!c)
		return net && stub_frame(net->stub, f);
	if (f->type == WIRE_ERROR) {
		init_conn_done(c);
		on_over(c);
	} else {
		init_conn_frame(c, f);
	}
	return true;
}

int init_net_new(struct init *in, const struct net_fds *fds, struct init_net **ret)
{
	const int listeners[LISTENERS] = {fds->redirect4, fds->redirect6, fds->proxy};
	struct init_net *net = calloc(1, sizeof(*net));
	struct rlimit files;
	int r;

	if (!net)
		return -ENOMEM;
	net->in = in;
	net->conns_max = INIT_CONNS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < INIT_CONNS_MAX)
		net->conns_max = files.rlim_cur < 4 ? 1 : (unsigned)files.rlim_cur / 2;
	net->retry.on_timer = on_retry;
	net->owner = (struct owner){.diag_fd = fds->diag, .work_fd = in->groups.fd[TREE_V2]};
	names_init(&net->names, INIT_NAMES_MAX);
	r = stub_new(net, in, &net->names, (const int[2]){fds->dns, fds->dns_tcp}, &net->stub);
	for (int i = 0; i < LISTENERS; i++) {
		net->listeners[i] = (struct init_listener){
			.net = net,
			.io = {.on_event = on_accept, .fd = listeners[i]},
			.proxy = i == LISTENERS - 1,
		};
	}
	*ret = net;
	if (r == 0)
		listen_again(net);
	return r;
}
