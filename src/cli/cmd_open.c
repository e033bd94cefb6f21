/* cove open: a session's box, made, started or joined. */
#include "cli/box.h"

static int run(struct cli *c)
{
	return box_make(c, true);
}

const struct verb verb_open = {
	.name = "open",
	.synopsis = "open SESSION [--prefix P] [FLAGS]",
	.summary = "make, start or join a session's box",
	.help = "SESSION is your own id (a ticket, a chat, a user): any text, always the same\n"
		"box. The box is named PREFIX-<16 hex digits of the id's SHA-256>, which is\n"
		"printed; opening it again is no error. Its workspace has the same name unless\n"
		"--workspace says otherwise.\n"
		"\n"
		"Examples\n"
		"  box=$(cove open ticket-4711 --prefix support-prod-acme)\n"
		"  cove sh $box 'git clone ... && make'\n"
		"  cove close ticket-4711 --prefix support-prod-acme\n",
	.options = (const enum opt_id[]){OPT_PREFIX, OPT_PERSISTENCE, OPTS_BOX, OPTS_COMMON,
					 OPTS_LIMITS, OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = run,
};
