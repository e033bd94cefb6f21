/* cove kill: a signal for commands of a box. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>

static int signal_one(struct cli *c, const char *text, struct cove_error *err)
{
	int sig = c->o.signal ? c->o.signal : SIGTERM, r;
	uint64_t exec_id;

	r = cli_exec_id(c, text, &exec_id);
	if (r)
		return r;
	r = cove_signal(c->box, exec_id, sig, err);
	/* What is to be dead and is already is fine: it may have ended between a list and now. */
	return r < 0 && sig == SIGKILL && err->code == ESRCH ? 0 : r;
}

static int run(struct cli *c)
{
	return cli_each(c, 1, "signalled", signal_one);
}

const struct verb verb_kill = {
	.name = "kill",
	.synopsis = "kill [-s SIGNAL] BOX EXEC...",
	.summary = "signal a command",
	.help = "KILL ends everything the command started, however it was detached; a command\n"
		"that has ended already is fine then.\n"
		"\n"
		"Examples\n"
		"  cove kill dev 7\n"
		"  cove kill -s INT dev 7\n"
		"  cove kill -s KILL dev $(cove ps -q dev)\n",
	.options = (const enum opt_id[]){OPT_SIGNAL, OPTS_COMMON, OPT_END},
	.args = {2, -1},
	.has_box = true,
	.run = run,
};
