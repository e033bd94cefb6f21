/* Making a box that stays; see box.h. */
#include "cli/box.h"

#include "base/fd.h"
#include "cli/signals.h"
#include "cli/watch.h"

#include <stdio.h>
#include <string.h>

int box_make(struct cli *c, bool is_session)
{
	struct cove_box_options options = cli_box_options(&c->o);
	autofree char *json = NULL;
	struct cove_box *box;
	struct cove_error err;
	const char *name;
	struct watch watch;
	char line[80];
	int r, sig;

	/* Before signals are caught: it ends by them. */
	watch_start_words(&watch, c->verb->name,
			  is_session	  ? c->o.args[0]
			  : c->o.box.name ? c->o.box.name
					  : "a box",
			  c->o.json || c->o.verbose);
	/* Without the pipe a signal ends us as usual. */
	(void)signals_catch();
	r = is_session ? cove_open(c->cove, c->o.args[0], c->o.prefix, &options, &box, &err)
		       : cove_create(c->cove, &options, &box, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_fail(c, &err);
	name = cove_box_name(box);
	snprintf(line, sizeof(line), "%s\n", name);
	sig = signals_next_end();
	if (sig)
		r = EXIT_SIGNAL + sig;
	else if (!c->o.json)
		r = cli_out(c, line, strlen(line));
	else
		r = cove_inspect(c->cove, name, &json, &err) < 0 ? cli_fail(c, &err)
								 : cli_out_json(c, json);
	/* A caller that did not get the name does not know that the box is there. */
	if (r && !is_session && cove_remove(c->cove, name, true, &err) < 0)
		r = cli_fail(c, &err);
	cove_box_free(box);
	return r;
}
