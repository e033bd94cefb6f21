/* cove kill: a signal for commands of a box. */
#include "base/str.h"
#include "cli/cli.h"

#include <signal.h>

static int run(struct cli *c)
{
	struct cove_error err;
	struct cove_box *box;
	uint64_t exec_id;
	int status;

	for (size_t i = 1; i < c->o.arg_count; i++)
		if (!str_parse_u64(c->o.args[i], UINT64_MAX, &exec_id))
			return cli_usage(c, "'%.60s' is not an exec id; `cove ps %.60s` lists them",
					 c->o.args[i], c->o.args[0]);
	status = cli_find(c, &box);
	if (status)
		return status;
	for (size_t i = 1; i < c->o.arg_count; i++) {
		(void)str_parse_u64(c->o.args[i], UINT64_MAX, &exec_id);
		if (cove_signal(box, exec_id, c->o.signal ? c->o.signal : SIGTERM, &err) < 0)
			status = cli_fail(c, &err);
	}
	cove_box_free(box);
	return status;
}

static const enum opt_id options[] = {OPT_SIGNAL, OPTS_COMMON, OPT_END};

const struct verb verb_kill = {
	.name = "kill",
	.synopsis = "kill [-s SIGNAL] BOX EXEC...",
	.summary = "signal a command",
	.help = "KILL ends everything the command started, however it was detached.\n"
		"\n"
		"Examples\n"
		"  cove kill dev 7\n"
		"  cove kill -s INT dev 7\n"
		"  cove kill -s KILL dev $(cove ps -q dev)\n",
	.options = options,
	.command_after = -1,
	.args_min = 2,
	.args_max = -1,
	.run = run,
};
