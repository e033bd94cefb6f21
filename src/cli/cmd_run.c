/* cove run: a fresh box, one command, and the box is gone. */
#include "base/fd.h"
#include "cli/command.h"

static int run(struct cli *c)
{
	struct cove_box_options options = cli_box_options(&c->o);
	autofree const char **argv = NULL;
	struct cove_command command = {.size = sizeof(command),
				       .merge = c->o.merge,
				       .grace_ms = cli_command(&c->o).grace_ms};
	struct cove_box *box;
	struct cove_error err;
	int r;

	if (cove_image_argv(c->cove, options.image, c->o.entrypoint, c->o.args, &argv, &err) < 0)
		return cli_fail(c, &err);
	if (!argv[0])
		return cli_usage(
			c, "no command; try `cove run -- ls /`, or `cove shell` for a terminal");
	command.argv = argv;
	/* A signal while the box is made ends us at once, and the box with us: it is one-shot. */
	options.one_shot = true;
	if (cove_create(c->cove, &options, &box, &err) < 0)
		return cli_fail(c, &err);
	r = command_run(c, box, &command, COMMAND_TERMINAL | COMMAND_STDIN | COMMAND_ONE_SHOT);
	cove_box_free(box);
	return r;
}

const struct verb verb_run = {
	.name = "run",
	.synopsis = "run [FLAGS] [--] [CMD] [ARG...]",
	.summary = "run a command in a fresh, one-time box",
	.help = "stdin, stdout, stderr and the exit status pass through. From a terminal the\n"
		"command gets a terminal; in a pipe it gets the pipe. Ctrl-C goes to the\n"
		"command; where it has no terminal (-T, or in a pipe) a second one ends it.\n"
		"Nothing is left of the box but what it wrote to a --workspace or --mount. Its\n"
		"only way out is the door: --net says what may pass, and by default that is\n"
		"fetching from package registries and code hosts. With --json the result is\n"
		"printed as one object when the command has ended. --timeout is SIGTERM, and\n"
		"SIGKILL after --grace; where commands have no cgroup of their own (`cove doctor`\n"
		"says so) it is SIGKILL at once.\n"
		"\n"
		"--in puts files of yours into the box first, --out brings what the command\n"
		"left, also when it failed; `man cove` has the details.\n"
		"\n"
		"An image that says what it runs (`cove image inspect`) is run as people expect:\n"
		"what is given are arguments of its entrypoint, and nothing given means its own\n"
		"command. --entrypoint runs another program, '' the given words themselves.\n"
		"\n"
		"Examples\n"
		"  cove run -- python3 -c 'print(6 * 7)'\n"
		"  cove run --workspace ./project -- make test\n"
		"  tar c src | cove run --timeout 30s -- tar t\n"
		"  cove run --in ./src --out src/log.txt -- make -C src\n"
		"  cove run --in -:in.md --out in.html:- -- pandoc in.md -o in.html < a.md\n"
		"  cove run --net closed -- ./untrusted\n"
		"  cove run --image python:3.12 --entrypoint '' -- python3 --version\n"
		"  cove run --allow api.example.org:443 -- ./client\n"
		"  cove run --mem 512M --cpus 0.5 --pids 100 -- ./untrusted\n"
		"\n"
		"Exit status: the command's own; 128+N ended by signal N (137: also when the\n"
		"box's memory ran out, and a line on stderr says so); 124 timed out; 125 Cove\n"
		"failed; 126 the command cannot be executed; 127 no such command; 2 wrong\n"
		"usage.\n",
	.options = (const enum opt_id[]){OPT_NAME, OPTS_BOX, OPT_ENTRYPOINT, OPTS_FILES, OPT_GRACE,
					 OPT_MAX_OUTPUT, OPT_MERGE, OPT_TTY, OPT_NO_TTY,
					 OPT_INTERACTIVE, OPTS_COMMON, OPTS_LIMITS, OPT_END},
	.command_at = 1,
	.args = {0, -1},
	.run = run,
};
