/* How verbs name files in a box: BOX:PATH. Anything else is a place here. */
#pragma once

#include "base/limits.h"
#include "cli/cli.h"

struct cli_place {
	const char *text;	    /* as it was written */
	const char *path;	    /* "." for "BOX:" */
	char box[BOX_NAME_MAX + 1]; /* empty: here */
	bool is_stream;		    /* "-" */
};

struct cli_place cli_place_of(const char *text);

/* The box of that name, up for its files if it is stopped; the one before is kept if it is the
 * same. 0 or an exit status. */
int cli_place_open(struct cli *c, const char *name, struct cove_box **box);

/* The first argument, which has to be in a box that is then cli.box. running: of one that is
 * stopped the verb could say nothing. 0 or an exit status. */
int cli_place_first(struct cli *c, bool running, struct cli_place *ret);

/* What a search printed last: why it is not all, on stderr. */
void cli_note_found(const struct cove_found *found);

/* A line that is read by people or programs: the path that the box names below the place. */
int cli_put_path_in(struct buf *out, const struct cli_place *place, const char *path);
