/* Places in boxes; see place.h. */
#include "cli/place.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/change.h"

#include <stdio.h>
#include <string.h>

struct cli_place cli_place_of(const char *text)
{
	struct cli_place p = {.text = text, .path = text, .is_stream = strcmp(text, "-") == 0};
	const char *colon = strchr(text, ':');

	if (!colon || (size_t)(colon - text) >= sizeof(p.box))
		return p;
	memcpy(p.box, text, (size_t)(colon - text));
	p.box[colon - text] = 0;
	if (!str_is_name(p.box, BOX_NAME_MAX))
		p.box[0] = 0;
	else
		p.path = colon[1] ? colon + 1 : ".";
	return p;
}

int cli_place_open(struct cli *c, const char *name, struct cove_box **box)
{
	struct cove_error err;

	if (*box && strcmp(cove_box_name(*box), name) == 0)
		return 0;
	cove_box_free(take_ptr(*box));
	return cove_visit(c->cove, name, box, &err) < 0 ? cli_fail(c, &err) : 0;
}

int cli_place_first(struct cli *c, bool running, struct cli_place *ret)
{
	struct cove_error err;

	*ret = cli_place_of(c->o.args[0]);
	if (!ret->box[0])
		return cli_usage(c, "'%.60s' is not in a box: write BOX:PATH", ret->text);
	if (!running)
		return cli_place_open(c, ret->box, &c->box);
	return cove_find(c->cove, ret->box, &c->box, &err) < 0 ? cli_fail(c, &err) : 0;
}

/* Why it is not all. */
static void note_found(const struct cove_found *found)
{
	if (found->truncated && strcmp(found->truncated, "count") == 0)
		cli_note("there is more: only the first %llu are shown (--max)",
			 (unsigned long long)found->count);
	else if (found->truncated && strcmp(found->truncated, "time") == 0)
		cli_note("the time was over; there may be more (--timeout)");
	else if (found->truncated)
		cli_note("a directory has too many names; there may be more");
	if (found->left_out > 0)
		cli_note("%llu could not be read and were left out",
			 (unsigned long long)found->left_out);
}

int cli_put_path_in(struct buf *out, const struct cli_place *place, const char *path)
{
	char whole[2 * BOX_PATH_MAX];

	if (strcmp(place->path, ".") == 0 && *path)
		return change_put_path(out, "", path);
	if (!*path || !path_join(whole, sizeof(whole), place->path, path))
		return change_put_path(out, "", place->path);
	return change_put_path(out, "", whole);
}

int cli_search_begin(struct cli_search *s, struct cli *c)
{
	*s = (struct cli_search){.c = c};
	return cli_place_first(c, false, &s->place);
}

int cli_search_line(const struct cli_search *s, struct buf *line, size_t max, const char *path)
{
	buf_init(line, max);
	return cli_put_path_in(line, &s->place, path);
}

int cli_search_line_end(struct cli_search *s, struct buf *line, int r)
{
	if (r == 0)
		r = buf_append_str(line, "\n");
	s->status = r < 0 ? EXIT_COVE : cli_out_buf(s->c, line);
	buf_done(line);
	return s->status;
}

int cli_search_end(const struct cli_search *s, int r, const struct cove_found *found,
		   const struct cove_error *err)
{
	if (r < 0)
		return cli_broken(s->c, err);
	note_found(found);
	return s->status;
}
