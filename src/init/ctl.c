/*
 * Requests of the box's own; see ctl.h.
 *
 *	accept -> a line, within INIT_CTL_MS -> CTL(id) -> the keeper's CTL(id) -> "ok" and the text
 *	                 \- what cannot be read ----------------------------------> "error ..."
 *
 * A connection says one line and nothing more. It is watched for its end while the keeper works,
 * and has INIT_CTL_MS again to read the answer.
 */
#include "init/ctl.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { BACKLOG = 64, SECOND_MS = 1000, RETRY_MS = 100 };

struct ctl_conn {
	struct init_ctl *ctl;
	struct ctl_conn *next;
	struct ev_io io; /* io.fd is owned */
	struct ev_timer timer;
	uint32_t id; /* 0 until it has asked */
	uint32_t uid;
	size_t got;
	char line[CTL_LINE_MAX];
	struct buf out; /* the answer */
};

struct init_ctl {
	struct init *in;
	struct ev_io listener;	/* its fd is owned */
	struct ctl_conn *conns; /* owned */
	unsigned count;
	unsigned second_count; /* accepted since second_ms */
	uint64_t second_ms;
	struct ev_timer wait; /* until the next may be accepted */
	uint32_t last_id;
};

static void listen_again(struct init_ctl *c)
{
	if (c->listener.added || c->wait.armed || c->count >= INIT_CTL_CONNS_MAX)
		return;
	if (ev_io_add(c->in->ev, &c->listener, EPOLLIN) < 0)
		init_broken(c->in, "no memory to watch the socket of cove-ctl");
}

static void listen_later(struct init_ctl *c, uint64_t ms)
{
	ev_io_remove(c->in->ev, &c->listener);
	ev_timer_set(c->in->ev, &c->wait, ms);
}

static void on_wait(struct ev_timer *t)
{
	listen_again(container(t, struct init_ctl, wait));
}

/* ---- one connection ---- */

static void conn_close(struct ctl_conn *n)
{
	struct init_ctl *c = n->ctl;
	struct ctl_conn **at = &c->conns;

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	c->count--;
	ev_timer_stop(c->in->ev, &n->timer);
	ev_io_remove(c->in->ev, &n->io);
	fd_close(&n->io.fd);
	buf_done(&n->out);
	free(n);
	listen_again(c);
}

static void on_conn_timer(struct ev_timer *t)
{
	conn_close(container(t, struct ctl_conn, timer));
}

/* Until all is written, or the other side is gone. */
static void conn_write(struct ctl_conn *n)
{
	while (buf_len(&n->out) > 0) {
		ssize_t put = send(n->io.fd, buf_data(&n->out), buf_len(&n->out),
				   MSG_DONTWAIT | MSG_NOSIGNAL);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno == EAGAIN && ev_io_set(n->ctl->in->ev, &n->io, EPOLLOUT) == 0)
			return;
		if (put < 0)
			break;
		buf_consume(&n->out, (size_t)put);
	}
	conn_close(n);
}

/* The line, then the text; one that does not fit is no answer. */
static void conn_answer(struct ctl_conn *n, uint64_t kind, const char *text)
{
	int r;

	if (kind == 0)
		r = buf_printf(&n->out, "ok\n%s", text);
	else
		r = buf_printf(
			&n->out, "error %s %s\n",
			err_kind_name(kind < ERR_KIND_COUNT ? (enum err_kind)kind : ERR_INTERNAL),
			text);
	if (r < 0) {
		conn_close(n);
		return;
	}
	ev_timer_set(n->ctl->in->ev, &n->timer, INIT_CTL_MS);
	conn_write(n);
}

static bool has_id(const struct init_ctl *c, uint32_t id)
{
	const struct ctl_conn *n = c->conns;

	while (n && n->id != id)
		n = n->next;
	return n != NULL;
}

/* From here on only its end is of interest. */
static void conn_ask(struct ctl_conn *n, const struct wire_ctl_line *l)
{
	struct init_ctl *c = n->ctl;
	struct wire_ctl m = {.verb = l->verb,
			     .json = l->json,
			     .name = l->name[0] ? l->name : NULL,
			     .uid = n->uid};
	uint32_t id;

	do
		id = ++c->last_id;
	while (id == 0 || has_id(c, id));
	n->id = id;
	ev_timer_stop(c->in->ev, &n->timer);
	if (ev_io_set(c->in->ev, &n->io, 0) < 0) {
		conn_close(n);
		return;
	}
	if (wire_ctl_encode(&c->in->link.out, id, 0, &m) < 0)
		init_broken(c->in, "no room for a request of the box's");
	wire_link_flush(&c->in->link);
}

static void on_line(struct ctl_conn *n, size_t len)
{
	struct wire_ctl_line line;
	struct err e = {0};
	int r = len + 1 == n->got ? wire_ctl_line_parse(n->line, len, &line, &e)
				  : err_set(&e, ERR_INVALID, EINVAL, "one line is one request");

	if (r < 0)
		conn_answer(n, e.kind, e.msg);
	else
		conn_ask(n, &line);
}

static void conn_read(struct ctl_conn *n)
{
	ssize_t got = recv(n->io.fd, n->line + n->got, sizeof(n->line) - n->got, MSG_DONTWAIT);
	const char *end;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		conn_close(n);
		return;
	}
	n->got += (size_t)got;
	end = memchr(n->line, '\n', n->got);
	if (end)
		on_line(n, (size_t)(end - n->line));
	else if (n->got == sizeof(n->line))
		conn_answer(n, ERR_INVALID, "the request is too long");
}

static void on_conn(struct ev_io *io, uint32_t events)
{
	struct ctl_conn *n = container(io, struct ctl_conn, io);

	if (buf_len(&n->out) > 0)
		conn_write(n);
	else if (n->id)
		conn_close(n);
	else
		conn_read(n);
}

/* Takes fd. */
static void conn_begin(struct init_ctl *c, int fd)
{
	struct ctl_conn *n = calloc(1, sizeof(*n));
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t len = sizeof(who);

	if (!n) {
		close(fd);
		return;
	}
	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
	n->ctl = c;
	n->uid = who.uid;
	n->io = (struct ev_io){.on_event = on_conn, .fd = fd};
	n->timer.on_timer = on_conn_timer;
	buf_init(&n->out, CTL_TEXT_MAX + sizeof(struct err));
	n->next = c->conns;
	c->conns = n;
	c->count++;
	ev_timer_set(c->in->ev, &n->timer, INIT_CTL_MS);
	if (ev_io_add(c->in->ev, &n->io, EPOLLIN) < 0)
		conn_close(n);
}

/* ---- all of them ---- */

/* One a turn: whoever else has something to say in this box is heard between them. */
static void on_accept(struct ev_io *io, uint32_t events)
{
	struct init_ctl *c = container(io, struct init_ctl, listener);
	uint64_t now = ev_now(c->in->ev);
	int fd;

	if (now >= c->second_ms + SECOND_MS) {
		c->second_ms = now;
		c->second_count = 0;
	}
	if (c->second_count >= INIT_CTL_PER_S) {
		listen_later(c, c->second_ms + SECOND_MS - now);
		return;
	}
	fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			listen_later(c, RETRY_MS);
		return;
	}
	c->second_count++;
	conn_begin(c, fd);
	if (c->count >= INIT_CTL_CONNS_MAX)
		ev_io_remove(c->in->ev, io);
}

void init_ctl_frame(struct init *in, const struct wire_frame *f)
{
	struct ctl_conn *n = in->ctl ? in->ctl->conns : NULL;
	struct wire_ctl_answer m;

	if (!in->ctl || wire_ctl_answer_decode(f, &m) < 0) {
		init_broken(in, "an answer that cannot be read");
		return;
	}
	while (n && n->id != f->id)
		n = n->next;
	if (n && f->id) /* or it did not wait */
		conn_answer(n, m.kind, m.text ? m.text : "");
}

int init_ctl_new(struct init *in, const char *name, struct init_ctl **ret)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	struct init_ctl *c;
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (len == 0 || len >= sizeof(at.sun_path))
		return -EINVAL;
	memcpy(at.sun_path + 1, name, len);
	if (fd < 0 ||
	    bind(fd, (const struct sockaddr *)&at,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->in = in;
	c->listener = (struct ev_io){.on_event = on_accept, .fd = take_fd(fd)};
	c->wait.on_timer = on_wait;
	*ret = c;
	listen_again(c);
	return 0;
}
