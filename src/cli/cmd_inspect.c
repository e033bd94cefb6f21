/* cove inspect: everything known about boxes, as JSON. */
#include "base/fd.h"
#include "cli/cli.h"

static int inspect(struct cli *c, const char *name, struct cove_error *err)
{
	autofree char *json = NULL;
	int r = cove_inspect(c->cove, name, &json, err);

	return r < 0 ? r : cli_out_json(c, json);
}

const struct verb verb_inspect = {
	.name = "inspect",
	.synopsis = "inspect BOX...",
	.summary = "all that is known of a box, as JSON",
	.help = "Indented for reading; one line per box with --json. limits says of each what it\n"
		"is, what was wanted, whether you asked for it and whether it holds; the box's\n"
		"own writes and its workspace have that much disk each. not_enforced says why\n"
		"one does not hold, usage what the box uses now, commands what the last 16 used.\n"
		"\n"
		"Examples\n"
		"  cove inspect dev\n"
		"  cove inspect --json dev | jq .not_enforced\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = inspect,
};
