/* cove version: of the program and of the library's ABI. */
#include "cli/cli.h"

#include <stdio.h>

static int run(struct cli *c)
{
	static const char form[] = "cove %s (abi %d)\n";
	static const char json[] = "{\"version\":\"%s\",\"abi\":%d,\"controls\":false}\n";
	char text[160];
	int n = snprintf(text, sizeof(text), c->o.json ? json : form, cove_version(), cove_abi());

	return cli_out(c, text, (size_t)n);
}

const struct verb verb_version = {
	.name = "version",
	.synopsis = "version [--json]",
	.summary = "print the version",
	.help = "Also `cove --version`.\n",
	.options = (const enum opt_id[]){OPT_JSON, OPT_HELP, OPT_END},
	.no_home = true,
	.run = run,
};
