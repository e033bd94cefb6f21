/* cove pause: freeze boxes in memory. */
#include "cli/cli.h"

static int pause_box(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_pause(c->cove, name, err);
}

const struct verb verb_pause = {
	.name = "pause",
	.synopsis = "pause BOX...",
	.summary = "freeze a box in memory",
	.help = "Every process of the box is frozen where it is and keeps its memory, until\n"
		"`cove resume`. Commands are refused meanwhile; stop, rm, logs, ps and inspect\n"
		"work. Time stops for its commands' timeouts and for --idle; --ttl goes\n"
		"on. Pausing again is no error. It needs cgroups, which an ordinary user has\n"
		"where they are delegated (`cove doctor` says).\n"
		"\n"
		"Examples\n"
		"  cove pause dev\n"
		"  cove resume dev\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = pause_box,
	.result = "paused",
};
