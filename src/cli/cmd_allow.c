/* cove allow: let a box reach a host, from now on, for a while or once. */
#include "cli/door.h"

static int run(struct cli *c)
{
	return door_grant(c, true);
}

const struct verb verb_allow = {
	.name = "allow",
	.synopsis = "allow BOX HOST[:PORT]... [--for TIME]",
	.summary = "let a box reach a host, now",
	.help = "HOST is a name, *.suffix, an address or a range (10.0.0.0/8); without PORT it\n"
		"is for 443 and 80. It holds beside the box's policy until the box is removed or\n"
		"another policy is applied; with --for so long, with --once for the next\n"
		"connection.\n"
		"What a rule of the policy denies stays denied, and private addresses need a\n"
		"rule of a policy that says so.\n"
		"\n"
		"Examples\n"
		"  cove allow dev api.example.org:443\n"
		"  cove allow dev '*.example.org' --for 10m\n"
		"  cove allow dev db.example.org:5432 --once\n",
	.options = (const enum opt_id[]){OPT_ONCE, OPT_FOR, OPTS_COMMON, OPT_END},
	.args = {2, -1},
	.run = run,
};
