/* cove help: the list of verbs, or one verb's page. */
#include "cli/cli.h"

static int run(struct cli *c)
{
	const struct verb *v;

	if (c->o.arg_count == 0)
		return help_print(c);
	v = verb_find(c->o.args[0], c->o.args[1]);
	/* Only what has verbs of its own takes a second word, and it is one of them. */
	if (c->o.arg_count > 1 && v == verb_find(c->o.args[0], NULL))
		return cli_usage(c, "unexpected argument '%.60s'; usage: cove %s", c->o.args[1],
				 c->verb->synopsis);
	return v ? help_print_verb(c, v) : help_unknown(c, c->o.args[0]);
}

const struct verb verb_help = {
	.name = "help",
	.synopsis = "help [VERB]",
	.summary = "this list, or how to use one verb",
	.help = "Also `cove VERB --help`.\n",
	.options = (const enum opt_id[]){OPT_HELP, OPT_END},
	.args = {0, 2},
	.no_home = true,
	.run = run,
};
