/* cove shells: the shells of a box that remember. */
#include "cli/list.h"
#include "core/view.h"

#include <string.h>

enum { RIGHT = 1 << 2 | 1 << 3 };

static void row(struct table *t, const void *item)
{
	const struct cove_shell_info *s = item;

	table_cell(t, s->name);
	table_cell(t, s->state);
	if (s->exec_id)
		table_cellf(t, "%llu", (unsigned long long)s->exec_id);
	else
		table_cell(t, "");
	table_cellf(t, "%llu", (unsigned long long)s->queued);
	table_cell(t, s->user);
	table_cell(t, s->login ? "yes" : "");
	table_cell(t, s->cwd);
}

/* The word before it is the sub-verb. */
static int find(struct cli *c, struct cove_error *err)
{
	return cove_find(c->cove, c->o.args[1], &c->box, err);
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	int r = find(c, err);

	return r < 0 ? r : cove_shells(c->box, ret, err);
}

static const struct list_form form = {
	.titles = {"NAME", "STATE", "EXEC", "QUEUED", "USER", "LOGIN", "CWD"},
	.right = RIGHT,
	.empty = "no shells; the first `cove sh` makes one",
	.size = sizeof(struct cove_shell_info),
	.get = get,
	.row = row,
	.fields = view_shell_fields,
};

static int remove_one(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_shell_remove(c->box, name, c->o.force, err);
}

static int remove_all(struct cli *c)
{
	struct cove_error err;

	return find(c, &err) < 0 ? cli_fail(c, &err) : cli_each(c, 2, "removed", remove_one);
}

const struct verb verb_shells = {
	.name = "shells",
	.synopsis = "shells ls|rm [-f] BOX [NAME...]",
	.summary = "the shells of `cove sh`",
	.help = "ls  lists the shells of a box: idle, busy with the line EXEC, starting, or lost\n"
		"    (it died since its last line); lines that wait, user, directory\n"
		"rm  ends shells. One with lines that run or wait needs -f, which ends those\n"
		"    too (cause killed); with -f one that is not there is fine. The next line to\n"
		"    it starts a new one. Jobs that its lines left in the background live on, as\n"
		"    after `exit`\n"
		"\n"
		"A box has at most 32 shells at a time, and 256 lines wait for one. NAME is up\n"
		"to 64 letters, digits, '.', '_' and '-' (a UUID is one).\n"
		"\n"
		"Examples\n"
		"  cove shells ls dev\n"
		"  cove shells rm dev second\n"
		"  cove shells rm -f dev $(cove shells ls -q dev)\n",
	.options = (const enum opt_id[]){OPT_SHELL_FORCE, OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.subs =
		(const struct verb[]){
			{.name = "ls", .synopsis = "shells ls BOX", .args = {1, 1}, .list = &form},
			{.name = "rm",
			 .synopsis = "shells rm [-f] BOX NAME...",
			 .args = {2, -1},
			 .run = remove_all},
			{0}},
};
