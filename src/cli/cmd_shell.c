/* cove shell: an interactive terminal in a box, or in one that is gone afterwards. */
#include "cli/command.h"

static int get_box(struct cli *c, struct cove_box **ret)
{
	struct cove_box_options options = cli_box_options(&c->o);
	struct cove_error err;

	if (c->o.arg_count > 0) {
		if (c->o.box.image || c->o.box.wall || c->o.box.workspace || c->o.mounts.count ||
		    c->o.labels.count || options_has_limits(&c->o))
			return cli_usage(
				c,
				"'%.60s' exists: --image, --workspace, --mount, --label and limits "
				"are for a fresh box",
				c->o.args[0]);
		return cli_find(c, ret);
	}
	options.one_shot = true;
	return cove_create(c->cove, &options, ret, &err) < 0 ? cli_fail(c, &err) : 0;
}

static int run(struct cli *c)
{
	struct cove_command command = cli_command(&c->o);
	struct cove_box *box;
	int r = get_box(c, &box);

	if (r)
		return r;
	command.line = COMMAND_LOGIN;
	r = command_run(c, box, &command,
			COMMAND_TERMINAL | COMMAND_STDIN |
				(c->o.arg_count == 0 ? COMMAND_ONE_SHOT : 0));
	cove_box_free(box);
	return r;
}

const struct verb verb_shell = {
	.name = "shell",
	.synopsis = "shell [FLAGS] [BOX]",
	.summary = "a terminal in a box, or in a fresh one",
	.help = "Without BOX a fresh box is made and is gone when the shell ends. The\n"
		"terminal's size, Ctrl-C, Ctrl-Z and full-screen programs work; Ctrl-D or\n"
		"`exit` leaves, and the shell ends with its terminal. One that stays:\n"
		"`cove exec -d -t BOX -- bash -l` prints its id, `cove attach -t BOX ID` joins\n"
		"it, and the detach key there is Ctrl-] twice.\n"
		"\n"
		"Examples\n"
		"  cove shell\n"
		"  cove shell dev\n"
		"  cove shell --workspace . --image host\n"
		"\n"
		"Exit status: the shell's own; 125 Cove failed; 2 wrong usage.\n",
	.options = (const enum opt_id[]){OPTS_BOX, OPT_VERBOSE, OPT_LOG_FILE, OPT_HELP, OPTS_LIMITS,
					 OPT_END},
	.args = {0, 1},
	.run = run,
};
