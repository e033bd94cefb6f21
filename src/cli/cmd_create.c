/* cove create: make and start a box that stays, and print its name. */
#include "cli/box.h"

static int run(struct cli *c)
{
	return box_make(c, false);
}

const struct verb verb_create = {
	.name = "create",
	.synopsis = "create [FLAGS]",
	.summary = "make a box that stays; print its name",
	.help = "The box runs until `cove stop` or `cove rm`. -e, -w, -u and --timeout become\n"
		"the defaults of its commands; a user or directory that the box does not have is\n"
		"an error, and no box is made. A limit that this host cannot enforce is an error\n"
		"that says how to get it; with --best-effort `cove inspect` lists it instead.\n"
		"With --json the whole description is printed instead of the name.\n"
		"\n"
		"Examples\n"
		"  cove create --name dev --workspace dev\n"
		"  box=$(cove create)\n"
		"  cove sh $box 'cd /tmp'; cove sh $box pwd; cove rm -f $box\n"
		"  cove create --workspace dev --mount cache:/cache,env=CACHE\n"
		"  cove create --mount /srv/data:/data:ro\n"
		"  cove create --net ./policy.yaml --net-bytes 1G\n"
		"  cove create --mem 1G --disk 2G --idle 30m --expire remove\n",
	.options = (const enum opt_id[]){OPT_NAME, OPTS_BOX, OPTS_COMMON, OPTS_LIMITS, OPT_END},
	.answers = true,
	.run = run,
};
