/* One POST; see post.h. */
#include "server/post.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/url.h"
#include "core/core.h"
#include "ev/ev.h"
#include "http/http.h"
#include "net/channel_tcp.h"
#include "net/host.h"
#include "net/tls.h"
#include "server/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct poster {
	struct tls *tls; /* owned; made when it is needed */
	struct tcp_room room;
};

struct addresses {
	struct {
		int family;
		uint8_t addr[16];
	} at[POST_ADDRESSES_MAX];
	size_t count;
};

struct posting {
	struct ev *ev; /* owned */
	struct poster *poster;
	const struct url *to;
	const struct addresses *addresses;
	size_t next;	    /* of them: the one after the one that is dialled */
	struct channel *ch; /* owned; NULL before it is there */
	struct ev_timer timer, dial;
	struct ev_io cancel;
	struct buf out, in;
	bool is_connected;
	unsigned status;
	int r;
	struct err *e;
};

int poster_new(struct poster **ret, struct err *e)
{
	struct poster *p = calloc(1, sizeof(*p));

	if (!p)
		return err_errno(e, ENOMEM, "begin to send");
	tcp_room_init(&p->room);
	*ret = p;
	return 0;
}

void poster_free(struct poster *p)
{
	if (!p)
		return;
	tls_free(p->tls);
	free(p);
}

/* ---- where to ---- */

/* The host's own addresses are read anew by each who checks: one at a time. */
static const char *refused(int family, const uint8_t *addr)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const char *why;

	pthread_mutex_lock(&lock);
	(void)addr_own_load(); /* without them everything is refused */
	why = addr_refused(family, addr);
	pthread_mutex_unlock(&lock);
	return why;
}

static int add_address(struct addresses *a, const struct addrinfo *i, const struct post *q,
		       const struct url *u, struct err *e)
{
	const void *addr =
		i->ai_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)(const void *)i->ai_addr)
				  ->sin_addr
			: (const void *)&((const struct sockaddr_in6 *)(const void *)i->ai_addr)
				  ->sin6_addr;
	const char *why;

	if ((i->ai_family != AF_INET && i->ai_family != AF_INET6) || a->count == POST_ADDRESSES_MAX)
		return 0;
	memcpy(a->at[a->count].addr, addr, i->ai_family == AF_INET ? 4 : 16);
	why = q->only_public ? refused(i->ai_family, a->at[a->count].addr) : NULL;
	/* A name with one good and one bad address is not to be trusted with the good one. */
	if (why)
		return err_set(e, ERR_DENIED, EACCES,
			       "'%.100s' is %s: a key's webhooks are sent to "
			       "public addresses",
			       u->host, why);
	a->at[a->count++].family = i->ai_family;
	return 0;
}

/* For an address no server of names is asked. */
static int read_address(const struct host *h, struct addrinfo **ret, struct err *e)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	int r = getaddrinfo(h->text, NULL, &hints, ret);

	return r != 0 ? err_set(e, ERR_NOT_FOUND, EHOSTUNREACH, "'%.100s': %s", h->text,
				gai_strerror(r))
		      : 0;
}

static int look_up(struct addresses *a, const struct post *q, const struct url *u,
		   uint64_t until_ms, struct err *e)
{
	struct addrinfo *list = NULL;
	struct host h;
	int r;

	if (host_parse(&h, u->host) < 0)
		return err_set(e, ERR_INVALID, EINVAL, "'%.100s' is no host", u->host);
	r = h.is_address ? read_address(&h, &list, e)
			 : lookup_run(h.text, until_ms, q->cancel_fd, &list, e);
	if (r < 0)
		return r;
	for (const struct addrinfo *i = list; i && r == 0; i = i->ai_next)
		r = i->ai_socktype == SOCK_STREAM ? add_address(a, i, q, u, e) : 0;
	freeaddrinfo(list);
	if (r == 0 && a->count == 0)
		return err_set(e, ERR_NOT_FOUND, EHOSTUNREACH, "'%.100s' has no address", h.text);
	return r;
}

/* ---- the exchange ---- */

static void end(struct posting *p, int r)
{
	p->r = r;
	channel_want(p->ch, 0);
	ev_quit(p->ev);
}

static void fail(struct posting *p, int r, const char *what)
{
	if (p->ch && p->ch->error.kind != ERR_NONE)
		*p->e = p->ch->error;
	else
		err_errno(p->e, -r, "%s '%.100s'", what, p->to->host);
	end(p, r);
}

static void read_answer(struct posting *p)
{
	const struct http_limits limits = {.head_max = POST_ANSWER_MAX, .fields_max = 100};
	struct http_head head = {0};
	size_t used = 0;
	uint8_t *to = buf_reserve(&p->in, 4096);
	ssize_t n = to ? channel_read(p->ch, to, 4096) : -EMSGSIZE;
	int r;

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		fail(p, n < 0 ? (int)n : -ECONNRESET, "no answer of");
		return;
	}
	buf_commit(&p->in, (size_t)n);
	do {
		r = http_response_parse(&head, buf_data(&p->in), buf_len(&p->in), &limits, false,
					&used, p->e);
		p->status = r > 0 ? head.status : 0;
		http_head_done(&head);
		if (r > 0)
			buf_consume(&p->in, used);
	} while (p->status >= 100 && p->status < 200); /* the answer is yet to come */
	if (r != 0)
		end(p, r < 0 ? r : 0);
}

static void write_request(struct posting *p)
{
	while (buf_len(&p->out) > 0) {
		ssize_t n = channel_write(p->ch, buf_data(&p->out), buf_len(&p->out));

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			fail(p, (int)n, "cannot send to");
			return;
		}
		buf_consume(&p->out, (size_t)n);
	}
	channel_want(p->ch, CHANNEL_IN);
}

static void on_ready(struct channel *ch, unsigned what);

/* The next address; the last one may take all the time that is left. */
static int dial(struct posting *p)
{
	const struct addresses *a = p->addresses;
	int r = -EHOSTUNREACH;

	channel_free(take_ptr(p->ch), true);
	ev_timer_stop(p->ev, &p->dial);
	while (p->next < a->count && !p->ch) {
		size_t i = p->next++;
		const struct tcp_address to = {a->at[i].family, a->at[i].addr, p->to->port};

		r = channel_tcp_connect(&p->ch, p->ev, &p->poster->room, &to);
	}
	if (!p->ch)
		return r;
	p->ch->owner = p;
	p->ch->on_ready = on_ready;
	channel_want(p->ch, CHANNEL_OUT);
	if (p->next < a->count)
		ev_timer_set(p->ev, &p->dial, POST_DIAL_MS);
	return 0;
}

static void dial_failed(struct posting *p, int r)
{
	if (dial(p) == 0)
		return;
	p->r = err_errno(p->e, -r, "connect to '%.100s'", p->to->host);
	ev_quit(p->ev);
}

static void on_dial_time(struct ev_timer *t)
{
	dial_failed(container(t, struct posting, dial), -ETIMEDOUT);
}

/* Over the connection that is there. */
static int begin_tls(struct posting *p)
{
	const struct tls_upstream to = {.host = p->to->host, .port = p->to->port};
	int r = p->poster->tls ? 0 : tls_new(&p->poster->tls, NULL, p->e);

	if (r < 0)
		return r;
	p->ch = channel_tls_connect(p->poster->tls, p->ev, p->ch, &to, p->e);
	if (!p->ch)
		return -ECONNABORTED;
	p->ch->owner = p;
	p->ch->on_ready = on_ready;
	channel_want(p->ch, CHANNEL_OUT | CHANNEL_IN);
	return 0;
}

static void connected(struct posting *p)
{
	p->is_connected = true;
	ev_timer_stop(p->ev, &p->dial);
	p->r = p->to->is_tls ? begin_tls(p) : 0;
	if (p->r < 0)
		ev_quit(p->ev);
}

static void on_ready(struct channel *ch, unsigned what)
{
	struct posting *p = ch->owner;

	if (!p->is_connected) {
		int r = channel_tcp_result(p->ch);

		/* What it is ready for then comes in the next turn. */
		if (r == 0)
			connected(p);
		else if (r != -EINPROGRESS)
			dial_failed(p, r);
		return;
	}
	if (buf_len(&p->out) > 0 && what & CHANNEL_OUT)
		write_request(p);
	else if (what & CHANNEL_IN)
		read_answer(p);
}

static void on_time(struct ev_timer *t)
{
	struct posting *p = container(t, struct posting, timer);

	p->r = err_set(p->e, ERR_TIMEOUT, ETIMEDOUT, "'%.100s' did not answer within %d s",
		       p->to->host, POST_MS / 1000);
	ev_quit(p->ev);
}

static void on_cancel(struct ev_io *io, uint32_t events)
{
	struct posting *p = container(io, struct posting, cancel);

	p->r = err_set(p->e, ERR_INTERRUPTED, ECANCELED, "the server ends");
	ev_quit(p->ev);
}

static int write_head(struct buf *out, const struct url *u, const struct post *q)
{
	bool is_v6 = strchr(u->host, ':');
	int r = buf_printf(out,
			   "POST %s%s HTTP/1.1\r\nHost: %s%s%s:%u\r\nUser-Agent: cove/%s\r\n"
			   "Content-Length: %zu\r\nConnection: close\r\n%s\r\n",
			   u->path[0] == '/' ? "" : "/", u->path, is_v6 ? "[" : "", u->host,
			   is_v6 ? "]" : "", u->port, cove_version(), q->len, q->fields);

	return r < 0 ? r : buf_append(out, q->body, q->len);
}

static int exchange(struct posting *p, uint64_t until_ms)
{
	uint64_t now_ms = clock_mono_ms();
	int r = dial(p);

	if (r < 0)
		return err_errno(p->e, -r, "connect to '%.100s'", p->to->host);
	ev_timer_set(p->ev, &p->timer, now_ms < until_ms ? until_ms - now_ms : 0);
	r = ev_run(p->ev);
	return r < 0 ? err_errno(p->e, -r, "send to '%.100s'", p->to->host) : p->r;
}

int post_send(struct poster *poster, const struct post *q, unsigned *ret_status, struct err *e)
{
	struct url u;
	struct addresses addresses = {0};
	struct posting p = {.poster = poster,
			    .to = &u,
			    .addresses = &addresses,
			    .timer.on_timer = on_time,
			    .dial.on_timer = on_dial_time,
			    .e = e};
	uint64_t until_ms = clock_mono_ms() + POST_MS;
	int r = url_parse(&u, q->url) < 0
			? err_set(e, ERR_INVALID, EINVAL, "'%.100s' is no URL", q->url)
			: look_up(&addresses, q, &u, until_ms, e);

	if (r < 0)
		return r;
	r = ev_new(&p.ev);
	if (r < 0)
		return err_errno(e, -r, "send to '%.100s'", u.host);
	buf_init(&p.out, q->len + 8192);
	buf_init(&p.in, POST_ANSWER_MAX);
	p.cancel = (struct ev_io){.on_event = on_cancel, .fd = q->cancel_fd};
	if (q->cancel_fd >= 0)
		r = ev_io_add(p.ev, &p.cancel, EPOLLIN);
	if (r == 0)
		r = write_head(&p.out, &u, q);
	r = r < 0 ? err_errno(e, -r, "send to '%.100s'", u.host) : exchange(&p, until_ms);
	ev_timer_stop(p.ev, &p.timer);
	ev_timer_stop(p.ev, &p.dial);
	if (q->cancel_fd >= 0)
		ev_io_remove(p.ev, &p.cancel);
	channel_free(p.ch, true);
	buf_done(&p.out);
	buf_done(&p.in);
	ev_free(p.ev);
	if (r == 0)
		*ret_status = p.status;
	return r;
}
