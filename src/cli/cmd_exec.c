/* cove exec: one command in a box, with no memory of others. */
#include "cli/command.h"

static int run(struct cli *c)
{
	struct cove_command command = cli_command(&c->o);

	command.argv = c->o.args + 1;
	return c->o.background ? command_background(c, c->box, &command)
			       : command_run(c, c->box, &command, true, false);
}

const struct verb verb_exec = {
	.name = "exec",
	.synopsis = "exec [FLAGS] BOX [--] CMD [ARG...]",
	.summary = "one command in a box",
	.help = "Each command starts afresh in the box's directory with the box's\n"
		"environment; `cove sh` is the one that remembers. stdin, stdout, stderr and\n"
		"the exit status pass through. With -d it runs on by itself: `cove ps`, `cove\n"
		"logs`, `cove attach` and `cove kill` know its id; -d with -i or -t keeps its\n"
		"stdin open for `cove attach`. Ctrl-C goes to the command; where it has no\n"
		"terminal (-T, or in a pipe) a second one ends it.\n"
		"\n"
		"Examples\n"
		"  cove exec dev -- ls -l\n"
		"  cove exec -u root -w / dev -- apt-get --version\n"
		"  id=$(cove exec -d dev -- python3 -m http.server)\n"
		"  cove logs -f --exec $id dev\n"
		"  id=$(cove exec -d -t dev -- bash); cove attach -t dev $id\n"
		"\n"
		"Exit status: the command's own; 128+N ended by signal N (137: also when the\n"
		"box's memory ran out, and a line on stderr says so); 124 timed out; 125 Cove\n"
		"failed; 126 the command cannot be executed; 127 no such command; 2 wrong\n"
		"usage.\n",
	.options = (const enum opt_id[]){OPTS_COMMAND, OPT_TTY, OPT_NO_TTY, OPT_INTERACTIVE,
					 OPT_BACKGROUND, OPT_TOKEN, OPTS_COMMON, OPT_END},
	.command_at = 2,
	.args = {2, -1},
	.has_box = true,
	.run = run,
};
