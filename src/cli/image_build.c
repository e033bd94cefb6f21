/* cove image build: an image from a Dockerfile. */
#include "cli/image_build.h"

#include "base/fd.h"
#include "base/limits_build.h"
#include "base/str.h"
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct build_progress {
	struct cli *c;
	bool plain;
	bool at_start;	   /* of a line */
	struct buf output; /* the end of what the step printed so far */
};

enum { TEXT_WIDTH = 100 };

/* One line: the instruction cut where it is long, without bytes that do something else. */
static void show_step(const struct cove_build_event *ev, const char *mark)
{
	size_t n = strnlen(ev->text, TEXT_WIDTH);

	fprintf(stderr, "[%u/%u] %s", ev->step, ev->steps, mark);
	for (size_t i = 0; i < n;) {
		uint32_t rune;
		size_t len = str_utf8((const uint8_t *)ev->text + i, n - i, &rune);

		if (len == 0 || str_is_tricky(rune))
			putc(len == 0 || rune != '\t' ? '?' : ' ', stderr);
		else
			fwrite(ev->text + i, 1, len, stderr);
		i += len ? len : 1;
	}
	fprintf(stderr, "%s\n", ev->text[n] ? "..." : "");
}

/* What was printed is the box's word: it goes out as it is only where it goes to a file. */
static void show_output(struct build_progress *p, const char *data, size_t len)
{
	bool is_terminal = isatty(STDERR_FILENO);

	for (size_t i = 0; i < len; i++) {
		if (is_terminal && (unsigned char)data[i] < 0x20 && data[i] != '\n' &&
		    data[i] != '\t')
			continue;
		if (p->at_start)
			fputs("  ", stderr);
		putc(data[i], stderr);
		p->at_start = data[i] == '\n';
	}
}

static void end_line(struct build_progress *p)
{
	if (!p->at_start)
		putc('\n', stderr);
	p->at_start = true;
}

static void keep_output(struct build_progress *p, const void *data, size_t len)
{
	enum { KEPT = 64 << 10 };

	if (len > KEPT) {
		data = (const char *)data + len - KEPT;
		len = KEPT;
	}
	if (buf_len(&p->output) + len > KEPT)
		buf_consume(&p->output, buf_len(&p->output) + len - KEPT);
	(void)buf_append(&p->output, data, len);
}

static void on_event(void *arg, const struct cove_build_event *ev)
{
	struct build_progress *p = arg;

	if (ev->type == COVE_BUILD_OUT || ev->type == COVE_BUILD_ERR) {
		if (p->plain)
			show_output(p, ev->data, ev->len);
		else
			keep_output(p, ev->data, ev->len);
		return;
	}
	if (p->plain)
		end_line(p);
	if (ev->type == COVE_BUILD_STEP)
		buf_clear(&p->output);
	if (p->c->o.quiet || p->c->o.json)
		return;
	if (ev->type == COVE_BUILD_STEP)
		show_step(ev, "");
	else if (ev->type == COVE_BUILD_CACHED)
		show_step(ev, "CACHED ");
	else if (ev->type == COVE_BUILD_NOTE)
		cli_note("%s", ev->text);
	else if (ev->type == COVE_BUILD_DONE && ev->duration_ms >= 100)
		fprintf(stderr, "  %u.%u s\n", (unsigned)(ev->duration_ms / 1000),
			(unsigned)(ev->duration_ms / 100 % 10));
}

/* The names beside the first, which the image was built as. */
static int tag_as_more(struct cli *c, const struct cove_build_result *result)
{
	struct cove_error err;

	for (size_t i = 1; i < c->o.build_tags.count; i++)
		if (cove_image_tag(c->cove, result->name, c->o.build_tags.items[i], &err) < 0)
			return cli_fail(c, &err);
	return 0;
}

static int finish(struct cli *c, const struct cove_build_result *result)
{
	const struct opt_list *tags = &c->o.build_tags;
	struct cli_object o;
	struct json *j;
	struct buf b;
	int r = tag_as_more(c, result);

	if (r)
		return r;
	if (!c->o.json) {
		buf_init(&b, 1u << 20);
		(void)buf_printf(&b, "%s\n", result->name);
		for (size_t i = 1; i < tags->count; i++)
			(void)buf_printf(&b, "%s\n", tags->items[i]);
		r = cli_out_buf(c, &b);
		buf_done(&b);
		return r;
	}
	j = cli_object_begin(&o);
	json_kv_str(j, "name", result->name);
	json_key(j, "names");
	json_array_begin(j);
	json_str(j, result->name);
	for (size_t i = 1; i < tags->count; i++)
		json_str(j, tags->items[i]);
	json_array_end(j);
	json_kv_str(j, "id", result->id);
	json_kv_u64(j, "steps", result->steps);
	json_kv_u64(j, "cached", result->cached);
	json_kv_u64(j, "bytes", result->bytes);
	return cli_object_end(c, &o);
}

int image_build_run(struct cli *c, struct cove_build_options *options)
{
	struct build_progress p = {.c = c, .at_start = true};
	const struct options *o = &c->o;
	struct cove_build_result result;
	struct cove_error err;
	int r, sig;

	p.plain = o->build.progress && strcmp(o->build.progress, "plain") == 0;
	if (o->build.progress && !p.plain && strcmp(o->build.progress, "steps") != 0)
		return cli_usage(c, "--progress is plain or steps");
	options->size = sizeof(*options);
	options->net = o->box.net;
	options->mem_bytes = o->box.mem_bytes;
	options->cpu_milli = o->box.cpu_milli;
	options->pids = o->box.pids;
	options->disk_bytes = o->box.disk_bytes;
	options->timeout_ms = o->box.timeout_ms;
	options->best_effort = o->box.best_effort;
	options->wall = o->box.wall;
	options->on_event = on_event;
	options->arg = &p;
	if (signals_catch() == 0)
		options->cancel_fd = signals_fd();
	buf_init(&p.output, 128 << 10);
	r = cove_image_build(c->cove, options, &result, &err);
	if (p.plain)
		end_line(&p);
	if (r < 0 && !p.plain && !o->json && buf_len(&p.output) > 0) {
		show_output(&p, (const char *)buf_data(&p.output), buf_len(&p.output));
		end_line(&p);
	}
	buf_done(&p.output);
	if (r >= 0)
		return finish(c, &result);
	sig = err.kind == COVE_INTERRUPTED ? signals_next_end() : 0;
	if (!sig)
		return cli_broken(c, &err);
	cli_note("ended before the image was built");
	return EXIT_SIGNAL + sig;
}

/* The Dockerfile from stdin, owned. */
static int read_stdin(struct cli *c, char **ret)
{
	char *text = malloc(DOCKERFILE_MAX + 2);
	ssize_t n;

	if (isatty(STDIN_FILENO)) {
		free(text);
		return cli_usage(c, "stdin is a terminal; pipe a Dockerfile into it");
	}
	n = text ? fd_read_full(STDIN_FILENO, text, DOCKERFILE_MAX + 1) : -ENOMEM;
	if (n < 0 || (size_t)n > DOCKERFILE_MAX) {
		free(text);
		return cli_error(c, n < 0 ? COVE_INTERNAL : COVE_LIMIT,
				 "the Dockerfile on stdin cannot be read, or is too long");
	}
	text[n] = 0;
	*ret = text;
	return 0;
}

static int run(struct cli *c)
{
	const struct options *o = &c->o;
	const char *dir = o->args[0];
	bool no_context = strcmp(dir, "-") == 0;
	autofree char *text = NULL;
	struct cove_build_options options = {
		.context = no_context ? NULL : dir,
		.file = o->build.file,
		.name = o->build_tags.count ? o->build_tags.items[0] : NULL,
		.args = o->build_args.items,
		.target = o->build.target,
		.no_cache = o->build.no_cache,
		.secrets = o->build_secrets.items,
		.platform = o->build.platform,
	};

	if ((no_context && !o->build.file) || (o->build.file && strcmp(o->build.file, "-") == 0)) {
		int r = read_stdin(c, &text);

		if (r)
			return r;
		options.file = NULL;
		options.text = text;
	}
	return image_build_run(c, &options);
}

const struct verb verb_image_build = {
	.name = "image build",
	.synopsis = "image build [FLAGS] DIR|-",
	.summary = "make an image from a Dockerfile",
	.help = "DIR is the context: what COPY and ADD take files from, without those that\n"
		"DIR/.dockerignore names. - is none: the Dockerfile comes from stdin. Each RUN is\n"
		"a command in a box of its own, with --net (default 'balanced': packages can be\n"
		"fetched, nothing is sent) and the limits given here. Steps whose layer is there\n"
		"from an earlier build are not made again. The image's names go to\n"
		"stdout.\n"
		"\n"
		"Examples\n"
		"  cove image build -t app .\n"
		"  cove image build -t app -f docker/Dockerfile --target test --build-arg V=3 .\n"
		"  cove image build -t app --secret id=npm,src=$HOME/.npmrc .\n"
		"  printf 'FROM base\\nRUN apt-get update\\n' | cove image build -t fresh -\n",
	.options = (const enum opt_id[]){OPT_BUILD_TAG, OPT_BUILD_FILE, OPT_BUILD_ARG,
					 OPT_BUILD_TARGET, OPT_BUILD_NO_CACHE, OPT_BUILD_SECRET,
					 OPT_BUILD_PLATFORM, OPT_NET, OPT_WALL, OPT_BUILD_TIMEOUT,
					 OPT_BUILD_PROGRESS, OPT_BUILD_QUIET, OPTS_COMMON, OPT_MEM,
					 OPT_CPUS, OPT_PIDS, OPT_DISK, OPT_BEST_EFFORT, OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = run,
};
