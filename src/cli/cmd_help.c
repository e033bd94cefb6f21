/* cove help: the list of verbs, or one verb's page. */
#include "cli/cli.h"

#include <string.h>

/* "image ls|make|import|rm [NAME]" names "make". */
static bool names(const char *synopsis, const char *word)
{
	static const char between[] = " |.[]";
	size_t n = 0;

	for (const char *at = synopsis; *at; at += n + strspn(at + n, between)) {
		n = strcspn(at, between);
		if (n == strlen(word) && n > 0 && memcmp(at, word, n) == 0)
			return true;
	}
	return false;
}

static int run(struct cli *c)
{
	const struct verb *v;

	if (c->o.arg_count == 0)
		return help_print(c);
	v = verb_find(c->o.args[0], c->o.args[1]);
	/* A second word is a verb of the first one's, with a page of its own or on that of all. */
	if (v && c->o.arg_count > 1 && v == verb_find(c->o.args[0], NULL) &&
	    !names(v->synopsis, c->o.args[1]))
		return cli_usage(c, "unexpected argument '%.60s'; usage: cove %s", c->o.args[1],
				 c->verb->synopsis);
	return v ? help_print_verb(c, v) : help_unknown(c, c->o.args[0]);
}

const struct verb verb_help = {
	.name = "help",
	.synopsis = "help [VERB...]",
	.summary = "this list, or how to use one verb",
	.help = "Also `cove VERB --help`.\n",
	.options = (const enum opt_id[]){OPT_HELP, OPT_END},
	.args = {0, 2},
	.no_home = true,
	.run = run,
};
