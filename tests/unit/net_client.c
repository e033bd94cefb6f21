/* A keeper and a door for tests; see net_client.h. */
#include "net_client.h"

#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

enum { WAIT_MS = 60000, IN_MAX = 64 << 20 };

struct rig *rig_start_with(const struct rig_fds *fds)
{
	struct inherited inherited = {.count = fds->count};
	struct rig *r = calloc(1, sizeof(*r));
	int pair[2];

	CHECK(r != NULL);
	memcpy(inherited.fd, fds->fd, sizeof(inherited.fd));
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	r->fd = pair[0];
	wire_decoder_init(&r->decoder);
	buf_init(&r->out, WIRE_OUT_MAX);
	r->pid = init_spawn(pair[1], pair[1], &inherited, fds->option);
	fd_set_nonblock(r->fd, true);
	while (!r->said_hello)
		rig_pump(r, -1, false);
	return r;
}

/* On a port that was free, or on *ret_port; -1 if that is taken. */
static int bind_local(int family, int type, uint16_t *ret_port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool is4 = family == AF_INET;
	struct sockaddr *at = is4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t len = is4 ? sizeof(v4) : sizeof(v6);
	int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	v4.sin_port = v6.sin6_port = htons(*ret_port);
	CHECK(fd >= 0);
	if (bind(fd, at, len) < 0) {
		CHECK_EQ(errno, EADDRINUSE);
		close(fd);
		return -1;
	}
	if (type == SOCK_STREAM)
		CHECK_EQ(listen(fd, 2048), 0);
	CHECK_EQ(getsockname(fd, at, &len), 0);
	*ret_port = ntohs(is4 ? v4.sin_port : v6.sin6_port);
	return fd;
}

int tcp_listen(int family, uint16_t *ret_port)
{
	int fd = bind_local(family, SOCK_STREAM, ret_port);

	CHECK(fd >= 0);
	return fd;
}

/* Both on one port, which others on this host may be using for either. */
static void bind_resolver(int *ret_udp, int *ret_tcp, uint16_t *ret_port)
{
	for (int i = 0; i < 1000; i++) {
		*ret_port = 0;
		*ret_tcp = bind_local(AF_INET, SOCK_STREAM, ret_port);
		CHECK(*ret_tcp >= 0);
		*ret_udp = bind_local(AF_INET, SOCK_DGRAM, ret_port);
		if (*ret_udp >= 0)
			return;
		close(*ret_tcp);
	}
	FAIL("no port is free for TCP and UDP");
}

struct rig *rig_start(void)
{
	uint16_t proxy = 0, dns = 0;
	struct rig_fds fds = {.count = 3};
	struct rig *r;

	fds.fd[0] = tcp_listen(AF_INET, &proxy);
	fds.option[0] = "--net-proxy";
	bind_resolver(&fds.fd[1], &fds.fd[2], &dns);
	fds.option[1] = "--net-dns";
	fds.option[2] = "--net-dns-tcp";
	r = rig_start_with(&fds);
	for (unsigned i = 0; i < fds.count; i++)
		close(fds.fd[i]);
	r->proxy_port = proxy;
	r->dns_port = dns;
	return r;
}

void rig_stop(struct rig *r)
{
	int status;

	fd_close(&r->fd);
	CHECK_EQ(waitpid(r->pid, &status, 0), r->pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	wire_decoder_done(&r->decoder);
	buf_done(&r->out);
	for (unsigned i = 0; i < r->count; i++) {
		buf_done(&r->ways[i]->in);
		free(r->ways[i]);
	}
	free(r);
}

static struct way *find_way(struct rig *r, uint32_t id)
{
	for (unsigned i = r->count; i > 0; i--)
		if (r->ways[i - 1]->id == id)
			return r->ways[i - 1];
	return NULL;
}

static struct way *add_way(struct rig *r, uint32_t id, enum wire_type type)
{
	struct way *w = calloc(1, sizeof(*w));

	CHECK(w && r->count < WAYS_MAX);
	w->id = id;
	w->type = type;
	w->hold_credit = r->hold_credit;
	wire_flow_init_net(&w->out);
	wire_flow_init_net(&w->back);
	buf_init(&w->in, IN_MAX);
	r->ways[r->count++] = w;
	return w;
}

static void on_begin(struct rig *r, const struct wire_frame *f)
{
	struct way *w = add_way(r, f->id, f->type);
	struct wire_connect m;
	struct wire_name name;

	CHECK_EQ(f->id >> 30, 1);
	if (f->type == WIRE_NAME) {
		CHECK_EQ(wire_name_decode(f, &name), 0);
		str_copy(w->host, sizeof(w->host), name.name);
		return;
	}
	CHECK_EQ(wire_connect_decode(f, &m), 0);
	CHECK(m.proxy ? !m.host : m.host && m.port);
	str_copy(w->host, sizeof(w->host), m.host ? m.host : "");
	w->port = m.port;
	w->proxy = m.proxy;
	w->exec_id = m.exec_id;
}

static void on_data(struct rig *r, struct way *w, const struct wire_frame *f)
{
	uint64_t give;

	CHECK(f->stream == WIRE_STDOUT && !w->eof && !w->cancelled);
	CHECK(f->len > 0 && f->len <= w->back.left);
	w->back.left -= f->len;
	CHECK_EQ(buf_append(&w->in, f->payload, f->len), 0);
	give = w->hold_credit ? 0 : wire_flow_took(&w->back, f->len);
	if (give) {
		w->back.left += give;
		way_credit(r, w, WIRE_STDOUT, give);
	}
}

static void on_frame(struct rig *r, const struct wire_frame *f)
{
	struct way *w;
	struct wire_credit credit;
	struct wire_error error;

	if (f->type == WIRE_HELLO) {
		r->said_hello = true;
		return;
	}
	if (f->type == WIRE_NAME || f->type == WIRE_CONNECT) {
		on_begin(r, f);
		return;
	}
	w = find_way(r, f->id);
	CHECK(w != NULL);
	if (f->type == WIRE_DATA) {
		on_data(r, w, f);
	} else if (f->type == WIRE_EOF) {
		CHECK(f->stream == WIRE_STDOUT && !w->eof);
		w->eof = true;
	} else if (f->type == WIRE_CANCEL) {
		w->cancelled = true;
	} else if (f->type == WIRE_OK) {
		w->ok = true;
	} else if (f->type == WIRE_ERROR) {
		CHECK_EQ(wire_error_decode(f, &error), 0);
		w->failed = true;
		w->error_kind = error.kind;
	} else {
		CHECK(f->type == WIRE_CREDIT && f->stream == WIRE_STDIN);
		CHECK_EQ(wire_credit_decode(f, &credit), 0);
		CHECK_EQ(wire_flow_credit(&w->out, credit.bytes), 0);
	}
}

static void read_link(struct rig *r)
{
	struct wire_frame f;
	size_t room;
	uint8_t *p = wire_decoder_space(&r->decoder, &room);
	ssize_t n = recv(r->fd, p, room, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		r->closed = true;
		return;
	}
	wire_decoder_fill(&r->decoder, (size_t)n);
	while (wire_decoder_next(&r->decoder, &f) > 0)
		on_frame(r, &f);
}

static void write_link(struct rig *r)
{
	while (buf_len(&r->out) > 0) {
		ssize_t n = send(r->fd, buf_data(&r->out), buf_len(&r->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n <= 0)
			return;
		buf_consume(&r->out, (size_t)n);
	}
}

void rig_pump(struct rig *r, int fd, bool write)
{
	struct pollfd p[2] = {{.fd = r->fd, .events = POLLIN},
			      {.fd = fd, .events = write ? POLLOUT : POLLIN}};

	write_link(r);
	if (buf_len(&r->out) > 0)
		p[0].events |= POLLOUT;
	CHECK(poll(p, fd < 0 ? 1 : 2, WAIT_MS) > 0);
	if (p[0].revents & (POLLIN | POLLHUP))
		read_link(r);
	if (fd < 0)
		CHECK(!r->closed);
	write_link(r);
}

void rig_flush(struct rig *r)
{
	while (buf_len(&r->out) > 0)
		rig_pump(r, -1, false);
}

struct way *rig_way(struct rig *r, unsigned n)
{
	while (r->count <= n)
		rig_pump(r, -1, false);
	return r->ways[n];
}

struct way *rig_port(struct rig *r, uint64_t port)
{
	struct wire_port m = {.port = port};
	struct way *w = add_way(r, 0x80000000u | r->count, WIRE_PORT);

	CHECK_EQ(wire_port_encode(&r->out, w->id, 0, &m), 0);
	rig_flush(r);
	return w;
}

void way_frame(struct rig *r, struct way *w, enum wire_type type, uint8_t stream, const void *p,
	       size_t n)
{
	CHECK_EQ(wire_encode(&r->out, type, stream, w->id, p, n), 0);
	write_link(r);
}

void way_ok(struct rig *r, struct way *w)
{
	way_frame(r, w, WIRE_OK, 0, NULL, 0);
}

void way_error(struct rig *r, struct way *w, int kind)
{
	struct wire_error m = {.kind = (uint64_t)kind, .code = EACCES, .msg = "no"};

	CHECK_EQ(wire_error_encode(&r->out, w->id, 0, &m), 0);
	write_link(r);
}

void way_credit(struct rig *r, struct way *w, uint8_t stream, uint64_t bytes)
{
	struct wire_credit m = {.bytes = bytes};

	CHECK_EQ(wire_credit_encode(&r->out, w->id, stream, &m), 0);
	write_link(r);
}

void way_send(struct rig *r, struct way *w, const void *p, size_t n)
{
	while (n > 0) {
		size_t now = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;

		while (w->out.left == 0)
			rig_pump(r, -1, false);
		now = now < w->out.left ? now : (size_t)w->out.left;
		w->out.left -= now;
		way_frame(r, w, WIRE_DATA, WIRE_STDIN, p, now);
		rig_flush(r);
		p = (const uint8_t *)p + now;
		n -= now;
	}
}

void way_wait_bytes(struct rig *r, struct way *w, size_t n)
{
	while (buf_len(&w->in) < n)
		rig_pump(r, -1, false);
}

void way_wait_eof(struct rig *r, struct way *w)
{
	while (!w->eof)
		rig_pump(r, -1, false);
}

void way_wait_cancel(struct rig *r, struct way *w)
{
	while (!w->cancelled)
		rig_pump(r, -1, false);
}

void way_wait_answer(struct rig *r, struct way *w)
{
	while (!w->ok && !w->failed)
		rig_pump(r, -1, false);
}

/* ---- the box's side ---- */

int tcp_connect(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

void tcp_write(struct rig *r, int fd, const void *p, size_t n)
{
	while (n > 0) {
		ssize_t now = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (now < 0) {
			CHECK_EQ(errno, EAGAIN);
			rig_pump(r, fd, true);
			continue;
		}
		p = (const uint8_t *)p + now;
		n -= (size_t)now;
	}
}

void tcp_read(struct rig *r, int fd, void *p, size_t n)
{
	while (n > 0) {
		ssize_t now = recv(fd, p, n, MSG_DONTWAIT);

		if (now < 0) {
			CHECK_EQ(errno, EAGAIN);
			rig_pump(r, fd, false);
			continue;
		}
		CHECK(now > 0);
		p = (uint8_t *)p + now;
		n -= (size_t)now;
	}
}

int tcp_next(struct rig *r, int fd)
{
	for (;;) {
		uint8_t byte;
		ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

		if (n >= 0)
			return (int)n;
		if (errno != EAGAIN)
			return -errno;
		rig_pump(r, fd, false);
	}
}

/* ---- questions ---- */

int dns_socket(const struct rig *r)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(r->dns_port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

void dns_ask(int fd, const char *name, uint16_t type, uint16_t id)
{
	struct dns_question q = {.id = id, .type = type, .recursion = true};
	uint8_t out[512];
	int n;

	str_copy(q.name, sizeof(q.name), name);
	n = dns_question_format(&q, out, sizeof(out));
	CHECK(n > 0);
	CHECK_EQ(send(fd, out, (size_t)n, 0), n);
}

enum dns_code dns_hear(struct rig *r, int fd, const char *name, uint16_t type, uint16_t id,
		       struct dns_answer *ret)
{
	struct dns_question q = {.id = id, .type = type, .recursion = true};
	uint8_t in[512];
	ssize_t n;

	str_copy(q.name, sizeof(q.name), name);
	while ((n = recv(fd, in, sizeof(in), MSG_DONTWAIT)) < 0) {
		CHECK_EQ(errno, EAGAIN);
		rig_pump(r, fd, false);
	}
	CHECK_EQ(dns_answer_parse(ret, &q, in, (size_t)n), 0);
	return ret->code;
}
