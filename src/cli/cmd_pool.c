/* cove pool: boxes that are made ahead of time, by a server. */
#include "base/fd.h"
#include "base/size.h"
#include "cli/list.h"
#include "core/view.h"

#include <stdio.h>
#include <string.h>

/* ---- ls ---- */

static const char *state_of(const struct cove_pool_info *p)
{
	return !p->filled ? "no server fills it" : p->ready >= p->size ? "full" : "filling";
}

static void row(struct table *t, const void *item)
{
	const struct cove_pool_info *p = item;
	char size[SIZE_TEXT];

	table_cell(t, p->image);
	table_cell(t, p->owner);
	table_cellf(t, "%llu", (unsigned long long)p->size);
	table_cellf(t, "%llu", (unsigned long long)p->ready);
	table_cell(t, p->disk_bytes ? size_format(size, p->disk_bytes) : "");
	table_cell(t, p->why[0] && p->filled ? p->why : state_of(p));
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_pools(c->cove, ret, err);
}

static const struct list_form form = {
	.titles = {"IMAGE", "KEY", "SIZE", "READY", "DISK", "STATE"},
	.right = 1 << 2 | 1 << 3 | 1 << 4,
	.optional = 1 << 1 | 1 << 4,
	.empty = "no pools; `cove pool set IMAGE --size N` makes one",
	.size = sizeof(struct cove_pool_info),
	.get = get,
	.row = row,
	.fields = view_pool_fields,
};

/* ---- set, rm ---- */

static bool is_filled(struct cli *c)
{
	autofree struct cove_pool_info *list = NULL;

	return cove_pools(c->cove, &list, NULL) > 0 && list[0].filled;
}

static int set(struct cli *c)
{
	const struct cove_pool_options o = {
		.size = sizeof(o),
		.image = c->o.args[0],
		.count = c->o.count,
		.disk_bytes = c->o.box.disk_bytes,
	};
	unsigned events = c->events;
	struct cove_error err;

	if (!o.count)
		return cli_usage(c, "give --size N: how many boxes are to be ready");
	if (cove_pool_set(c->cove, &o, &err) < 0)
		return cli_fail(c, &err);
	if (!c->o.quiet && !c->o.json && !is_filled(c))
		cli_note("no server runs that fills it: cove serve");
	return cli_done(c, o.image, "set", events);
}

static int remove_one(struct cli *c, const char *image, struct cove_error *err)
{
	return cove_pool_remove(c->cove, image, NULL, err);
}

static const struct verb pool_set = {
	.name = "pool set",
	.synopsis = "pool set IMAGE --size N [--disk SIZE]",
	.summary = "keep N boxes of an image ready",
	.help = "The server (cove serve) makes them, and another whenever one was taken. A box\n"
		"that is asked of it takes one if it is of that image and disk, with a network,\n"
		"and without workspace, mounts, --strict, --ptrace, --ctl or --io; everything\n"
		"else (name, env, other limits, policy, labels, times, user) comes to it then.\n"
		"Any other box is made as ever.\n"
		"\n"
		"Examples\n"
		"  cove pool set base --size 8\n"
		"  cove pool set python --size 4 --disk 2g\n",
	.options = (const enum opt_id[]){OPT_POOL_COUNT, OPT_DISK, OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.run = set,
};
static const struct verb pool_ls = {
	.name = "pool ls",
	.synopsis = "pool ls",
	.summary = "pools, and how full they are",
	.help = "READY is how many boxes wait now; STATE says why one is not full.\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {0, 0},
	.list = &form,
};
static const struct verb pool_rm = {
	.name = "pool rm",
	.synopsis = "pool rm IMAGE...",
	.summary = "keep none ready any more",
	.help = "Boxes that are somebody's already stay.\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = remove_one,
	.result = "removed",
};

static const struct verb *const verbs[] = {&pool_set, &pool_ls, &pool_rm, NULL};

static int run(struct cli *c)
{
	return cli_usage(c, "pool has no verb '%.60s'; usage: cove %s", c->o.args[0],
			 c->verb->synopsis);
}

const struct verb verb_pool = {
	.name = "pool",
	.synopsis = "pool set|ls|rm ...",
	.summary = "boxes that a server makes ahead",
	.help = "set   keep N boxes of an image ready\n"
		"ls    pools, and how full they are\n"
		"rm    keep none ready any more\n"
		"\n"
		"`cove help pool VERB` shows flags.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.no_home = true,
	.run = run,
	.own = verbs,
};
