/*
 * cove image pull: an image of a registry. On a terminal one line shows how far it is; elsewhere
 * each layer that is there gets a line of its own.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/size.h"
#include "cli/cancel.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_MS = 300 };

struct pull_view {
	bool on_terminal, is_quiet, is_shown, said_unpacking;
	uint64_t started_ms;
};

/* ---- progress ---- */

static void show_line(struct pull_view *v, const struct cove_pull_progress *p)
{
	char line[160], have[SIZE_TEXT], all[SIZE_TEXT], rate[SIZE_TEXT];
	uint64_t spent = clock_mono_ms() - v->started_ms;
	int n;

	if (spent < FIRST_MS)
		return;
	if (p->is_unpacking && p->all_size > 0)
		n = snprintf(line, sizeof(line), "\r  unpacking  %3u %%\033[K",
			     (unsigned)(p->all_have * 100 / p->all_size));
	else if (p->is_unpacking)
		n = snprintf(line, sizeof(line), "\r  unpacking ...\033[K");
	else
		n = snprintf(line, sizeof(line), "\r  %llu of %llu, %s of %s, %s/s\033[K",
			     (unsigned long long)p->layers_done, (unsigned long long)p->layers,
			     size_format(have, p->all_have), size_format(all, p->all_size),
			     size_format(rate, p->fetched * 1000 / spent));
	v->is_shown = true;
	(void)fd_write_full(STDERR_FILENO, line, (size_t)n);
}

static void say_line(struct pull_view *v, const struct cove_pull_progress *p)
{
	char text[SIZE_TEXT];

	if (p->is_unpacking && !v->said_unpacking) {
		v->said_unpacking = true;
		cli_note("unpacking");
	} else if (!p->is_unpacking && p->layer && p->is_done) {
		cli_note("%.19s %s%s", p->layer, size_format(text, p->size),
			 p->was_there ? ", already there" : "");
	}
}

static bool on_progress(void *arg, const struct cove_pull_progress *p)
{
	struct pull_view *v = arg;

	if (v->on_terminal)
		show_line(v, p);
	else if (!v->is_quiet)
		say_line(v, p);
	return cancel_signal() == 0;
}

/* ---- the verb ---- */

static int say_pulled(struct cli *c, const struct cove_pulled *got, uint64_t spent_ms)
{
	char text[SIZE_TEXT], rate[SIZE_TEXT];
	struct cli_object o;
	struct json *j;

	if (c->o.json) {
		j = cli_object_begin(&o);
		json_kv_str(j, "name", got->image);
		json_kv_str(j, "result", "pulled");
		json_kv_str(j, "digest", got->digest);
		json_kv_u64(j, "layers", got->layers);
		json_kv_u64(j, "layers_there", got->layers_there);
		json_kv_u64(j, "bytes", got->bytes);
		json_kv_u64(j, "fetched", got->fetched);
		json_kv_u64(j, "duration_ms", spent_ms);
		return cli_object_end(c, &o);
	}
	if (c->o.quiet) {
		char line[sizeof(got->image) + 2];

		snprintf(line, sizeof(line), "%s\n", got->image);
		return cli_out(c, line, strlen(line));
	}
	cli_note("image '%s' is ready: %llu layer%s, %s fetched%s%s%s", got->image,
		 (unsigned long long)got->layers, got->layers == 1 ? "" : "s",
		 size_format(text, got->fetched), got->fetched > 0 ? ", " : "",
		 got->fetched > 0
			 ? size_format(rate, got->fetched * 1000 / (spent_ms ? spent_ms : 1))
			 : "",
		 got->fetched > 0 ? "/s with unpacking" : "");
	return 0;
}

static int run(struct cli *c)
{
	struct pull_view v = {.is_quiet = c->o.quiet || c->o.json,
			      .on_terminal = isatty(STDERR_FILENO) && !c->o.quiet && !c->o.json,
			      .started_ms = clock_mono_ms()};
	struct cove_pulled got = {.size = sizeof(got)};
	struct cove_pull how = {.size = sizeof(how),
				.name = c->o.image_name,
				.platform = c->o.platform,
				.ca = c->o.ca,
				.insecure = c->o.insecure,
				.stall_ms = c->o.stall_ms,
				.cancel_fd = cancel_catch(),
				.on_progress = on_progress,
				.arg = &v};
	struct cove_error err;
	int r = cove_image_pull(c->cove, c->o.args[0], &how, &got, &err);

	if (v.is_shown)
		(void)fd_write_full(STDERR_FILENO, "\r\033[K", 4);
	if (r < 0 && cancel_signal()) {
		cli_note("interrupted; what was fetched is kept for the next time, and there is no "
			 "new image");
		return EXIT_SIGNAL + cancel_signal();
	}
	if (r < 0)
		return cli_fail(c, &err);
	return say_pulled(c, &got, clock_mono_ms() - v.started_ms);
}

const struct verb verb_image_pull = {
	.name = "image pull",
	.synopsis = "image pull REF",
	.summary = "fetch an image from a registry",
	.help = "REF is [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]; without a host it is one of\n"
		"docker.io, without a tag its 'latest'. The image is then called as typed.\n"
		"\n"
		"What is there already is not fetched again, and an interrupted pull goes on\n"
		"where it was. Every byte is checked against the digest that names it. Logins are\n"
		"read from where docker login and podman login keep them ($REGISTRY_AUTH_FILE,\n"
		"$DOCKER_CONFIG/config.json, ~/.docker/config.json, containers/auth.json), with\n"
		"their credential helpers. Proxies: http_proxy, https_proxy, no_proxy.\n"
		"\n"
		"A registry without TLS is asked only on this machine itself, or with --insecure.\n"
		"\n"
		"Examples\n"
		"  cove image pull python:3.12-slim\n"
		"  cove image pull ghcr.io/acme/agent:v2 --name agent\n"
		"  cove image pull debian:12 --platform linux/arm64\n"
		"  cove image pull registry.corp:5000/tools --ca corp-ca.pem\n",
	.options = (const enum opt_id[]){OPT_PULL_NAME, OPT_PLATFORM, OPT_CA, OPT_INSECURE,
					 OPT_STALL, OPT_PULL_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.run = run,
};
