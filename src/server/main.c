/*
 * cove-server, which `cove serve` starts; see server.h.
 *
 *	configuration -> lock -> sockets -> "ready" -> loop -> SIGTERM or SIGINT: no new requests,
 *	those under way are answered, for at most END_MS, or until a second signal -> end
 *	SIGHUP: the flags' file and the certificate are read again (setup.c)
 *
 * Exit status: 0 an orderly end, 1 it could not serve, 2 the configuration is wrong.
 */
#include "api/prom.h"
#include "base/clock.h"
#include "base/fd.h"
#include "net/tls.h"
#include "server/hooks.h"
#include "server/otlp.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

enum { END_MS = 10000, QUEUE_MAX = 4096 };

struct ending {
	struct server *server;
	struct ev_signals signals;
	struct ev_io parent; /* stdin of a private server */
	struct ev_timer timer;
};

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
	server_notify("STOPPING=1");
	server_log("info", "%s: no new requests; %u connections", why, n->server->conn_count);
	n->server->ending = true;
	server_listen_end(n->server);
	server_conn_end_idle(n->server);
	n->timer.on_timer = on_end_time;
	ev_timer_set(n->server->ev, &n->timer, END_MS);
	if (n->server->conn_count == 0)
		ev_quit(n->server->ev);
}

/* The kernel says SIGHUP, too, when the terminal that the server was started from is closed. */
static bool has_lost_terminal(void)
{
	struct pollfd p = {.fd = STDIN_FILENO};

	return isatty(STDIN_FILENO) ? poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR)
				    : errno == EIO;
}

/* Refused as a whole where something is wrong with it: what was before goes on. */
static void reload(struct server *s)
{
	char text[400];
	struct err e = {0};
	int r;

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)(clock_mono_ns() / 1000));
	server_notify(text);
	r = server_setup_load(s, &e);
	if (r < 0)
		server_log("error", "SIGHUP: the configuration stays as it was: %s", e.msg);
	else
		server_log("info", "SIGHUP: the configuration was read again");
	snprintf(text, sizeof(text), "READY=1\nSTATUS=%s%s", r < 0 ? "reload refused: " : "serving",
		 r < 0 ? e.msg : "");
	server_notify(text);
}

static void on_signal(struct ev_signals *s, int sig)
{
	struct ending *n = container(s, struct ending, signals);

	if (sig == SIGHUP && !has_lost_terminal()) {
		if (!n->server->ending)
			reload(n->server);
		return;
	}
	begin_end(n, sig == SIGINT   ? "SIGINT"
		     : sig == SIGHUP ? "the terminal was closed"
				     : "SIGTERM");
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

/* Connections are descriptors, and so are boxes and pipes. */
static uint64_t raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	return getrlimit(RLIMIT_NOFILE, &l) == 0 ? l.rlim_cur : RLIM_INFINITY;
}

static unsigned on_connections(void *arg)
{
	return ((struct server *)arg)->conn_count;
}

static void on_trouble(void *arg, const char *what, int code)
{
	server_log("error", "%s: %s", what, strerrordesc_np(-code));
}

static void on_log(void *arg, const struct api_call *c)
{
	server_log_call(arg, c);
	otlp_call(((struct server *)arg)->otlp, c);
}

static void on_door_row(void *arg, const char *box, const struct audit_row *row)
{
	otlp_door(((struct server *)arg)->otlp, box, row);
}

static void on_metrics(void *arg, struct buf *out)
{
	struct prom p = {.out = out};
	struct server *s = arg;
	uint64_t sent = 0, dropped = 0, delivered, failed;

	hooks_counts(s->hooks, &delivered, &failed);
	prom_metric(&p, "cove_webhook_deliveries_total", "counter",
		    "Requests of webhooks, since the server started.");
	prom_u64(&p, (struct prom_label[]){{"outcome", "delivered"}, {0}}, delivered);
	prom_u64(&p, (struct prom_label[]){{"outcome", "failed"}, {0}}, failed);
	if (s->otlp)
		otlp_counts(s->otlp, &sent, &dropped);
	prom_metric(&p, "cove_spans_sent_total", "counter", "Spans that the collector took.");
	prom_u64(&p, NULL, sent);
	prom_metric(&p, "cove_spans_dropped_total", "counter",
		    "Spans that it did not take, or that had no room.");
	prom_u64(&p, NULL, dropped);
}

static int begin_traces(struct server *s, struct err *e)
{
	const char *url = s->config->otlp;

	if (!url)
		url = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
	return url && *url ? otlp_new(&s->otlp, s->ev, url, s->config->otlp_headers, e) : 0;
}

static void on_events(void *arg)
{
	hooks_wake(((struct server *)arg)->hooks);
}

static int begin(struct server *s, int *ret_lock_fd, struct err *e)
{
	const struct server_config *c = s->config;
	struct api_options options = {.queue_max = QUEUE_MAX,
				      .on_log = on_log,
				      .on_door_row = on_door_row,
				      .on_metrics = on_metrics,
				      .on_reaped = server_log_reaped,
				      .on_trouble = on_trouble,
				      .on_connections = on_connections,
				      .on_events = on_events,
				      .labels = (const char *const *)c->metrics_labels.items,
				      .label_count = c->metrics_labels.count,
				      .on_filled = server_log_filled,
				      .arg = s};
	int r = ev_new(&s->ev);

	if (r < 0)
		return err_errno(e, -r, "make an event loop");
	server_config_options(c, &options);
	r = api_options_check(&options, e);
	if (r == 0)
		r = api_new(s->ev, &options, &s->api, e);
	if (r == 0 && c->tls_cert)
		r = tls_new_server(&s->setup->tls, c->tls_cert, c->tls_key, e);
	s->tls = s->setup->tls;
	if (r == 0 && !c->private)
		r = lock_home(s, ret_lock_fd, e);
	if (r == 0)
		r = begin_traces(s, e);
	if (r == 0)
		r = hooks_new(&s->hooks, s->api,
			      &(struct hooks_options){c->webhook_retry_ms, c->webhook_failures}, e);
	if (r == 0)
		r = server_listen_change(s, c, true, e);
	if (r == 0)
		server_setup_ports(s);
	return r;
}

static int serve(struct server *s, struct err *e)
{
	struct ending ending = {.server = s,
				.signals.on_signal = on_signal,
				.parent = {.on_event = on_parent, .fd = STDIN_FILENO}};
	autoclose int lock_fd = -1;
	sigset_t set;
	int r = begin(s, &lock_fd, e);

	if (r == 0 && s->config->private && ev_io_add(s->ev, &ending.parent, EPOLLIN) < 0)
		r = err_set(e, ERR_INVALID, EINVAL, "a private server's stdin is a pipe");
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (r == 0)
		r = ev_signals_add(s->ev, &ending.signals, &set);
	if (r == 0)
		r = server_say_ready(s, e);
	if (r == 0) {
		server_notify("READY=1");
		r = ev_run(s->ev);
		ev_signals_remove(s->ev, &ending.signals);
		ev_timer_stop(s->ev, &ending.timer);
		ev_io_remove(s->ev, &ending.parent);
	}
	server_listen_end(s);
	server_conn_free_all(s);
	/* Threads of the API may still ask for its counts. */
	hooks_stop(s->hooks);
	api_free(s->api);
	hooks_free(take_ptr(s->hooks));
	otlp_free(take_ptr(s->otlp));
	server_setup_free(s);
	ev_free(s->ev);
	return r;
}

/* What a request's JSON held is wiped when it is let go of. */
static void wipe_json(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

int main(int argc, char **argv)
{
	struct server s = {.argv = argv + 1, .setup = calloc(1, sizeof(*s.setup))};
	struct err e = {0};
	int r;

	fd_fill_low();
	signal(SIGPIPE, SIG_IGN);
	json_set_alloc_funcs(malloc, wipe_json);
	if (!s.setup || argc < 1)
		return 1;
	r = server_config_read(&s.setup->config, s.argv, &e);
	s.config = &s.setup->config;
	if (r < 0) {
		fprintf(stderr, "cove serve: %s\n", e.msg);
		server_setup_free(&s);
		return 2;
	}
	if (s.config->show_help) {
		server_config_help();
		server_setup_free(&s);
		return 0;
	}
	s.files_max = raise_files();
	r = serve(&s, &e);
	if (r < 0)
		fprintf(stderr, "cove serve: %s\n", e.msg);
	return r >= 0 ? 0 : e.kind == ERR_INVALID ? 2 : 1;
}
