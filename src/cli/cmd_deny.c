/* cove deny: keep a box from a host, from now on, for a while or once. */
#include "cli/door.h"

static int run(struct cli *c)
{
	return door_grant(c, false);
}

const struct verb verb_deny = {
	.name = "deny",
	.synopsis = "deny BOX HOST[:PORT]... [--for TIME]",
	.summary = "keep a box from a host, now",
	.help = "The counterpart of `cove allow`, and stronger: a deny wins over every allow.\n"
		"Open connections to HOST are cut at once. With --once the next connection or\n"
		"request is denied, and those after it are not; `cove stop` ends that too.\n"
		"\n"
		"Examples\n"
		"  cove deny dev paste.example.org\n"
		"  cove deny dev '*.example.org:80' --for 1h\n",
	.options = (const enum opt_id[]){OPT_ONCE, OPT_FOR, OPTS_COMMON, OPT_END},
	.args = {2, -1},
	.run = run,
};
