/* cove stop: end the processes of boxes, keep their files. */
#include "cli/cli.h"

static int stop(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_stop(c->cove, name, "cove stop",
			 c->o.given[OPT_GRACE] ? c->o.grace_ms : COVE_GRACE_MS, err);
}

const struct verb verb_stop = {
	.name = "stop",
	.synopsis = "stop [--grace TIME] BOX...",
	.summary = "end its processes, keep its files",
	.help = "Everything in the box gets SIGTERM, then SIGKILL. `cove start` brings the\n"
		"files back as they were; processes do not come back.\n"
		"\n"
		"Examples\n"
		"  cove stop dev\n"
		"  cove stop --grace 30s dev other\n",
	.options = (const enum opt_id[]){OPT_GRACE, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = stop,
	.result = "stopped",
};
