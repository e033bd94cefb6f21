/* cove version: of the program and of the library's ABI. */
#include "cli/cli.h"

#include <stdio.h>

static int run(struct cli *c)
{
	/* A build whose protections can be switched off must not pass for another. */
#ifdef COVE_CONTROLS
	static const char note[] = " FOR TESTS ONLY: its protections can be switched off";
#else
	static const char note[] = "";
#endif
	char text[160];
	int n = snprintf(text, sizeof(text),
			 c->o.json ? "{\"version\":\"%s%s\",\"abi\":%d}\n" : "cove %s%s (abi %d)\n",
			 cove_version(), note, cove_abi());

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
