/* cove start: boxes that were stopped, again. */
#include "cli/cli.h"

static int start(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_start(c->cove, name, err);
}

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
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = start,
	.result = "started",
};
