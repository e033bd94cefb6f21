/* cove start: boxes that were stopped, again. */
#include "base/fd.h"
#include "cli/port.h"

#include <string.h>

static bool is_running(struct cli *c, const char *name)
{
	autofree struct cove_box_info *boxes = NULL;
	int count = cove_list(c->cove, &boxes, NULL);

	for (int i = 0; i < count; i++)
		if (strcmp(boxes[i].name, name) == 0)
			return strcmp(boxes[i].state, "running") == 0 ||
			       strcmp(boxes[i].state, "paused") == 0;
	return false;
}

static int start(struct cli *c, const char *name, struct cove_error *err)
{
	bool was_running = is_running(c, name);
	int r = cove_start(c->cove, name, err);

	return r < 0 ? r : port_restore(c, name, was_running);
}

const struct verb verb_start = {
	.name = "start",
	.synopsis = "start BOX...",
	.summary = "start a stopped box again",
	.help = "Files are as they were when it stopped, but with --storage tmpfs they are gone;\n"
		"processes and shells are not there any more. A box that runs already is fine.\n"
		"Ports that were forwarded in the background (`cove port -d`) when it stopped are\n"
		"again, or a line says why not.\n"
		"\n"
		"Examples\n"
		"  cove start dev\n"
		"  cove start dev && cove sh dev pwd\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = start,
	.result = "started",
};
