/* cove start: boxes that were stopped, again. */
#include "cli/cli.h"

static int start(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_start(c->cove, name, err);
}

static int run(struct cli *c)
{
	return cli_each(c, 0, "started", start);
}

static const enum opt_id options[] = {OPTS_COMMON, OPT_END};

const struct verb verb_start = {
	.name = "start",
	.synopsis = "start BOX...",
	.summary = "start a stopped box again",
	.help = "Files are as they were when it stopped; processes and shells are not there\n"
		"any more. A box that runs already is fine.\n"
		"\n"
		"Examples\n"
		"  cove start dev\n"
		"  cove start dev && cove sh dev pwd\n",
	.options = options,
	.command_after = -1,
	.args_min = 1,
	.args_max = -1,
	.run = run,
};
