/*
 * The resolver in a box: questions come in datagrams or over TCP, and the door is asked (NAME)
 * which names may be used; see net.h for what is answered.
 *
 *	question -> at once: localhost, types that have no answers, what cannot be read
 *	         -> asker of an ask (one per name, however many ask for it) -> OK, ERROR or time
 *	            -> an answer for each asker
 *
 * An ask is bounded in time and in number. While there is no room for another one datagrams stay in
 * their socket, which drops what does not fit, and askers try again as with any resolver. Over TCP
 * one question is in work per connection: the next one is read when it was answered.
 *
 * No question goes anywhere but to the door, and only as a name: type, id and flags stay here.
 */
#include "base/dns.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/net_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* That there is no such name is not to be remembered: it may have been denied, and be allowed
 * now. */
enum { TTL_S = 30, TTL_NONE_S = 0, TURN_MAX = 32, ANSWER_MAX = 512 };

struct dns_conn {
	struct stub *stub;
	struct ev_io io; /* io.fd is owned */
	struct ev_timer idle;
	struct asker *asker; /* borrowed; its question is being asked */
	size_t got;	     /* bytes of what is being read: length, then question */
	size_t put, put_len; /* bytes of the answer that were written, and are there */
	uint8_t out[2 + ANSWER_MAX];
	uint8_t in[2 + DNS_MESSAGE_MAX];
};

/* Somebody who waits for an answer. */
struct asker {
	struct asker *next;
	struct dns_question q;
	struct sockaddr_in from; /* of a datagram */
	struct dns_conn *conn;	 /* or the connection; NULL if it went away meanwhile */
	bool tcp;
};

struct init_ask {
	struct init_ask *next;
	struct stub *stub;
	struct ev_timer timer;
	uint32_t id;
	struct asker *askers; /* owned */
	char name[DNS_NAME_MAX + 1];
};

struct stub {
	struct init_net *net;
	struct init *in;
	struct names *names;   /* borrowed */
	struct ev_io udp, tcp; /* descriptors owned; -1: none */
	struct init_ask *asks; /* owned */
	unsigned ask_count, asker_count, conn_count;
};

static void conn_close(struct dns_conn *c);
static void conn_send(struct dns_conn *c, const uint8_t *p, size_t n);

/* ---- answers ---- */

static void answer(struct stub *s, const struct asker *a, enum dns_code code, const uint8_t *addr)
{
	uint8_t out[ANSWER_MAX], addrs[1][16] = {{0}};
	int n;

	if (addr)
		memcpy(addrs[0], addr, a->q.type == DNS_A ? 4 : 16);
	n = dns_answer_format(&a->q, code, (const uint8_t(*)[16])addrs, addr ? 1 : 0,
			      addr ? TTL_S : TTL_NONE_S, out, sizeof(out));
	if (n < 0)
		return;
	if (!a->tcp)
		/* A datagram that cannot be sent now is lost, as datagrams are. */
		sendto(s->udp.fd, out, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (const struct sockaddr *)&a->from, sizeof(a->from));
	else if (a->conn)
		conn_send(a->conn, out, (size_t)n);
}

/* ---- asks ---- */

static bool is_full(const struct stub *s)
{
	return s->ask_count >= INIT_ASKED_MAX || s->asker_count >= INIT_ASKERS_MAX;
}

static struct init_ask *find_ask(const struct stub *s, uint32_t id)
{
	struct init_ask *a = s->asks;

	while (a && a->id != id)
		a = a->next;
	return a;
}

bool stub_has(const struct stub *s, uint32_t id)
{
	return find_ask(s, id) != NULL;
}

/* Whoever could not be heard can be now. */
static void listen_again(struct stub *s)
{
	if (s->udp.fd >= 0 && !s->udp.added && !is_full(s) &&
	    ev_io_add(s->in->ev, &s->udp, EPOLLIN) < 0)
		init_broken(s->in, "no memory to watch the resolver's socket");
	if (s->tcp.fd >= 0 && !s->tcp.added && s->conn_count < INIT_DNS_TCP_MAX &&
	    ev_io_add(s->in->ev, &s->tcp, EPOLLIN) < 0)
		init_broken(s->in, "no memory to watch the resolver's socket");
}

/* Answers everybody. It is taken out first: an answer may bring the next question. */
static void end_ask(struct init_ask *k, enum dns_code code)
{
	struct stub *s = k->stub;
	struct init_ask **at = &s->asks;
	struct asker *a;
	uint32_t addr;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	s->ask_count--;
	ev_timer_stop(s->in->ev, &k->timer);
	while ((a = k->askers)) {
		k->askers = a->next;
		s->asker_count--;
		if (a->conn)
			a->conn->asker = NULL;
		if (code != DNS_OK || a->q.type != DNS_A) {
			answer(s, a, code, NULL); /* a name has no address of another type */
		} else if (names_give(s->names, a->q.name, ev_now(s->in->ev), &addr) < 0) {
			answer(s, a, DNS_SERVFAIL, NULL);
		} else {
			addr = htonl(addr);
			answer(s, a, DNS_OK, (const uint8_t *)&addr);
		}
		free(a);
	}
	free(k);
	listen_again(s);
}

static void on_ask_timer(struct ev_timer *t)
{
	struct init_ask *k = container(t, struct init_ask, timer);

	if (wire_link_send(&k->stub->in->link, WIRE_CANCEL, 0, k->id, NULL, 0) < 0)
		init_broken(k->stub->in, "no room to take a question back");
	end_ask(k, DNS_SERVFAIL);
}

static struct init_ask *begin_ask(struct stub *s, const char *name)
{
	struct init_ask *k = calloc(1, sizeof(*k));
	struct wire_name m = {.name = name};

	if (!k)
		return NULL;
	k->stub = s;
	k->id = init_net_id(s->net);
	k->timer.on_timer = on_ask_timer;
	str_copy(k->name, sizeof(k->name), name);
	if (wire_name_encode(&s->in->link.out, k->id, 0, &m) < 0) {
		free(k);
		return NULL;
	}
	wire_link_flush(&s->in->link);
	ev_timer_set(s->in->ev, &k->timer, INIT_ASK_MS);
	k->next = s->asks;
	s->asks = k;
	s->ask_count++;
	return k;
}

/* Joins an ask for its name. A copy of the asker waits. */
static int wait_for_name(struct stub *s, const struct asker *a)
{
	struct asker *copy;
	struct init_ask *k = s->asks;

	if (s->asker_count >= INIT_ASKERS_MAX)
		return -ENOBUFS;
	while (k && strcmp(k->name, a->q.name) != 0)
		k = k->next;
	if (!k && is_full(s))
		return -ENOBUFS;
	copy = malloc(sizeof(*copy));
	if (copy && !k)
		k = begin_ask(s, a->q.name);
	if (!copy || !k) {
		free(copy);
		return -ENOMEM;
	}
	*copy = *a;
	copy->next = k->askers;
	k->askers = copy;
	s->asker_count++;
	if (copy->conn)
		copy->conn->asker = copy;
	return 0;
}

/* One question, from wherever; *a says from where. */
static void on_question(struct stub *s, struct asker *a, const uint8_t *p, size_t n)
{
	static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
	int r = dns_question_parse(&a->q, p, n);
	const char *last;

	if (r == -EBADMSG && a->conn)
		conn_close(a->conn);
	else if (r < 0 && r != -EBADMSG)
		answer(s, a, r == -EOPNOTSUPP ? DNS_NOTIMP : DNS_FORMERR, NULL);
	if (r < 0)
		return;
	last = strrchr(a->q.name, '.');
	if ((a->q.type != DNS_A && a->q.type != DNS_AAAA) || !a->q.name[0])
		answer(s, a, DNS_OK, NULL);
	else if (strcmp(last ? last + 1 : a->q.name, "localhost") == 0)
		answer(s, a, DNS_OK, a->q.type == DNS_A ? v4 : v6);
	else if (wait_for_name(s, a) < 0)
		answer(s, a, DNS_SERVFAIL, NULL);
}

bool stub_frame(struct stub *s, const struct wire_frame *f)
{
	struct init_ask *k = find_ask(s, f->id);
	struct wire_error m;

	if (!k)
		return false;
	if (f->type == WIRE_OK)
		end_ask(k, DNS_OK);
	else if (f->type == WIRE_CANCEL)
		end_ask(k, DNS_SERVFAIL);
	else if (f->type == WIRE_ERROR)
		/* Programs believe at once that there is no such name; they try again for minutes
		 * where a server only says that it will not answer. */
		end_ask(k, wire_error_decode(f, &m) == 0 &&
					   (m.kind == ERR_DENIED || m.kind == ERR_NOT_FOUND)
				   ? DNS_NXDOMAIN
				   : DNS_SERVFAIL);
	return true;
}

static void on_datagrams(struct ev_io *io, uint32_t events)
{
	struct stub *s = container(io, struct stub, udp);
	uint8_t in[DNS_MESSAGE_MAX];

	for (int i = 0; i < TURN_MAX && !is_full(s); i++) {
		struct asker a = {0};
		socklen_t len = sizeof(a.from);
		ssize_t n = recvfrom(io->fd, in, sizeof(in), MSG_DONTWAIT | MSG_TRUNC,
				     (struct sockaddr *)&a.from, &len);

		if (n < 0 && errno == EAGAIN)
			return;
		/* An earlier answer that was not received fails here; the next read goes on. */
		if (n >= 0 && (size_t)n <= sizeof(in) && len == sizeof(a.from))
			on_question(s, &a, in, (size_t)n);
	}
	if (is_full(s))
		ev_io_remove(s->in->ev, &s->udp);
}

/* ---- over TCP ---- */

static void conn_close(struct dns_conn *c)
{
	struct stub *s = c->stub;

	if (c->asker)
		c->asker->conn = NULL;
	ev_timer_stop(s->in->ev, &c->idle);
	ev_io_remove(s->in->ev, &c->io);
	fd_close(&c->io.fd);
	free(c);
	s->conn_count--;
	listen_again(s);
}

/* Reads exactly the length, then exactly the question. 1 when it is whole, 0 later, -1 at the
 * end, or where it is longer than any question. */
static int conn_read(struct dns_conn *c)
{
	for (;;) {
		size_t need = c->got < 2 ? 2 : 2u + (size_t)(c->in[0] << 8 | c->in[1]);
		ssize_t n;

		if (need > sizeof(c->in))
			return -1;
		if (c->got >= 2 && c->got == need)
			return 1;
		n = recv(c->io.fd, c->in + c->got, need - c->got, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		c->got += (size_t)n;
	}
}

static void conn_watch(struct dns_conn *c, uint32_t events)
{
	struct ev *ev = c->stub->in->ev;
	int r = c->io.added ? ev_io_set(ev, &c->io, events) : ev_io_add(ev, &c->io, events);

	ev_timer_set(ev, &c->idle, INIT_DNS_TCP_MS);
	if (r < 0)
		conn_close(c);
}

static void conn_write(struct dns_conn *c)
{
	while (c->put < c->put_len) {
		ssize_t n = send(c->io.fd, c->out + c->put, c->put_len - c->put,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			conn_close(c);
			return;
		}
		if (n < 0)
			break;
		c->put += (size_t)n;
	}
	conn_watch(c, c->put < c->put_len ? EPOLLOUT : EPOLLIN);
}

static void conn_send(struct dns_conn *c, const uint8_t *p, size_t n)
{
	c->out[0] = (uint8_t)(n >> 8);
	c->out[1] = (uint8_t)n;
	memcpy(c->out + 2, p, n);
	c->put = 0;
	c->put_len = 2 + n;
	conn_write(c);
}

/* Nothing is read until this question was answered, which brings it back into the loop. */
static void on_conn(struct ev_io *io, uint32_t events)
{
	struct dns_conn *c = container(io, struct dns_conn, io);
	struct stub *s = c->stub;
	struct asker a = {.conn = c, .tcp = true};
	int r;

	if (io->events & EPOLLOUT) {
		conn_write(c);
		return;
	}
	r = conn_read(c);
	if (r < 0) {
		conn_close(c);
	} else if (r > 0) {
		size_t n = c->got - 2;

		c->got = 0;
		ev_io_remove(s->in->ev, io);
		ev_timer_stop(s->in->ev, &c->idle);
		on_question(s, &a, c->in + 2, n);
	}
}

static void on_idle(struct ev_timer *t)
{
	conn_close(container(t, struct dns_conn, idle));
}

static void on_accept(struct ev_io *io, uint32_t events)
{
	struct stub *s = container(io, struct stub, tcp);
	autoclose int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct dns_conn *c = fd < 0 ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return;
	c->stub = s;
	c->io = (struct ev_io){.on_event = on_conn, .fd = take_fd(fd)};
	c->idle.on_timer = on_idle;
	if (++s->conn_count >= INIT_DNS_TCP_MAX)
		ev_io_remove(s->in->ev, io);
	conn_watch(c, EPOLLIN);
}

int stub_new(struct init_net *net, struct init *in, struct names *names, const int fds[2],
	     struct stub **ret)
{
	struct stub *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->net = net;
	s->in = in;
	s->names = names;
	s->udp = (struct ev_io){.on_event = on_datagrams, .fd = fds[0]};
	s->tcp = (struct ev_io){.on_event = on_accept, .fd = fds[1]};
	listen_again(s);
	*ret = s;
	return 0;
}
