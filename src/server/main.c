/*
 * cove-server, which `cove serve` starts; see server.h.
 *
 *	configuration -> lock -> sockets -> "ready" -> loop -> SIGTERM or SIGINT: no new requests,
 *	those under way are answered -> end
 *
 * Exit status: 0 an orderly end, 1 it could not serve, 2 the configuration is wrong.
 */
#include "base/fd.h"
#include "base/str.h"
#include "net/tls.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { END_MS = 10000, QUEUE_MAX = 4096 };

struct ending {
	struct server *server;
	struct ev_signals signals;
	struct ev_io parent; /* stdin of a private server */
	struct ev_timer timer;
};

/* Tells systemd, if it started us. */
static void notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	autoclose int fd = -1;

	if (!path || !str_copy(to.sun_path, sizeof(to.sun_path), path))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = 0;
	if (fd < 0 ||
	    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
		server_log("error", "systemd cannot be notified: %s", strerrordesc_np(errno));
}

static void on_end_time(struct ev_timer *t)
{
	ev_quit(container(t, struct ending, timer)->server->ev);
}

static void begin_end(struct ending *n, const char *why)
{
	if (n->server->ending) {
		ev_quit(n->server->ev);
		return;
	}
	notify("STOPPING=1");
	server_log("info", "%s: no new requests; %u connections", why, n->server->conn_count);
	n->server->ending = true;
	server_listen_end(n->server);
	server_conn_end_idle(n->server);
	n->timer.on_timer = on_end_time;
	ev_timer_set(n->server->ev, &n->timer, END_MS);
	if (n->server->conn_count == 0)
		ev_quit(n->server->ev);
}

static void on_signal(struct ev_signals *s, int sig)
{
	begin_end(container(s, struct ending, signals), sig == SIGINT ? "SIGINT" : "SIGTERM");
}

static void on_parent(struct ev_io *io, uint32_t events)
{
	struct ending *n = container(io, struct ending, parent);
	char drop[256];

	if (read(io->fd, drop, sizeof(drop)) > 0)
		return;
	ev_io_remove(n->server->ev, io);
	begin_end(n, "whom it served has ended");
}

/* The one server of this state directory, as long as the descriptor is open. */
static int lock_home(struct server *s, int *ret_fd, struct err *e)
{
	int fd;

	fd = openat(s->api->cove->state.run_fd, ".server.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(e, errno, "open the server's lock");
	*ret_fd = fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "a server of %s runs already; --home gives another state directory",
			       s->api->cove->state.home);
	return 0;
}

static void say_ready(const struct server *s)
{
	const char *url;

	for (size_t i = 0; (url = server_listener_url(s, i)); i++)
		fprintf(stdout, "listening on %s\n", url);
	fflush(stdout);
	notify("READY=1");
}

/* Connections are descriptors, and so are boxes and pipes. */
static void raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

static int serve(struct server *s, const struct server_config *config, struct err *e)
{
	struct api_options options = {.home = config->home,
				      .threads_max = (unsigned)config->threads,
				      .queue_max = QUEUE_MAX,
				      .min_wall = config->min_wall,
				      .reaps = !config->private,
				      .on_log = server_log_call,
				      .on_reaped = server_log_reaped};
	struct ending ending = {.server = s,
				.signals.on_signal = on_signal,
				.parent = {.on_event = on_parent, .fd = STDIN_FILENO}};
	autoclose int lock_fd = -1;
	sigset_t set;
	int r = ev_new(&s->ev);

	if (r < 0)
		return err_errno(e, -r, "make an event loop");
	s->config = config;
	r = api_new(s->ev, &options, &s->api, e);
	if (r == 0)
		r = state_make(&s->api->cove->state, e);
	if (r == 0 && config->tls_cert)
		r = tls_new_server(&s->tls, config->tls_cert, config->tls_key, e);
	if (r == 0 && !config->private)
		r = lock_home(s, &lock_fd, e);
	else if (r == 0 && ev_io_add(s->ev, &ending.parent, EPOLLIN) < 0)
		r = err_set(e, ERR_INVALID, EINVAL, "a private server's stdin is a pipe");
	if (r == 0)
		r = server_listen_all(s, e);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (r == 0)
		r = ev_signals_add(s->ev, &ending.signals, &set);
	if (r == 0) {
		say_ready(s);
		r = ev_run(s->ev);
		ev_signals_remove(s->ev, &ending.signals);
		ev_timer_stop(s->ev, &ending.timer);
		ev_io_remove(s->ev, &ending.parent);
	}
	server_listen_end(s);
	server_conn_free_all(s);
	api_free(s->api);
	tls_free(s->tls);
	ev_free(s->ev);
	return r;
}

int main(int argc, char **argv)
{
	struct server_config config = {0};
	struct server s = {0};
	struct err e = {0};
	int r;

	fd_fill_low();
	signal(SIGPIPE, SIG_IGN);
	r = argc > 0 ? server_config_read(&config, argv + 1, &e) : -EINVAL;
	if (r < 0) {
		fprintf(stderr, "cove serve: %s\n", e.msg);
		return 2;
	}
	if (config.show_help) {
		server_config_help();
	} else {
		raise_files();
		r = serve(&s, &config, &e);
	}
	server_config_done(&config);
	if (r < 0)
		fprintf(stderr, "cove serve: %s\n", e.msg);
	return r < 0 ? 1 : 0;
}
