/*
 * Connections from the host to a port in the box; see net.h.
 *
 *	PORT(id) -> connect to 127.0.0.1, or if that is refused ::1 -> OK(id), bytes both ways
 *	                                                              ERROR(id)
 *
 * What comes before the connection is made waits in it.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "init/conn.h"
#include "init/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct port_table {
	struct init_conn_table conns;
};

struct init_port {
	struct init_conn conn;
	struct ev_io io; /* while it is being connected; the descriptor is conn's */
	uint16_t port;
	bool is_v6;
};

static void on_over(struct init_conn *c)
{
	struct init_port *p = container(c, struct init_port, conn);

	ev_io_remove(c->in->ev, &p->io);
	init_conn_remove(&c->in->ports->conns, c);
	free(p);
}

/* A socket on its way; its answer comes as EPOLLOUT. */
static int start_connect(bool is_v6, uint16_t port)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					.sin6_port = htons(port),
					.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	autoclose int fd =
		socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd < 0	? -1
		: is_v6 ? connect(fd, (const struct sockaddr *)&v6, sizeof(v6))
			: connect(fd, (const struct sockaddr *)&v4, sizeof(v4));

	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return take_fd(fd);
}

static void fail(struct init_port *p, int code)
{
	init_fail(p->conn.in, p->conn.s.id, code, "connect to port %u in the box: %s", p->port,
		  code == ECONNREFUSED ? "nobody listens there" : strerror(code));
	init_conn_done(&p->conn);
	on_over(&p->conn);
}

static void on_connected(struct ev_io *io, uint32_t events)
{
	struct init_port *p = container(io, struct init_port, io);
	struct init *in = p->conn.in;
	socklen_t len = sizeof(int);
	int code = 0, fd;

	if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	/* The other family, once; what IPv4 said is the better reason. */
	fd = code == 0 || p->is_v6 ? -1 : start_connect(true, p->port);
	if (fd >= 0) {
		p->is_v6 = true;
		ev_io_remove(in->ev, io);
		fd_close(&p->conn.s.io.fd);
		p->conn.s.io.fd = io->fd = fd;
		code = -ev_io_add(in->ev, io, EPOLLOUT);
		if (code == 0)
			return;
	}
	if (code != 0) {
		fail(p, code);
		return;
	}
	ev_io_remove(in->ev, io);
	if (wire_link_send(&in->link, WIRE_OK, 0, p->conn.s.id, NULL, 0) < 0)
		init_broken(in, "no room for an answer");
	init_conn_go(&p->conn);
}

void init_port_start(struct init *in, uint32_t id, const struct wire_port *m)
{
	struct init_port *p;
	int fd, other = -1, r;

	if (m->port == 0 || m->port > UINT16_MAX) {
		init_fail(in, id, EINVAL, "%llu is no port", (unsigned long long)m->port);
		return;
	}
	if (!in->ports)
		in->ports = calloc(1, sizeof(*in->ports));
	if (!in->ports || in->ports->conns.count >= INIT_PORTS_MAX) {
		init_fail(in, id, EMFILE, "more than %u connections to ports of the box at once",
			  INIT_PORTS_MAX);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		init_fail(in, id, ENOMEM, "connect to a port in the box");
		return;
	}
	p->port = (uint16_t)m->port;
	/* Refused at once is possible on the loopback: then the other family comes at once too. */
	fd = start_connect(false, p->port);
	if (fd < 0)
		other = start_connect(true, p->port);
	if (other >= 0)
		fd = other;
	p->is_v6 = other >= 0;
	p->conn.on_over = on_over;
	p->io = (struct ev_io){.on_event = on_connected, .fd = fd};
	r = init_conn_init(&p->conn, in, fd, id, true);
	if (fd < 0)
		r = fd;
	init_conn_add(&in->ports->conns, &p->conn);
	if (r == 0)
		r = ev_io_add(in->ev, &p->io, EPOLLOUT);
	if (r < 0)
		fail(p, -r);
}

bool init_port_frame(struct init *in, const struct wire_frame *f)
{
	struct init_conn *c = in->ports ? init_conn_find(&in->ports->conns, f->id) : NULL;

	if (c)
		init_conn_frame(c, f);
	return c != NULL;
}
