/* Making a box that stays; see box.h. */
#include "cli/box.h"

#include "base/fd.h"
#include "cli/signals.h"

#include <stdio.h>
#include <string.h>

void box_hold_signals(void)
{
	/* Without the pipe a signal ends us as usual. */
	(void)signals_catch();
}

static int say_made(struct cli *c, const char *name)
{
	autofree char *json = NULL;
	struct cove_error err;
	char line[80];

	if (!c->o.json) {
		snprintf(line, sizeof(line), "%s\n", name);
		return cli_out(c, line, strlen(line));
	}
	if (cove_inspect(c->cove, name, &json, &err) < 0)
		return cli_fail(c, &err);
	return cli_out_json(c, json);
}

int box_made(struct cli *c, const char *name, bool fresh)
{
	struct cove_error err;
	int sig = signals_next_end();
	int status = sig ? EXIT_SIGNAL + sig : say_made(c, name);

	/* Whoever was not told the name does not know that the box is there. */
	if (status && fresh && cove_remove(c->cove, name, true, &err) < 0)
		return cli_fail(c, &err);
	return status;
}
