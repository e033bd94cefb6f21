/* cove ps: the commands of a box, running and finished. */
#include "base/fd.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/list.h"

#include <stdio.h>
#include <string.h>

enum { RIGHT = 1 << 0 | 1 << 5 | 1 << 6 };

/* "exit 0", "signal KILL", "stopped (TERM)", or the cause where no number says more. */
static void status_cell(struct table *t, const struct cove_exec_info *x)
{
	const char *name = str_signal_name(x->signal);

	if (x->signal && x->cause[0] && !str_starts(x->cause, "signal"))
		table_cellf(t, "%s (%s)", x->cause, name ? name : "signal");
	else if (x->signal)
		table_cellf(t, "signal %s", name ? name : "?");
	else if (x->has_exit && strcmp(x->cause, "stopped") == 0)
		table_cellf(t, "stopped (exit %d)", x->exit_code);
	else if (x->has_exit && strcmp(x->cause, "timeout") != 0 &&
		 strcmp(x->cause, "failed to start") != 0)
		table_cellf(t, "exit %d", x->exit_code);
	else
		table_cell(t, x->cause);
}

/* For the eye: an empty line is seen, and `cove shell` is what he typed. */
static const char *shown_command(const char *command)
{
	if (strcmp(command, COMMAND_LOGIN) == 0)
		return "(cove shell)";
	return command[0] ? command : "''";
}

static void row(struct table *t, const void *item)
{
	const struct cove_exec_info *x = item;
	char text[SIZE_TEXT];

	table_cellf(t, "%llu", (unsigned long long)x->exec_id);
	table_cell(t, x->state);
	status_cell(t, x);
	table_cell(t, x->shell);
	table_cell(t, text_duration(text, x->duration_ms));
	table_cell(t, size_format(text, x->out_bytes));
	table_cell(t, size_format(text, x->err_bytes));
	table_cell(t, shown_command(x->command));
}

static void name(struct buf *b, const void *item)
{
	(void)buf_printf(b, "%llu",
			 (unsigned long long)((const struct cove_exec_info *)item)->exec_id);
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	int count = cove_execs(c->cove, c->o.args[0], ret, err);

	if (count >= 0 && err->kind == COVE_DAMAGED)
		cli_note("%s", err->message);
	return count;
}

static const struct list_form form = {
	.titles = {"EXEC", "STATE", "STATUS", "SHELL", "TIME", "OUT", "ERR", "COMMAND"},
	.right = RIGHT,
	.empty = "no commands yet",
	.size = sizeof(struct cove_exec_info),
	.get = get,
	.row = row,
	.fields = view_exec_fields,
	.name = name,
};

const struct verb verb_ps = {
	.name = "ps",
	.synopsis = "ps [-q] [--json] BOX",
	.summary = "commands of a box, running and done",
	.help = "EXEC is the id that logs, attach and kill take. A box remembers its last\n"
		"2,048 commands. For the processes inside: `cove exec BOX -- ps aux`. -q\n"
		"prints ids only.\n"
		"\n"
		"Examples\n"
		"  cove ps dev\n"
		"  cove ps --json dev | jq '.[] | select(.state == \"running\")'\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.list = &form,
};
