/*
 * Where a server listens: a Unix socket that only its user can open, TCP addresses with or without
 * TLS, or sockets that systemd has already (LISTEN_FDS).
 *
 * Who holds the lock of a state directory is its server (main.c), and a private one has a socket of
 * its own. A server puts its socket beside the one that a killed server left and renames it into
 * place. One that ends takes its own away first, and keeps the lock until what is under way was
 * answered: in that time there is none. A socket that somebody else has put there since stays.
 */
#include "base/fd.h"
#include "base/str.h"
#include "core/walls.h"
#include "net/channel_tcp.h"
#include "net/host.h"
#include "net/tls.h"
#include "server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, ACCEPT_TURN = 64, RETRY_MS = 200, AT_MAX = SERVER_URL_MAX - 8 };

struct server_listener {
	struct server *server;
	struct ev_io io; /* its fd is owned */
	struct ev_timer retry;
	bool is_unix, full;
	bool is_given, wanted; /* systemd's; the configuration that is read has it */
	char asked[AT_MAX];    /* as the configuration has it */
	char url[AT_MAX];      /* without the scheme */
	char path[108];	       /* of our own socket file, or empty; and which it is */
	dev_t dev;
	ino_t ino;
};

static bool is_tls(const struct server_listener *l)
{
	return !l->is_unix && l->server->tls;
}

static void peer_text(int fd, const struct sockaddr_storage *from, char ret[64])
{
	char host[INET6_ADDRSTRLEN] = "";
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;

	if (from->ss_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
	else if (from->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
	snprintf(ret, 64, "%s", host[0] ? host : "unix");
}

static void serve(struct server_listener *l, int fd, const struct sockaddr_storage *from)
{
	char address[64];
	struct api_client_info client = {
		.is_local = l->is_unix, .address = address, .is_tls = is_tls(l)};
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct channel *ch;
	struct err e;

	if (l->is_unix && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
		close(fd);
		return;
	}
	if (l->is_unix)
		client.peer_uid = peer.uid;
	peer_text(fd, from, address);
	/* A client that is gone without a word is found out some day, however quiet it was. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
	if (channel_tcp_take(&ch, l->server->ev, fd) < 0)
		return;
	if (client.is_tls)
		ch = channel_tls_serve(l->server->tls, l->server->ev, ch, &e);
	if (ch)
		server_conn_new(l->server, ch, &client);
}

static void pause_accepting(struct server_listener *l, bool full)
{
	l->full = full;
	ev_io_set(l->server->ev, &l->io, 0);
	if (!full)
		ev_timer_set(l->server->ev, &l->retry, RETRY_MS);
}

static void on_accept(struct ev_io *io, uint32_t events)
{
	struct server_listener *l = container(io, struct server_listener, io);

	for (int i = 0; i < ACCEPT_TURN; i++) {
		struct sockaddr_storage from = {0};
		socklen_t len = sizeof(from);
		int fd;

		/* Whether one more waits is known for the first alone. */
		if (i > 0 && server_is_full(l->server, l->is_unix))
			return;
		if (!server_make_room(l->server, l->is_unix)) {
			pause_accepting(l, true);
			return;
		}
		fd = accept4(io->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			serve(l, fd, &from);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			   errno == ENOBUFS) {
			server_log("error", "no connection can be taken for a moment: %s",
				   strerrordesc_np(errno));
			pause_accepting(l, false);
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return;
		}
	}
}

static void on_retry(struct ev_timer *t)
{
	struct server_listener *l = container(t, struct server_listener, retry);

	ev_io_set(l->server->ev, &l->io, EPOLLIN);
}

void server_listen_again(struct server *s)
{
	for (size_t i = 0; i < s->listener_count; i++) {
		if (!s->listeners[i]->full)
			continue;
		s->listeners[i]->full = false;
		ev_io_set(s->ev, &s->listeners[i]->io, EPOLLIN);
	}
}

/* What a listener is to be. */
struct place {
	bool is_unix, is_given;
	const char *asked, *path, *at; /* at: for people, without the scheme */
	const struct stat *file;       /* of path; NULL where that is "" */
};

/* Takes fd. */
static int add(struct server *s, int fd, const struct place *p, struct err *e)
{
	struct server_listener *l;
	int r;

	if (s->listener_count == SERVER_LISTEN_MAX) {
		close(fd);
		return err_set(e, ERR_LIMIT, E2BIG, "listen on %s: there are %d addresses already",
			       p->at, SERVER_LISTEN_MAX);
	}
	l = calloc(1, sizeof(*l));
	r = l ? 0 : -ENOMEM;
	if (r == 0) {
		l->server = s;
		l->is_unix = p->is_unix;
		l->is_given = p->is_given;
		l->wanted = true;
		l->io = (struct ev_io){.on_event = on_accept, .fd = fd};
		l->retry.on_timer = on_retry;
		str_copy(l->asked, sizeof(l->asked), p->asked);
		str_copy(l->url, sizeof(l->url), p->at);
		str_copy(l->path, sizeof(l->path), p->path);
		l->dev = p->file ? p->file->st_dev : 0;
		l->ino = p->file ? p->file->st_ino : 0;
		r = ev_io_add(s->ev, &l->io, EPOLLIN);
	}
	if (r < 0) {
		free(l);
		close(fd);
		return err_errno(e, -r, "listen on %s", p->at);
	}
	s->listeners[s->listener_count++] = l;
	return 0;
}

/* ---- Unix ---- */

static int bind_unix(const char *path, struct stat *ret, struct err *e)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char beside[sizeof(at.sun_path)];

	if (fd < 0)
		return err_errno(e, errno, "make a Unix socket");
	if ((size_t)snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid()) >=
	    sizeof(beside))
		return err_set(e, ERR_INVALID, ENAMETOOLONG,
			       "the socket's path is longer than %zu bytes: %s",
			       sizeof(beside) - 12, path);
	str_copy(at.sun_path, sizeof(at.sun_path), beside);
	unlink(beside);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_errno(e, errno, "make the socket '%s'", path);
	if (chmod(beside, 0600) < 0 || listen(fd, BACKLOG) < 0 || lstat(beside, ret) < 0 ||
	    rename(beside, path) < 0) {
		int r = errno;

		unlink(beside);
		return err_errno(e, r, "listen on '%s'", path);
	}
	return take_fd(fd);
}

static int listen_unix(struct server *s, const char *path, struct err *e)
{
	char at[AT_MAX];
	struct stat file;
	int fd = bind_unix(path, &file, e);

	if (fd < 0)
		return fd;
	/* It fits where the socket's own name did. */
	snprintf(at, sizeof(at), "unix:%.108s", path);
	return add(s, fd,
		   &(struct place){
			   .is_unix = true, .asked = at, .path = path, .at = at, .file = &file},
		   e);
}

/* ---- TCP ---- */

static bool is_loopback(const struct host *h)
{
	static const uint8_t six[16] = {[15] = 1};

	return h->family == AF_INET ? h->addr[0] == 127 : memcmp(h->addr, six, 16) == 0;
}

static int not_an_address(const char *text, struct err *e)
{
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.60s' is no ADDRESS:PORT as 127.0.0.1:7070 or [::1]:7070", text);
}

/* What another machine can reach is guarded twice, or the operator says that it is not. */
static int check_beyond(const struct server_config *c, const char *at, struct err *e)
{
	if (!c->tls_cert && !c->plain_http)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s can be reached from elsewhere: give --tls-cert and --tls-key, "
			       "or --plain-http if something in front of it does TLS",
			       at);
	if ((!c->min_wall || wall_shares_kernel(c->min_wall)) && !c->shared_kernel)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s can be reached from elsewhere: give --min-wall gvisor, or "
			       "--accept-shared-kernel",
			       at);
	return 0;
}

/* Port 0 is one that the kernel chooses. */
static int parse_address(const char *text, struct host *ret, uint16_t *ret_port)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	bool is_v6 = n > 2 && text[0] == '[' && text[n - 1] == ']';
	char host[64];
	uint64_t port;

	if (n == 0 || n >= sizeof(host) || !str_parse_u64(colon + 1, UINT16_MAX, &port))
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(is_v6 ? n - 2 : n), text + is_v6);
	*ret_port = (uint16_t)port;
	return host_parse(ret, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host);
}

static int check_address(const struct server_config *c, const char *text, struct err *e)
{
	struct host h;
	uint16_t port;

	if (parse_address(text, &h, &port) < 0 || !h.is_address)
		return not_an_address(text, e);
	return is_loopback(&h) ? 0 : check_beyond(c, text, e);
}

/* Where a socket is: its address as text, and whether this machine alone reaches it. */
static int place_of(int fd, char ret[AT_MAX], bool *ret_loopback)
{
	struct sockaddr_storage at = {0};
	const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&at;
	socklen_t len = sizeof(at);
	bool is_v6;
	char host[INET6_ADDRSTRLEN];

	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return -errno;
	is_v6 = at.ss_family == AF_INET6;
	if (!is_v6 && at.ss_family != AF_INET)
		return -EAFNOSUPPORT;
	if (!inet_ntop(at.ss_family, is_v6 ? (const void *)&in6->sin6_addr : &in->sin_addr, host,
		       sizeof(host)))
		return -errno;
	snprintf(ret, AT_MAX, is_v6 ? "[%s]:%u" : "%s:%u", host,
		 ntohs(is_v6 ? in6->sin6_port : in->sin_port));
	*ret_loopback = is_v6 ? IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)
			      : ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return 0;
}

static int listen_tcp(struct server *s, const char *text, struct err *e)
{
	struct sockaddr_storage to;
	autoclose int fd = -1;
	struct host h;
	uint16_t port = 0;
	char at[AT_MAX];
	bool is_loopback;
	int one = 1, r;

	if (parse_address(text, &h, &port) < 0 || !h.is_address)
		return not_an_address(text, e);
	fd = socket(h.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(e, errno, "make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&to, addr_socket(&to, h.family, h.addr, port)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return err_errno(e, errno, "listen on %s", text);
	r = place_of(fd, at, &is_loopback);
	if (r < 0)
		return err_errno(e, -r, "listen on %s", text);
	return add(s, take_fd(fd), &(struct place){.asked = text, .path = "", .at = at}, e);
}

/* ---- systemd's ---- */

static int unix_place_of(int fd, char ret[AT_MAX])
{
	struct sockaddr_un at = {0};
	socklen_t len = sizeof(at) - 1;

	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return -errno;
	snprintf(ret, AT_MAX, "unix:%s%s", at.sun_path[0] ? "" : "@",
		 at.sun_path + !at.sun_path[0]);
	return 0;
}

static int take_one(struct server *s, int fd, const struct server_config *c, struct err *e)
{
	char at[AT_MAX];
	int domain = 0, is_listening = 0, r = 0;
	socklen_t len = sizeof(int);
	bool is_loopback;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) < 0)
		return err_errno(e, errno, "take the socket %d that systemd gives", fd);
	if (!is_listening)
		return err_set(e, ERR_INVALID, EINVAL,
			       "the socket %d that systemd gives does not listen", fd);
	r = domain == AF_UNIX ? unix_place_of(fd, at) : place_of(fd, at, &is_loopback);
	if (r < 0)
		return err_errno(e, -r, "take the socket %d that systemd gives", fd);
	if (domain != AF_UNIX && !is_loopback && check_beyond(c, at, e) < 0)
		return -EINVAL;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return add(s, fd,
		   &(struct place){.is_unix = domain == AF_UNIX,
				   .is_given = true,
				   .asked = "",
				   .path = "",
				   .at = at},
		   e);
}

static int take_given(struct server *s, const struct server_config *c, struct err *e)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	uint64_t n, p;
	int r = 0;

	if (!pid || !count || !str_parse_u64(pid, INT32_MAX, &p) || (pid_t)p != getpid() ||
	    !str_parse_u64(count, SERVER_LISTEN_MAX, &n))
		return 0;
	for (int fd = 3; fd < 3 + (int)n && r >= 0; fd++)
		r = take_one(s, fd, c, e);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return r;
}

/* ---- all of them ---- */

/* The socket file is still the one that this server put there. */
static bool has_file(const struct server_listener *l)
{
	struct stat st;

	return l->path[0] && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

static void listener_free(struct server *s, size_t i)
{
	struct server_listener *l = s->listeners[i];

	ev_timer_stop(s->ev, &l->retry);
	ev_io_remove(s->ev, &l->io);
	fd_close(&l->io.fd);
	if (has_file(l))
		unlink(l->path);
	free(l);
	s->listeners[i] = s->listeners[--s->listener_count];
}

static bool keep(struct server *s, const char *asked)
{
	for (size_t i = 0; i < s->listener_count; i++)
		if (strcmp(s->listeners[i]->asked, asked) == 0)
			return s->listeners[i]->wanted = true;
	return false;
}

/* What stays, by the configuration that is to come, and what it may not. */
static int check_given(const struct server *s, const struct server_config *c, struct err *e)
{
	for (size_t i = 0; i < s->listener_count; i++) {
		const struct server_listener *l = s->listeners[i];
		bool is_loopback;
		char at[AT_MAX];

		if (l->is_given && !l->is_unix && place_of(l->io.fd, at, &is_loopback) == 0 &&
		    !is_loopback && check_beyond(c, at, e) < 0)
			return -EINVAL;
	}
	return 0;
}

static int listen_more(struct server *s, const struct server_config *c, struct err *e)
{
	char path[600], asked[620];
	bool has_given = s->listener_count > 0 && s->listeners[0]->is_given;
	int r = check_given(s, c, e);

	for (size_t i = 0; i < c->listen.count && r == 0; i++) {
		r = check_address(c, c->listen.items[i], e);
		if (r == 0 && !keep(s, c->listen.items[i]))
			r = listen_tcp(s, c->listen.items[i], e);
	}
	if (r < 0 || has_given || (c->socket && strcmp(c->socket, "none") == 0))
		return r;
	snprintf(path, sizeof(path), "%s/server.sock", s->api->cove->state.run);
	str_copy(path, sizeof(path), c->socket ? c->socket : path);
	snprintf(asked, sizeof(asked), "unix:%s", path);
	return keep(s, asked) ? 0 : listen_unix(s, path, e);
}

int server_listen_change(struct server *s, const struct server_config *c, bool takes_given,
			 struct err *e)
{
	size_t had = s->listener_count;
	int r = takes_given ? take_given(s, c, e) : 0;

	for (size_t i = 0; i < s->listener_count; i++)
		s->listeners[i]->wanted = s->listeners[i]->is_given;
	if (r >= 0)
		r = listen_more(s, c, e);
	if (r >= 0 && s->listener_count == 0)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "there is nothing to listen on: give --listen or --socket");
	for (size_t i = s->listener_count; i-- > 0;)
		if (r < 0 ? i >= had : !s->listeners[i]->wanted)
			listener_free(s, i);
	return r < 0 ? r : 0;
}

bool server_listener_url(const struct server *s, size_t i, char ret[SERVER_URL_MAX])
{
	const struct server_listener *l = i < s->listener_count ? s->listeners[i] : NULL;

	if (!l)
		return false;
	snprintf(ret, SERVER_URL_MAX, "%s%s",
		 l->is_unix  ? ""
		 : is_tls(l) ? "https://"
			     : "http://",
		 l->url);
	return true;
}

unsigned server_listener_port(const struct server *s)
{
	uint64_t port = 0;

	for (size_t i = 0; i < s->listener_count && port == 0; i++)
		if (!s->listeners[i]->is_unix && strrchr(s->listeners[i]->url, ':'))
			(void)str_parse_u64(strrchr(s->listeners[i]->url, ':') + 1, UINT16_MAX,
					    &port);
	return (unsigned)port;
}

void server_listen_end(struct server *s)
{
	while (s->listener_count > 0)
		listener_free(s, s->listener_count - 1);
}
