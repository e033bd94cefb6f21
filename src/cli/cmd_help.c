/* cove help: the list of verbs, or one verb's page. */
#include "cli/cli.h"

static int run(struct cli *c)
{
	const struct verb *v;

	if (c->o.arg_count == 0)
		return help_print(c);
	v = verb_find(c->o.args[0]);
	return v ? help_print_verb(c, v) : help_unknown(c, c->o.args[0]);
}

const struct verb verb_help = {
	.name = "help",
	.synopsis = "help [VERB]",
	.summary = "this list, or how to use one verb",
	.help = "Also `cove VERB --help`.\n",
	.options = (const enum opt_id[]){OPT_HELP, OPT_END},
	.args = {0, 1},
	.no_home = true,
	.run = run,
};
