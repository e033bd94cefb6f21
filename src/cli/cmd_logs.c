/* cove logs: what the commands of a box printed, also after they and the box have ended. */
#include "base/fd.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/stream.h"
#include "cli/table.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { TITLE_MAX = 1024 };

/* Says it if what was kept of a command is less than what it wrote: a copy of a log would look
 * whole. One that wrote less than the limit met that of its box, or a full disk: which is not
 * recorded. */
static void say_if_truncated(const struct cove_exec_info *x)
{
	char why[40] = "";

	if (!x->truncated)
		return;
	if (x->out_bytes + x->err_bytes > KEEPER_LOG_BYTES_MAX)
		snprintf(why, sizeof(why), " (%u MiB per command)", KEEPER_LOG_BYTES_MAX >> 20);
	cli_note("truncated: not all output of command %llu was kept%s",
		 (unsigned long long)x->exec_id, why);
}

/* The same, as it is now. */
static void say_if_truncated_now(struct cli *c, uint64_t exec_id)
{
	autofree struct cove_exec_info *execs = NULL;
	int count = cove_execs(c->cove, c->o.args[0], &execs, NULL);

	for (int i = 0; i < count; i++)
		if (execs[i].exec_id == exec_id)
			say_if_truncated(&execs[i]);
}

/* One command's output to its end, or to where it stands now: over the box's connection, if there
 * is one (NULL: none). Whoever follows a command over that would take its stdin; and a box that has
 * ended meanwhile has left files. */
static int print_exec(struct cli *c, struct cove_box *box, uint64_t exec_id, bool follow)
{
	static const struct stream_options options = {.leave = true};
	uint64_t from[2] = {c->o.out_from, c->o.err_from};
	struct cove_exec *exec = NULL;
	struct stream_end end = {0};
	struct cove_error err;
	int r = -ENOTCONN;

	if (box && !follow)
		r = cove_exec_attach(box, exec_id, from[0], from[1], false, &exec, &err);
	if (r < 0)
		r = cove_log_open(c->cove, c->o.args[0], exec_id, from[0], from[1], follow, &exec,
				  &err);
	if (r >= 0)
		r = stream_drive(NULL, exec, &options, &end, &err);
	if (r < 0)
		r = cli_fail(c, &err);
	else if (end.reader_gone)
		r = EXIT_SIGNAL + SIGPIPE;
	else
		r = end.left_by ? EXIT_SIGNAL + end.left_by : 0;
	cove_result_free(&end.result);
	cove_exec_free(exec);
	return r;
}

static int print_title(struct cli *c, const struct cove_exec_info *x, bool first)
{
	struct buf b;
	int r;

	buf_init(&b, TITLE_MAX);
	(void)buf_printf(&b, "%s==> %llu  ", first ? "" : "\n", (unsigned long long)x->exec_id);
	(void)text_escape(&b, x->command);
	(void)buf_append_str(&b, " <==\n");
	r = cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

/* All of them, oldest first; with -f the newest is followed. */
static int print_all(struct cli *c)
{
	autofree struct cove_exec_info *execs = NULL;
	struct cove_box *box = NULL;
	struct cove_error err;
	int r = 0, count = cove_execs(c->cove, c->o.args[0], &execs, &err);

	if (count < 0)
		return cli_fail(c, &err);
	/* One connection for all of them. A box that does not run needs none. */
	if (count > 1)
		(void)cove_find(c->cove, c->o.args[0], &box, NULL);
	for (int i = 0; r == 0 && i < count; i++) {
		bool follow = c->o.follow && i == count - 1;

		r = print_title(c, &execs[i], i == 0);
		if (r == 0)
			r = print_exec(c, box, execs[i].exec_id, follow);
		if (r == 0 && follow)
			say_if_truncated_now(c, execs[i].exec_id);
		else if (r == 0)
			say_if_truncated(&execs[i]);
	}
	cove_box_free(box);
	return r;
}

static bool on_line(void *arg, const char *json)
{
	struct cli *c = arg;

	return cli_out(c, json, strlen(json)) == 0 && cli_out(c, "\n", 1) == 0;
}

static int run(struct cli *c)
{
	struct cove_error err;
	int r;

	if (c->o.given[OPT_FROM] && !c->o.given[OPT_EXEC])
		return cli_usage(c, "--from needs --exec ID");
	if (c->o.json && c->o.given[OPT_EXEC])
		return cli_usage(
			c, "--json prints the box's events, --exec a command's output: choose one");
	if (c->o.given[OPT_EXEC]) {
		r = print_exec(c, NULL, c->o.exec_id, c->o.follow);
		if (r == 0)
			say_if_truncated_now(c, c->o.exec_id);
		return r;
	}
	if (!c->o.json)
		return print_all(c);
	return cove_events(c->cove, c->o.args[0], c->o.follow, on_line, c, &err) < 0
		       ? cli_fail(c, &err)
		       : 0;
}

const struct verb verb_logs = {
	.name = "logs",
	.synopsis = "logs [-f] [--exec ID] [--from BYTE] BOX",
	.summary = "what its commands printed",
	.help = "Without --exec all commands are shown, each under a title line, and -f\n"
		"follows the newest. With --exec the bytes are exact: stdout on stdout,\n"
		"stderr on stderr. A box keeps up to 64 MiB per command; a note on stderr says\n"
		"where there was more. With --json the\n"
		"box's events (commands, results, its end) are printed as JSON lines instead.\n"
		"\n"
		"Examples\n"
		"  cove logs dev\n"
		"  cove logs -f --exec 7 dev\n"
		"  cove logs --exec 7 --from 4096:120 dev   # bytes of stdout and stderr\n"
		"  cove logs -f --json dev | jq .\n",
	.options = (const enum opt_id[]){OPT_FOLLOW, OPT_EXEC, OPT_FROM, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.run = run,
};
