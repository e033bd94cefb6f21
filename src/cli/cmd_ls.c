/* cove ls: the boxes. */
#include "base/clock.h"
#include "cli/list.h"
#include "core/view.h"

#include <string.h>

static void row(struct table *t, const void *item)
{
	const struct cove_box_info *b = item;
	char age[16];

	table_cell(t, b->name);
	table_cellf(t, "%s%s", b->state, b->outdated ? " (outdated)" : "");
	table_cell(t, b->image);
	table_cell(t, b->workspace);
	table_cell(t, b->created_ms ? text_duration(age, clock_wall_since_ms(b->created_ms)) : "");
	if (b->by[0] && strcmp(b->cause, b->by) != 0)
		table_cellf(t, "%s (%s)", b->cause, b->by);
	else
		table_cell(t, b->cause);
}

/* A person hears of an old init what to do; who reads JSON has the field. */
static int get(struct cli *c, void *ret, struct cove_error *err)
{
	struct cove_box_info **boxes = ret;
	int count = cove_list(c->cove, boxes, err);

	for (int i = 0; i < count && !c->o.json && !c->o.quiet; i++) {
		const char *name = (*boxes)[i].name;

		if ((*boxes)[i].outdated)
			cli_note(
				"box '%s' runs with an init from before a security mend: cove stop "
				"%s && cove start %s",
				name, name, name);
	}
	return count;
}

static const struct list_form form = {
	.titles = {"NAME", "STATE", "IMAGE", "WORKSPACE", "AGE", "ENDED BY"},
	.empty = "no boxes; make one with `cove create`, or just `cove run -- CMD`",
	.size = sizeof(struct cove_box_info),
	.get = get,
	.row = row,
	.fields = view_box_fields,
};

const struct verb verb_ls = {
	.name = "ls",
	.synopsis = "ls [-q] [--json]",
	.summary = "list boxes",
	.help = "A box is created, running, paused or stopped. A stopped one shows why it ended\n"
		"and who asked. One that is damaged has a file that is not as it was written:\n"
		"`cove inspect` says which, and what to do. One that is (outdated) runs with an\n"
		"init from before a security mend: stop and start it. -q prints names only.\n"
		"\n"
		"Examples\n"
		"  cove ls\n"
		"  cove ls --json | jq -r '.[] | select(.state == \"stopped\") | .name'\n"
		"  cove rm -f $(cove ls -q)                    # all of them\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.list = &form,
};
