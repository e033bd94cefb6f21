/* cove image inspect, history and tag: looking at an image, and naming it. */
#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/list.h"

#include <stdlib.h>
#include <string.h>

static int inspect(struct cli *c)
{
	struct cove_error err;
	char *json;
	int r = cove_image_inspect(c->cove, c->o.args[0], &json, &err);

	if (r < 0)
		return cli_fail(c, &err);
	r = cli_out_json(c, json);
	free(json);
	return r;
}

const struct verb verb_image_inspect = {
	.name = "image inspect",
	.synopsis = "image inspect NAME",
	.summary = "everything known about an image",
	.help = "Its layers, what it says of user, environment, directory, entrypoint and\n"
		"command, where it came from, and how it was made. One JSON object.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.run = inspect,
};

/* ---- history ---- */

static void step_row(struct table *t, const void *item)
{
	const struct cove_image_step *s = item;
	uint64_t now = clock_wall_ms();
	char text[SIZE_TEXT];

	table_cell(t, s->created_ms && now > s->created_ms
			      ? text_duration(text, now - s->created_ms)
			      : "");
	table_cell(t, s->layer[0] ? size_format(text, s->bytes) : "");
	table_cellf(t, "%.12s", s->layer);
	table_cell(t, s->by);
}

static int steps(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_image_history(c->cove, c->o.args[0], ret, err);
}

static const struct list_form history_form = {
	.titles = {"AGE", "SIZE", "LAYER", "BY"},
	.right = 1 << 1,
	.whole = 1 << 0 | 1 << 2,
	.empty = "this image does not say how it was made",
	.size = sizeof(struct cove_image_step),
	.get = steps,
	.row = step_row,
	.fields = view_image_step_fields,
};

const struct verb verb_image_history = {
	.name = "image history",
	.synopsis = "image history NAME",
	.summary = "how an image was made, step by step",
	.help = "Newest first. A step that changed no file has no layer.\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.list = &history_form,
};

/* ---- tag ---- */

static bool is_same_name(const char *name, const char *typed)
{
	size_t n = strlen(name);

	return strncmp(name, typed, n) == 0 && (typed[n] == 0 || strcmp(typed + n, ":latest") == 0);
}

/* What the name meant until now: its id, or nothing. */
static void find_old(struct cli *c, const char *typed, char ret[72])
{
	struct cove_image_info *list = NULL;
	int count = cove_images(c->cove, &list, NULL);

	ret[0] = 0;
	for (int i = 0; i < count; i++)
		if (is_same_name(list[i].name, typed))
			str_copy(ret, 72, list[i].id);
	free(list);
}

/* Nothing is said if the name means the same as before. */
static void say_replaced(struct cli *c, const char *typed, const char *old)
{
	struct cove_image_info *list = NULL;
	int count = cove_images(c->cove, &list, NULL);
	const char *other = NULL;

	for (int i = 0; i < count; i++)
		if (strcmp(list[i].id, old) == 0 && (!other || is_same_name(list[i].name, typed)))
			other = list[i].name;
	if (!other)
		cli_note("'%.80s' was %.12s; its layers stay until `cove image gc`", typed, old);
	else if (!is_same_name(other, typed))
		cli_note("'%.80s' was %.12s, which is still '%.80s'", typed, old, other);
	free(list);
}

static int tag(struct cli *c)
{
	struct cove_error err;
	unsigned events = c->events;
	char old[72];

	find_old(c, c->o.args[1], old);
	if (cove_image_tag(c->cove, c->o.args[0], c->o.args[1], &err) < 0)
		return cli_fail(c, &err);
	if (old[0] && !c->o.json)
		say_replaced(c, c->o.args[1], old);
	return cli_done(c, c->o.args[1], "tagged", events);
}

const struct verb verb_image_tag = {
	.name = "image tag",
	.synopsis = "image tag NAME NEW-NAME",
	.summary = "a second name for an image",
	.help = "NEW-NAME means the same image from now on, whatever it meant before; boxes keep\n"
		"what they stand on, and what it meant stays until `cove image gc`.\n"
		"`cove image rm` removes names, and layers with the last one.\n"
		"\n"
		"Examples\n"
		"  cove image tag base agent:2026-11\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.run = tag,
};
