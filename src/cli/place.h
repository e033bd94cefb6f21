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

/* A line that is read by people or programs: the path that the box names below the place. */
int cli_put_path_in(struct buf *out, const struct cli_place *place, const char *path);

/* A search below the first argument. */
struct cli_search {
	struct cli *c;
	struct cli_place place;
	int status; /* of what was printed so far; not 0 ends the search */
};
/* 0 or an exit status. */
int cli_search_begin(struct cli_search *s, struct cli *c);
/* One match: a line that begins with its path; r: of what was appended to it since. The status. */
int cli_search_line(const struct cli_search *s, struct buf *line, size_t max, const char *path);
int cli_search_line_end(struct cli_search *s, struct buf *line, int r);
/* r, found and err are cove_glob's or cove_grep's. Why it is not all goes to stderr. The status. */
int cli_search_end(const struct cli_search *s, int r, const struct cove_found *found,
		   const struct cove_error *err);
