/* cove resume: thaw paused boxes. */
#include "cli/cli.h"

static int resume(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_resume(c->cove, name, err);
}

const struct verb verb_resume = {
	.name = "resume",
	.synopsis = "resume BOX...",
	.summary = "let a paused box go on",
	.help = "What `cove pause` froze goes on where it stood. A box that is not paused stays\n"
		"as it is.\n"
		"\n"
		"Examples\n"
		"  cove resume dev\n"
		"  cove ls --json | jq -r '.[] | select(.state == \"paused\").name' |\n"
		"      xargs cove resume\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = resume,
	.result = "resumed",
};
