/* cove version: of the program and of the library's ABI. */
#include "cli/cli.h"

#include <stdio.h>

static int run(struct cli *c)
{
	char text[128];
	int n = snprintf(text, sizeof(text),
			 c->o.json ? "{\"version\":\"%s\",\"abi\":%d}\n" : "cove %s (abi %d)\n",
			 cove_version(), cove_abi());

	return cli_out(c, text, (size_t)n);
}

static const enum opt_id options[] = {OPT_JSON, OPT_HELP, OPT_END};

const struct verb verb_version = {
	.name = "version",
	.synopsis = "version [--json]",
	.summary = "print the version",
	.help = "Also `cove --version`.\n",
	.options = options,
	.command_after = -1,
	.args_min = 0,
	.args_max = 0,
	.run = run,
};
