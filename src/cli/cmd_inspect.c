/* cove inspect: everything known about boxes, as JSON. */
#include "base/fd.h"
#include "cli/cli.h"

static int run(struct cli *c)
{
	int status = cli_open(c);

	for (size_t i = 0; status == 0 && i < c->o.arg_count; i++) {
		autofree char *json = NULL;
		struct cove_error err;

		if (cove_inspect(c->cove, c->o.args[i], &json, &err) < 0)
			return cli_fail(c, &err);
		status = cli_out_json(c, json);
	}
	return status;
}

static const enum opt_id options[] = {OPTS_COMMON, OPT_END};

const struct verb verb_inspect = {
	.name = "inspect",
	.synopsis = "inspect BOX...",
	.summary = "all that is known of a box, as JSON",
	.help = "Indented for reading; one line per box with --json.\n"
		"\n"
		"Examples\n"
		"  cove inspect dev\n"
		"  cove inspect --json dev | jq .not_enforced\n",
	.options = options,
	.command_after = -1,
	.args_min = 1,
	.args_max = -1,
	.run = run,
};
