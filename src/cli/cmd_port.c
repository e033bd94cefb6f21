/* cove port: a port of this host that leads to one in a box. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { SAY_EVERY_MS = 1000 };

struct port {
	struct cli *c;
	const char *box;
	unsigned inner;
	int status;	     /* of printing */
	uint64_t said_ms;    /* when a failure was said last */
	unsigned unreported; /* since then */
};

static int parse(struct cli *c, unsigned *ret_inner, unsigned *ret_local)
{
	const char *text = c->o.args[1], *colon = strchr(text, ':');
	char inner[8];
	uint64_t a, b;

	snprintf(inner, sizeof(inner), "%.*s", colon ? (int)(colon - text) : 7, text);
	if ((colon && colon - text > 5) || !str_parse_u64(inner, 65535, &a) || a == 0)
		return cli_usage(c, "'%.60s': PORT is 1 to 65535", text);
	b = a;
	if (colon && !str_parse_u64(colon + 1, 65535, &b))
		return cli_usage(c, "'%.60s': LOCAL is 1 to 65535, or 0 for a free one", text);
	*ret_inner = (unsigned)a;
	*ret_local = (unsigned)b;
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
static void on_ready(void *arg, const char *address, unsigned local)
{
	struct port *p = arg;
	bool is_v6 = strchr(address, ':') != NULL;
	char url[128];
	struct cli_object o;
	struct json *j;

	snprintf(url, sizeof(url), "http://%s%s%s:%u/%s", is_v6 ? "[" : "", address,
		 is_v6 ? "]" : "", local, p->c->o.json ? "" : "\n");
	if (!is_loopback(address))
		cli_note("WARNING: %s is not only this machine: whoever can reach it there can "
			 "reach port %u of box '%s', and nobody is asked for a password",
			 address, p->inner, p->box);
	if (p->c->o.json) {
		j = cli_object_begin(&o);
		json_kv_str(j, "box", p->box);
		json_kv_u64(j, "port", p->inner);
		json_kv_str(j, "address", address);
		json_kv_u64(j, "local_port", local);
		json_kv_str(j, "url", url);
		p->status = cli_object_end(p->c, &o);
	} else {
		p->status = cli_out(p->c, url, strlen(url));
	}
	if (p->status)
		(void)raise(SIGTERM); /* it is blocked, and ends the forwarding */
	if (!p->status && !p->c->o.json && isatty(STDERR_FILENO))
		cli_note("leads to port %u of box '%s'; Ctrl-C ends it", p->inner, p->box);
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
static int catch_end(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(struct cli *c)
{
	struct port port = {.c = c, .box = c->o.args[0]};
	struct cove_forward forward = {.size = sizeof(forward),
				       .address = c->o.address,
				       .on_ready = on_ready,
				       .on_failed = on_failed,
				       .arg = &port};
	struct signalfd_siginfo sig = {0};
	autoclose int stop_fd = -1;
	struct cove_error err;
	int r = parse(c, &forward.port, &forward.local_port);

	if (r == 0)
		r = cli_find(c, &c->box);
	if (r)
		return r;
	port.inner = forward.port;
	forward.stop_fd = stop_fd = catch_end();
	if (stop_fd < 0)
		r = cli_error(c, COVE_INTERNAL, "cannot catch signals");
	else if (cove_forward(c->box, &forward, &err) < 0)
		r = cli_fail(c, &err);
	else
		r = port.status;
	if (r == 0 && read(stop_fd, &sig, sizeof(sig)) == sizeof(sig))
		r = EXIT_SIGNAL + (int)sig.ssi_signo;
	return r;
}

const struct verb verb_port = {
	.name = "port",
	.synopsis = "port BOX PORT[:LOCAL]",
	.summary = "reach a port of a box from this host",
	.help = "Listens on LOCAL (without it the same number; 0: a free one) of 127.0.0.1 and\n"
		"leads every connection to PORT on the box's own loopback: HTTP, WebSocket, any\n"
		"TCP. Prints the address when it is there and goes on until Ctrl-C or the end of\n"
		"the box. Nothing listens on another address unless --address says so. It works\n"
		"with --net closed too.\n"
		"\n"
		"Examples\n"
		"  cove port dev 8000\n"
		"  cove port dev 5432:15432\n"
		"  cove port dev 3000:0 --json\n",
	.options = (const enum opt_id[]){OPT_ADDRESS, OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.answers = true,
	.run = run,
};
