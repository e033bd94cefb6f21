/* cove rm: remove boxes. */
#include "cli/cli.h"

static int remove_box(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_remove(c->cove, name, c->o.force, err);
}

static int run(struct cli *c)
{
	/* `cove rm -f $(cove ls -q)` with no boxes is fine. */
	if (c->o.arg_count == 0 && !c->o.force)
		return cli_usage(c, "which box? usage: cove %s", c->verb->synopsis);
	return cli_each(c, 0, "removed", remove_box);
}

const struct verb verb_rm = {
	.name = "rm",
	.synopsis = "rm [-f] BOX...",
	.summary = "remove a box; its workspace stays",
	.help = "A running box needs -f. With -f a box that does not exist is fine.\n"
		"\n"
		"Examples\n"
		"  cove rm dev\n"
		"  cove rm -f $(cove ls -q)\n",
	.options = (const enum opt_id[]){OPT_FORCE, OPTS_COMMON, OPT_END},
	.args = {0, -1},
	.run = run,
};
