/* cove exec: one command in a box, with no memory of others. */
#include "cli/command.h"

static int run(struct cli *c)
{
	struct cove_command command = cli_command(&c->o);

	command.argv = c->o.args + 1;
	return c->o.background ? command_background(c, c->box, &command)
			       : command_run(c, c->box, &command, COMMAND_TERMINAL);
}

const struct verb verb_exec = {
	.name = "exec",
	.synopsis = "exec [FLAGS] BOX [--] CMD [ARG...]",
	.summary = "one command in a box",
	.help = "Each command starts afresh in the box's directory with the box's\n"
		"environment; `cove sh` is the one that remembers. stdout, stderr and the exit\n"
		"status pass through. stdin is passed with -i, and in a terminal (-t, or where\n"
		"stdin and stdout are one); else it is empty, so that a loop that reads a list\n"
		"keeps its own. With -d it runs on by itself: `cove ps`, `cove logs`, `cove\n"
		"attach` and `cove kill` know its id; -d with -i or -t keeps its stdin open for\n"
		"`cove attach`. Ctrl-C goes to the command; where it has no terminal (-T, or in\n"
		"a pipe) a second one ends it.\n"
		"--timeout is SIGTERM, and SIGKILL after --grace; where commands have no cgroup\n"
		"of their own (`cove doctor` says so) it is SIGKILL at once.\n"
		"A command has at most 4,096 arguments and 1,024 variables, 1 MiB in all; at most\n"
		"512 commands run in a box at once, and 128 clients are connected to it.\n"
		"\n"
		"Examples\n"
		"  cove exec dev -- ls -l\n"
		"  cove exec -i dev -- tar x < source.tar\n"
		"  cove exec -u root -w / dev -- apt-get --version\n"
		"  cove exec --in ./a.csv --out b.csv dev -- ./convert a.csv b.csv\n"
		"  id=$(cove exec -d dev -- python3 -m http.server)\n"
		"  cove logs -f --exec $id dev\n"
		"  id=$(cove exec -d -t dev -- bash); cove attach -t dev $id\n"
		"\n"
		"Exit status: the command's own; 128+N ended by signal N (137: also when the\n"
		"box's memory ran out, and a line on stderr says so); 124 timed out; 125 Cove\n"
		"failed; 126 the command cannot be executed; 127 no such command; 2 wrong\n"
		"usage.\n",
	.options = (const enum opt_id[]){OPTS_COMMAND, OPTS_FILES, OPT_GRACE, OPT_MAX_OUTPUT,
					 OPT_MERGE, OPT_TTY, OPT_NO_TTY, OPT_INTERACTIVE,
					 OPT_BACKGROUND, OPT_TOKEN, OPTS_COMMON, OPT_END},
	.command_at = 2,
	.args = {2, -1},
	.has_box = true,
	.run = run,
};
