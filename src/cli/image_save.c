/* cove image save: what a box has become, as an image. */
#include "cli/cli.h"
#include "cli/watch.h"

static int run(struct cli *c)
{
	const char *box = c->o.args[0], *image = c->o.args[1];
	unsigned events = c->events;
	struct cove_error err;
	struct watch watch;
	int r;

	watch_start_words(&watch, "saving", box, c->o.json);
	r = cove_image_save(c->cove, box, image, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_broken(c, &err);
	if (!c->o.json)
		cli_note("image '%s' is ready", image);
	return cli_done(c, image, "saved", events);
}

const struct verb verb_image_save = {
	.name = "image save",
	.synopsis = "image save BOX NAME",
	.summary = "make an image of what a box has become",
	.help = "What the box wrote becomes one more layer above those it stands on; how programs\n"
		"are run is taken from its image. Not in it: its workspace, host directories,\n"
		"memory. A box that runs is frozen for the moment it takes.\n"
		"\n"
		"Examples\n"
		"  cove image save dev tools:v2\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.run = run,
};
