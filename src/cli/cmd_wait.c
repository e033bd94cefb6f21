/* cove wait: until a command has ended; its status is ours. */
#include "base/fd.h"
#include "cli/cli.h"

static int run(struct cli *c)
{
	autofree char *json = NULL;
	struct cove_result result;
	struct cove_error err;
	uint64_t exec_id;
	int r = cli_exec_id(c, c->o.args[1], &exec_id);

	if (r)
		return r;
	if (cove_wait(c->cove, c->o.args[0], exec_id, c->o.wait_ms, &result, &err) < 0)
		return cli_fail(c, &err);
	if (c->o.json) {
		json = cove_result_json(&result);
		r = json ? cli_out_json(c, json) : cli_error(c, COVE_FULL, "out of memory");
	}
	if (r == 0)
		r = cli_result_status(&result);
	cove_result_free(&result);
	return r;
}

const struct verb verb_wait = {
	.name = "wait",
	.synopsis = "wait [--timeout TIME] BOX EXEC",
	.summary = "until a command ends; its status",
	.help = "EXEC is an id, as `cove exec -d` and `cove ps` print it. One that has ended\n"
		"already answers at once, also in a stopped box. Ctrl-C and --timeout end the\n"
		"waiting, not the command: `cove kill` does that. With --json the result is\n"
		"printed as `cove exec --json` prints it, with the first 1 MiB of each stream.\n"
		"\n"
		"Examples\n"
		"  id=$(cove exec -d dev -- make)\n"
		"  cove wait dev $id && cove logs --exec $id dev\n"
		"  cove wait --timeout 30s --json dev $id | jq .exit_code\n"
		"\n"
		"Exit status: the command's own; 128+N ended by signal N; 124 it timed out, or\n"
		"the waiting did (the error on stderr says so); 125 Cove failed, or it is not\n"
		"known how the command ended; 2 wrong usage.\n",
	.options = (const enum opt_id[]){OPT_WAIT_TIMEOUT, OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.run = run,
};
