/* Making a box that stays; see box.h. */
#include "cli/box.h"

#include "base/fd.h"
#include "cli/signals.h"

#include <stdio.h>
#include <string.h>

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

int box_make(struct cli *c, bool is_session)
{
	struct cove_box_options options = cli_box_options(&c->o);
	struct cove_box *box;
	struct cove_error err;
	int r, sig;

	/* Without the pipe a signal ends us as usual. */
	(void)signals_catch();
	r = is_session ? cove_open(c->cove, c->o.args[0], c->o.prefix, &options, &box, &err)
		       : cove_create(c->cove, &options, &box, &err);
	if (r < 0)
		return cli_fail(c, &err);
	sig = signals_next_end();
	r = sig ? EXIT_SIGNAL + sig : say_made(c, cove_box_name(box));
	/* A caller that did not get the name does not know that the box is there. */
	if (r && !is_session && cove_remove(c->cove, cove_box_name(box), true, &err) < 0)
		r = cli_fail(c, &err);
	cove_box_free(box);
	return r;
}
