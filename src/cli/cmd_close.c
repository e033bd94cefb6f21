/* cove close: the end of a session, by its persistence. */
#include "cli/cli.h"
#include "cli/watch.h"

static int run(struct cli *c)
{
	struct cove_error err;
	unsigned events = c->events;
	struct watch watch;
	int r;

	watch_start_words(&watch, "close", c->o.args[0], c->o.json || c->o.verbose);
	r = cove_close(c->cove, c->o.args[0], c->o.prefix, c->o.remove, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_fail(c, &err);
	return cli_done(c, c->o.args[0], "closed", events);
}

const struct verb verb_close = {
	.name = "close",
	.synopsis = "close SESSION [--prefix P] [--delete]",
	.summary = "end a session, by its persistence",
	.help = "Persistence 'workspace' (the default of open): the box is removed,\n"
		"/workspace stays. Persistence 'box': the box is stopped; the next open finds\n"
		"its files as they were. --delete removes the box in both cases, also a\n"
		"stopped one, and is fine with none. A workspace is only ever removed by\n"
		"`cove workspace rm`.\n"
		"\n"
		"Examples\n"
		"  cove close ticket-4711\n"
		"  cove close ticket-4711 --prefix support-prod-acme --delete\n",
	.options = (const enum opt_id[]){OPT_PREFIX, OPT_DELETE, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.run = run,
};
