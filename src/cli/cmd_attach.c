/* cove attach: join a running command again: its output from a byte on, and its stdin. */
#include "base/fd.h"
#include "cli/command.h"
#include "cli/stream.h"
#include "cli/term.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

/* With its stdin, or only reading. */
static int follow(struct cli *c, struct cove_box *box, uint64_t exec_id,
		  const struct stream_options *options, struct stream_end *end,
		  struct cove_error *err)
{
	const struct options *o = &c->o;
	struct cove_exec *exec = NULL;
	int r;

	if (options->input)
		r = cove_exec_attach(box, exec_id, o->out_from, o->err_from, true, &exec, err);
	else
		r = cove_log_open(c->cove, o->args[0], exec_id, o->out_from, o->err_from, true,
				  &exec, err);
	if (r >= 0)
		r = stream_drive(box, exec, options, end, err);
	cove_exec_free(exec);
	return r;
}

static int attach(struct cli *c, struct cove_box *box, uint64_t exec_id)
{
	const struct options *o = &c->o;
	struct stream_options options = {
		.leave = true,
		.raw = o->tty && term_is_ours(STDIN_FILENO),
		.input = (!isatty(STDIN_FILENO) || o->interactive || o->tty) && command_has_stdin(),
	};
	struct stream_end end = {0};
	struct cove_error err;
	int r = follow(c, box, exec_id, &options, &end, &err);

	/* A command that reads no stdin any more, or never did, can still be followed. */
	if (r < 0 && options.input && err.kind == COVE_CONFLICT && err.code == EPIPE) {
		/* Without its stdin our terminal stays as it is, so that Ctrl-C leaves. */
		if (options.raw)
			cli_note("the command reads no input; only watching (Ctrl-C leaves)");
		options.input = options.raw = false;
		r = follow(c, box, exec_id, &options, &end, &err);
	}
	if (r < 0) {
		r = cli_fail(c, &err);
	} else if (end.reader_gone) {
		r = EXIT_SIGNAL + SIGPIPE;
	} else if (end.ended) {
		/* What the keeper did not keep of its output did not come by here. */
		if (o->out_from + end.out_seen < end.result.out_bytes ||
		    o->err_from + end.err_seen < end.result.err_bytes)
			cli_note("truncated: not all output of the command was kept");
		r = cli_result_status(&end.result);
	} else {
		/* Where to go on is what a person needs who only wanted to leave. */
		cli_note("left it running; back with `cove attach %s %s --from %llu:%llu`",
			 o->args[0], o->args[1], (unsigned long long)(o->out_from + end.out_seen),
			 (unsigned long long)(o->err_from + end.err_seen));
		r = end.left_by ? EXIT_SIGNAL + end.left_by : 0;
	}
	cove_result_free(&end.result);
	return r;
}

static int run(struct cli *c)
{
	uint64_t exec_id;
	int r = cli_exec_id(c, c->o.args[1], &exec_id);

	if (r == 0)
		r = cli_find(c, &c->box);
	return r ? r : attach(c, c->box, exec_id);
}

const struct verb verb_attach = {
	.name = "attach",
	.synopsis = "attach [--from BYTE] BOX EXEC",
	.summary = "join a running command again",
	.help = "Prints what the command wrote (from --from on), follows it to its end, and\n"
		"exits with its status. stdin is passed when it is not a terminal, or with\n"
		"-i; use -t for a command that was started with a terminal. Ctrl-C leaves the\n"
		"command running and says how to come back; with -t Ctrl-C is the command's,\n"
		"and the detach key is Ctrl-] twice. `cove logs -f` only reads.\n"
		"\n"
		"Examples\n"
		"  id=$(cove exec -d -i dev -- python3 -i)\n"
		"  echo 'print(6 * 7)' | cove attach dev $id\n"
		"  cove attach --from 4096 dev $id\n"
		"  cove attach -t dev $(cove exec -d -t dev -- bash -l)   # Ctrl-] twice leaves\n",
	.options = (const enum opt_id[]){OPT_FROM, OPT_INTERACTIVE, OPT_TTY, OPT_VERBOSE,
					 OPT_LOG_FILE, OPT_HELP, OPT_END},
	.args = {2, 2},
	.run = run,
};
