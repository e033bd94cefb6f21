/* cove ls: the boxes. */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/list.h"

#include <string.h>

static const char *const titles[] = {"NAME", "STATE", "IMAGE", "WORKSPACE", "AGE", "ENDED BY"};

static void row(struct table *t, const void *item)
{
	const struct cove_box_info *b = item;
	char age[16];

	table_cell(t, b->name);
	table_cellf(t, "%s%s", b->state, b->outdated ? " (outdated)" : "");
	table_cell(t, b->image);
	table_cell(t, b->workspace);
	table_cell(t, text_duration(age, clock_wall_since_ms(b->created_ms)));
	if (b->by[0] && strcmp(b->cause, b->by) != 0)
		table_cellf(t, "%s (%s)", b->cause, b->by);
	else
		table_cell(t, b->cause);
}

static void object(struct json *j, const void *item)
{
	const struct cove_box_info *b = item;

	json_kv_str(j, "name", b->name);
	json_kv_str(j, "state", b->state);
	json_kv_bool(j, "outdated", b->outdated);
	json_kv_str(j, "image", b->image);
	list_kv_str(j, "workspace", b->workspace);
	list_kv_str(j, "session", b->session);
	json_kv_str(j, "persistence", b->persistence);
	json_kv_u64(j, "created_ms", b->created_ms);
	list_kv_u64(j, "started_ms", b->started_ms);
	list_kv_u64(j, "ended_ms", b->ended_ms);
	list_kv_str(j, "cause", b->cause);
	list_kv_str(j, "by", b->by);
	list_kv_u64(j, "keeper_pid", (uint64_t)b->keeper_pid);
}

static void name(struct buf *b, const void *item)
{
	(void)buf_append_str(b, ((const struct cove_box_info *)item)->name);
}

static const struct list_form form = {
	.titles = titles,
	.columns = sizeof(titles) / sizeof(titles[0]),
	.empty = "no boxes; make one with `cove create`, or just `cove run -- CMD`",
	.row = row,
	.object = object,
	.name = name,
};

/* A person hears what to do; who reads JSON has the field. */
static void note_outdated(const struct cove_box_info *boxes, int count)
{
	for (int i = 0; i < count; i++)
		if (boxes[i].outdated)
			cli_note(
				"box '%s' runs with an init from before a security mend: cove stop "
				"%s && cove start %s",
				boxes[i].name, boxes[i].name, boxes[i].name);
}

static int run(struct cli *c)
{
	autofree struct cove_box_info *boxes = NULL;
	struct cove_error err;
	int r = cli_open(c), count;

	if (r)
		return r;
	count = cove_list(c->cove, &boxes, &err);
	if (count < 0)
		return cli_fail(c, &err);
	r = list_print(c, &form, boxes, sizeof(*boxes), (size_t)count);
	if (!c->o.json && !c->o.quiet)
		note_outdated(boxes, count);
	return r;
}

static const enum opt_id options[] = {OPT_QUIET, OPTS_COMMON, OPT_END};

const struct verb verb_ls = {
	.name = "ls",
	.synopsis = "ls [-q] [--json]",
	.summary = "list boxes",
	.help = "A box is created, running, paused or stopped. A stopped one shows why it ended\n"
		"and who asked. -q prints names only. One that is (outdated) runs with an init\n"
		"from before a security mend: stop and start it.\n"
		"\n"
		"Examples\n"
		"  cove ls\n"
		"  cove ls --json | jq -r '.[] | select(.state == \"stopped\") | .name'\n"
		"  cove rm -f $(cove ls -q)                    # all of them\n",
	.options = options,
	.command_after = -1,
	.args_min = 0,
	.args_max = 0,
	.run = run,
};
