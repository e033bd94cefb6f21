/* cove set: change how long a box may run. */
#include "cli/cli.h"

static int set(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_set_ttl(c->cove, name, c->o.box.ttl_ms, c->o.box.idle_ms, err);
}

const struct verb verb_set = {
	.name = "set",
	.synopsis = "set BOX... [--ttl TIME] [--idle TIME]",
	.summary = "change how long a box may run",
	.help = "A running box has --ttl from now on, whatever was left of the one before, and\n"
		"its idle time begins anew; one that does not run has it from its next start.\n"
		"What is set stays with the box. What becomes of it when that is over was said\n"
		"when it was made (--expire). One that sleeps (--expire pause) is not woken.\n"
		"\n"
		"Examples\n"
		"  cove set dev --ttl 1h\n"
		"  cove set dev --ttl none --idle 30m\n",
	.options = (const enum opt_id[]){OPT_SET_TTL, OPT_SET_IDLE, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = set,
	.result = "set",
};
