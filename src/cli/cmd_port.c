/*
 * cove port: ports of this host that lead to ports in a box.
 *
 * One alone is forwarded by this process. Several, and those in the background (-d), have a process
 * each, so that one can be ended without the others; this one hears from each when it listens, says
 * so when all do, and where one cannot, ends those before it. One in the background leaves the
 * terminal and goes on until the box ends or `--rm`; it is written down with the box
 * (core/forwards.h), and `cove start` brings it back.
 */
#include "cli/port.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/list.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAY_EVERY_MS = 1000, READY_MS = 15000, TEXT_MAX = 64, INHERITED_MAX = 4096 };

/* What a process says when it listens, or cannot; one write into a pipe. */
struct report {
	struct cove_error err; /* kind COVE_OK: it listens */
	char address[TEXT_MAX];
	unsigned local;
};

struct port {
	struct cli *c;
	const char *box, *address;
	unsigned inner, local;
	bool background, wait, quiet;
	bool is_up;	     /* its process said so */
	char at[TEXT_MAX];   /* and there it listens */
	int report_fd;	     /* owned by its process; -1: this process says it itself */
	int status;	     /* of printing */
	uint64_t said_ms;    /* when a failure was said last */
	unsigned unreported; /* since then */
	pid_t pid;
};

static int parse(struct cli *c, const char *text, struct port *ret)
{
	const char *colon = strchr(text, ':');
	char inner[8];
	uint64_t a, b;

	snprintf(inner, sizeof(inner), "%.*s", colon ? (int)(colon - text) : 7, text);
	if ((colon && colon - text > 5) || !str_parse_u64(inner, 65535, &a) || a == 0)
		return cli_usage(c, "'%.60s': PORT is 1 to 65535", text);
	b = a;
	if (colon && !str_parse_u64(colon + 1, 65535, &b))
		return cli_usage(c, "'%.60s': LOCAL is 1 to 65535, or 0 for a free one", text);
	ret->inner = (unsigned)a;
	ret->local = (unsigned)b;
	return 0;
}

static bool is_loopback(const char *address)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, address, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* The address is printed as a URL, because that is what most will do with it; any TCP passes. */
static int say_ready(const struct port *p, const char *address, unsigned local)
{
	bool is_v6 = strchr(address, ':') != NULL;
	char url[128];
	struct cli_object o;
	struct json *j;
	int r;

	snprintf(url, sizeof(url), "http://%s%s%s:%u/%s", is_v6 ? "[" : "", address,
		 is_v6 ? "]" : "", local, p->c->o.json ? "" : "\n");
	if (!is_loopback(address))
		cli_note("WARNING: %s is not only this machine: whoever can reach it there can "
			 "reach port %u of box '%s', and nobody is asked for a password",
			 address, p->inner, p->box);
	if (!p->c->o.json) {
		r = cli_out(p->c, url, strlen(url));
		if (!r && isatty(STDERR_FILENO))
			cli_note("leads to port %u of box '%s'; %s", p->inner, p->box,
				 p->background ? "it ends with the box, or with --rm"
					       : "Ctrl-C ends it");
		return r;
	}
	j = cli_object_begin(&o);
	json_kv_str(j, "box", p->box);
	json_kv_u64(j, "port", p->inner);
	json_kv_str(j, "address", address);
	json_kv_u64(j, "local_port", local);
	json_kv_str(j, "url", url);
	return cli_object_end(p->c, &o);
}

static void on_ready(void *arg, const char *address, unsigned local)
{
	struct port *p = arg;
	struct report report = {.local = local};

	if (p->report_fd >= 0) {
		str_copy(report.address, sizeof(report.address), address);
		(void)fd_write_full(p->report_fd, &report, sizeof(report));
		fd_close(&p->report_fd);
		return;
	}
	p->status = say_ready(p, address, local);
	if (p->status)
		(void)raise(SIGTERM); /* it is blocked, and ends the forwarding */
}

/* A line each, but no more than one a second: a client that tries again and again would fill the
 * terminal. */
static void on_failed(void *arg, const char *why)
{
	struct port *p = arg;
	uint64_t now = clock_mono_ms();

	if (p->said_ms && now - p->said_ms < SAY_EVERY_MS) {
		p->unreported++;
		return;
	}
	if (p->unreported)
		cli_note("%u more connections to port %u of box '%s' failed", p->unreported,
			 p->inner, p->box);
	cli_note("a connection to port %u of box '%s' failed: %s", p->inner, p->box, why);
	p->unreported = 0;
	p->said_ms = now;
}

/* Readable when somebody wants us to end. */
static int catch_end(bool children)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (children)
		sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Forwards in this process, to its end. */
static int forward(struct port *p)
{
	struct cove_forward how = {.size = sizeof(how),
				   .address = p->address,
				   .port = p->inner,
				   .local_port = p->local,
				   .on_ready = on_ready,
				   .on_failed = on_failed,
				   .arg = p,
				   .keep = p->background,
				   .wait = p->wait};
	struct report report = {.local = p->local};
	struct signalfd_siginfo sig = {0};
	autoclose int stop_fd = catch_end(false);
	struct cove_box *box = NULL;
	int r;

	how.stop_fd = stop_fd;
	if (stop_fd < 0)
		return cli_error(p->c, COVE_INTERNAL, "cannot catch signals");
	r = cove_find(p->c->cove, p->box, &box, &report.err);
	if (r == 0)
		r = cove_forward(box, &how, &report.err);
	cove_box_free(box);
	if (r < 0 && p->report_fd >= 0) {
		(void)fd_write_full(p->report_fd, &report, sizeof(report));
		return EXIT_COVE;
	}
	if (r < 0)
		return p->quiet ? EXIT_COVE : cli_fail(p->c, &report.err);
	r = p->status;
	if (r == 0 && read(stop_fd, &sig, sizeof(sig)) == sizeof(sig))
		r = EXIT_SIGNAL + (int)sig.ssi_signo;
	return r;
}

/* All of ours close by themselves; what else is open is the caller's, who may wait for its end. */
static void close_inherited(void)
{
	for (int fd = 3; fd < INHERITED_MAX; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && !(flags & FD_CLOEXEC))
			close(fd);
	}
}

/* In a process of its own. It never returns. */
static void child(struct port *p, pid_t parent)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (p->background) {
		/* It has no terminal, no directory and no reader any more. */
		setsid();
		if (null_fd < 0 || chdir("/") < 0)
			_exit(EXIT_COVE);
		for (int fd = 0; fd <= 2; fd++)
			dup2(null_fd, fd);
		close_inherited();
		p->c->o.json = p->c->o.verbose = false;
	} else if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent) {
		_exit(EXIT_COVE);
	}
	_exit(forward(p));
}

static int start_child(struct port *p, int *ret_fd)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return cli_error(p->c, COVE_LIMIT, "make a pipe: %s", strerror(errno));
	p->pid = fork();
	if (p->pid == 0) {
		close(fds[0]);
		p->report_fd = fds[1];
		child(p, parent);
	}
	close(fds[1]);
	if (p->pid < 0) {
		close(fds[0]);
		return cli_error(p->c, COVE_LIMIT, "start a process: %s", strerror(errno));
	}
	*ret_fd = fds[0];
	return 0;
}

/* Hears from it. 0 or an exit status. */
static int hear(struct port *p, int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	struct report report;
	int r;

	do
		r = poll(&poll_fd, 1, READY_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return cli_error(p->c, COVE_TIMEOUT, "port %u of box '%s' does not come up",
				 p->inner, p->box);
	if (r < 0 || fd_read_full(fd, &report, sizeof(report)) != sizeof(report))
		return cli_error(p->c, COVE_INTERRUPTED,
				 "the process for port %u of box '%s' ended at once", p->inner,
				 p->box);
	if (report.err.kind != COVE_OK)
		return cli_fail(p->c, &report.err);
	p->local = report.local;
	str_copy(p->at, sizeof(p->at), report.address);
	p->is_up = true;
	return 0;
}

/* Those that were started, after one could not. */
static void take_back(struct port *ports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (ports[i].pid <= 0)
			continue;
		kill(ports[i].pid, SIGTERM);
		if (ports[i].background && ports[i].is_up)
			(void)cove_forward_end(ports[i].c->cove, ports[i].box, ports[i].local,
					       NULL);
		while (waitpid(ports[i].pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
}

/* Until one ends, which they do together, or somebody wants all to end. */
static int wait_for_end(struct port *ports, size_t count, int signal_fd)
{
	struct pollfd poll_fd = {.fd = signal_fd, .events = POLLIN};
	struct signalfd_siginfo sig;
	int status, r = -1;

	while (r < 0) {
		if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
			r = EXIT_COVE;
		while (r < 0 && read(signal_fd, &sig, sizeof(sig)) == sizeof(sig)) {
			if (sig.ssi_signo != SIGCHLD)
				r = EXIT_SIGNAL + (int)sig.ssi_signo;
			for (size_t i = 0; i < count && r < 0; i++)
				if (waitpid(ports[i].pid, &status, WNOHANG) == ports[i].pid) {
					ports[i].pid = 0;
					r = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_COVE;
				}
		}
	}
	take_back(ports, count);
	return r == EXIT_COVE
		       ? cli_error(ports[0].c, COVE_INTERRUPTED, "box '%s' ended", ports[0].box)
		       : r;
}

static int start_all(struct port *ports, size_t count)
{
	bool background = ports[0].background;
	autoclose int signal_fd = -1;
	int r = 0;

	if (!background) {
		signal_fd = catch_end(true);
		if (signal_fd < 0)
			return cli_error(ports[0].c, COVE_INTERNAL, "cannot catch signals");
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		autoclose int fd = -1;

		ports[i].quiet = true;
		r = start_child(&ports[i], &fd);
		if (r == 0)
			r = hear(&ports[i], fd);
	}
	/* An address that may yet be taken back is not said. */
	for (size_t i = 0; i < count && r == 0; i++)
		r = say_ready(&ports[i], ports[i].at, ports[i].local);
	if (r)
		take_back(ports, count);
	else if (!background)
		r = wait_for_end(ports, count, signal_fd);
	return r;
}

/* As hear, for one that was there before the box ended: a note, whatever comes of it. */
static void restore_one(struct port *p)
{
	struct report report = {
		.err = {.kind = COVE_TIMEOUT, .message = "it did not come up in time"}};
	struct pollfd poll_fd = {.events = POLLIN};
	autoclose int fd = -1;

	if (start_child(p, &fd) != 0)
		return;
	poll_fd.fd = fd;
	if (poll(&poll_fd, 1, READY_MS) > 0)
		(void)fd_read_full(fd, &report, sizeof(report));
	else
		kill(p->pid, SIGTERM);
	if (report.err.kind == COVE_OK)
		cli_note("port %u of %s leads to port %u of box '%s' again", p->local, p->address,
			 p->inner, p->box);
	else
		cli_note("port %u of box '%s' is not forwarded any more: %.200s; again: cove port "
			 "-d "
			 "%s %u:%u",
			 p->inner, p->box, report.err.message, p->box, p->inner, p->local);
}

int port_restore(struct cli *c, const char *box, bool was_running)
{
	autofree struct cove_forward_info *found = NULL;
	struct cove_error err;
	int count = cove_forwards(c->cove, box, &found, &err);

	if (count < 0)
		return cli_fail(c, &err);
	for (int i = 0; i < count; i++) {
		/* After a start the one before is about to end, if it has not. */
		struct port p = {.c = c,
				 .box = box,
				 .address = found[i].address,
				 .inner = found[i].port,
				 .local = found[i].local_port,
				 .background = true,
				 .wait = true,
				 .report_fd = -1};

		if (!was_running || !found[i].is_live)
			restore_one(&p);
	}
	return 0;
}

/* ---- those in the background ---- */

static void row(struct table *t, const void *item)
{
	const struct cove_forward_info *f = item;

	table_cellf(t, "%u", f->local_port);
	table_cell(t, f->address);
	table_cellf(t, "%u", f->port);
	table_cell(t, f->is_live ? "forwarded" : "ended");
}

/* clang-format off */
#define A(key, name) FIELD_SHOWN(cove_forward_info, key, name, ALWAYS)
static const struct wire_named_field fields[] = {
	A("port", port), A("address", address), A("local_port", local_port), A("live", is_live),
	FIELD_SHOWN(cove_forward_info, "pid", pid, KNOWN), {0}};
#undef A
/* clang-format on */

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_forwards(c->cove, c->o.args[0], ret, err);
}

static void name(struct buf *b, const void *item)
{
	(void)buf_printf(b, "%u", ((const struct cove_forward_info *)item)->local_port);
}

static const struct list_form form = {
	.titles = {"LOCAL", "ADDRESS", "PORT", "STATE"},
	.right = 1 << 0 | 1 << 2,
	.empty = "no port of this host leads there in the background; `cove port -d BOX PORT` "
		 "makes one",
	.size = sizeof(struct cove_forward_info),
	.get = get,
	.row = row,
	.fields = fields,
	.name = name,
};

static int remove_ports(struct cli *c)
{
	const char *box = c->o.args[0];
	struct cove_error err;
	uint64_t local = 0;
	int status = 0;

	for (size_t i = 1; i < c->o.arg_count || i == 1; i++) {
		const char *text = c->o.arg_count > 1 ? c->o.args[i] : "all";

		if (c->o.arg_count > 1 && (!str_parse_u64(text, 65535, &local) || local == 0))
			return cli_usage(c, "'%.60s': with --rm stands LOCAL, 1 to 65535", text);
		if (cove_forward_end(c->cove, box, (unsigned)local, &err) < 0)
			status = cli_fail(c, &err);
		else
			status = cli_done(c, text, "ended", c->events);
	}
	return status;
}

static int run(struct cli *c)
{
	size_t count = c->o.arg_count - 1;
	autofree struct port *ports = NULL;
	int r = 0;

	if (c->o.remove)
		return c->o.background || c->o.address
			       ? cli_usage(c, "--rm ends what -d made: it stands alone")
			       : remove_ports(c);
	if (count == 0)
		return list_run(c, &form);
	if (count > PORTS_MAX)
		return cli_usage(c, "at most %u ports at once", PORTS_MAX);
	ports = calloc(count, sizeof(*ports));
	if (!ports)
		return cli_error(c, COVE_FULL, "out of memory");
	for (size_t i = 0; i < count && r == 0; i++) {
		ports[i] = (struct port){.c = c,
					 .box = c->o.args[0],
					 .address = c->o.address,
					 .background = c->o.background,
					 .report_fd = -1};
		r = parse(c, c->o.args[i + 1], &ports[i]);
	}
	if (r)
		return r;
	return count == 1 && !c->o.background ? forward(&ports[0]) : start_all(ports, count);
}

const struct verb verb_port = {
	.name = "port",
	.synopsis = "port [-d] BOX PORT[:LOCAL]...",
	.summary = "reach ports of a box from this host",
	.help = "Listens on LOCAL (without it the same number; 0: a free one) of 127.0.0.1 and\n"
		"leads every connection to PORT on the box's own loopback: HTTP, WebSocket, any\n"
		"TCP. Prints the addresses when they are there and goes on until Ctrl-C or the\n"
		"end of the box. Of several either all come up or none. Nothing listens on\n"
		"another address unless --address says so. It works with --net closed too.\n"
		"\n"
		"With -d it goes on in the background and lives with the box: it ends when the\n"
		"box stops, and `cove start` brings it back or says why not. Without PORT those\n"
		"in the background are listed; --rm ends them, by LOCAL or all.\n"
		"\n"
		"What listens inside: `cove ports BOX`.\n"
		"\n"
		"Examples\n"
		"  cove port dev 8000\n"
		"  cove port dev 8000 5432:15432\n"
		"  cove port -d dev 3000:0 --json\n"
		"  cove port dev\n"
		"  cove port --rm dev 15432\n",
	.options = (const enum opt_id[]){OPT_PORT_BACKGROUND, OPT_PORT_RM, OPT_ADDRESS, OPT_QUIET,
					 OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.answers = true,
	.run = run,
};
