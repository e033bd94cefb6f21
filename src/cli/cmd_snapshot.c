/* cove snapshot: the state of a box, kept. */
#include "base/clock.h"
#include "base/size.h"
#include "cli/cancel.h"
#include "cli/list.h"
#include "cli/watch.h"
#include "core/view.h"

#include <stdlib.h>
#include <string.h>

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	const char *box = c->o.arg_count > 0 ? c->o.args[0] : NULL;

	return cove_snapshots(c->cove, box, ret, err);
}

static void row(struct table *t, const void *item)
{
	const struct cove_snapshot_info *s = item;
	uint64_t now = clock_wall_ms();
	char text[SIZE_TEXT];

	table_cell(t, s->name);
	table_cell(t, s->box);
	table_cell(t, s->files ? size_format(text, s->bytes) : "");
	if (s->files)
		table_cellf(t, "%llu", (unsigned long long)s->files);
	else
		table_cell(t, "");
	table_cell(t, now > s->created_ms ? text_duration(text, now - s->created_ms) : "");
	table_cell(t, s->tags);
}

static const struct list_form form = {
	.titles = {"NAME", "BOX", "SIZE", "FILES", "AGE", "TAGS"},
	.right = 1 << 2 | 1 << 3,
	.whole = 1 << 4,
	.empty = "no snapshots; `cove snapshot create BOX` takes one",
	.size = sizeof(struct cove_snapshot_info),
	.get = get,
	.row = row,
	.fields = view_snapshot_fields,
};

static int print_made(struct cli *c, const struct cove_snapshot_info *s)
{
	char *json = NULL;
	struct cove_error err;
	struct buf b;
	int r;

	if (c->o.json) {
		if (cove_snapshot_inspect(c->cove, s->name, &json, &err) < 0)
			return cli_fail(c, &err);
		r = cli_out_json(c, json);
		free(json);
		return r;
	}
	buf_init(&b, 128);
	(void)buf_printf(&b, "%s\n", s->name);
	r = cli_out_buf(c, &b);
	buf_done(&b);
	if (s->unfrozen)
		cli_note("the box ran on while it was copied: its files may not belong together");
	if (s->left_out)
		cli_note("%llu sockets or devices were left out", (unsigned long long)s->left_out);
	if (s->host_dirs)
		cli_note("not in it: %llu director%s of this host (`cove snapshot inspect %s`)",
			 (unsigned long long)s->host_dirs, s->host_dirs == 1 ? "y" : "ies",
			 s->name);
	if (s->copy_left_out)
		cli_note("not in it: what the box wrote to its copy of a host directory and did "
			 "not merge (`cove merge %s` brings it there); the box cannot be rolled "
			 "back to it, boxes can be made of it (`cove fork %s`)",
			 s->box, s->name);
	return r;
}

static int create(struct cli *c)
{
	struct cove_snapshot_options o = {
		.size = sizeof(o),
		.name = c->o.arg_count > 1 ? c->o.args[1] : NULL,
		.no_freeze = c->o.no_freeze,
		.keep = c->o.keep,
		.max_age_ms = c->o.max_age_ms,
	};
	struct cove_snapshot_info made;
	struct cove_error err;
	struct watch watch;
	int r;

	cancel_say("cove: interrupted; `cove snapshot ls` shows whether it was made\n");
	watch_start_words(&watch, "keeping the state of", c->o.args[0], c->o.json);
	r = cove_snapshot_create(c->cove, c->o.args[0], &o, &made, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_fail(c, &err);
	return print_made(c, &made);
}

static int inspect(struct cli *c)
{
	char *json = NULL;
	struct cove_error err;
	int r;

	if (cove_snapshot_inspect(c->cove, c->o.args[0], &json, &err) < 0)
		return cli_fail(c, &err);
	r = cli_out_json(c, json);
	free(json);
	return r;
}

static int remove_one(struct cli *c, const char *name, struct cove_error *err)
{
	return cove_snapshot_remove(c->cove, name, err);
}

static int tag(struct cli *c)
{
	unsigned events = c->events;
	struct cove_error err;

	if (cove_snapshot_tag(c->cove, c->o.args[0], c->o.args[1], &err) < 0)
		return cli_fail(c, &err);
	return cli_done(c, c->o.args[1], "tagged", events);
}

static int prune(struct cli *c)
{
	const char *box = c->o.arg_count > 0 ? c->o.args[0] : NULL;
	uint64_t removed = 0;
	struct cove_error err;

	if (cove_snapshot_prune(c->cove, box, &removed, &err) < 0)
		return cli_fail(c, &err);
	if (c->o.json) {
		struct cli_object o;
		struct json *j = cli_object_begin(&o);

		json_kv_u64(j, "removed", removed);
		return cli_object_end(c, &o);
	}
	cli_note("%llu snapshot%s removed", (unsigned long long)removed, removed == 1 ? "" : "s");
	return 0;
}

/* What is not said stays as it is, but nothing of an image's becomes the box's own. */
static int change_rule(struct cli *c, struct cove_snapshot_rule *rule, struct cove_error *err)
{
	const char *of = c->o.args[0];

	if (c->o.no_rule)
		*rule = (struct cove_snapshot_rule){0};
	else if (cove_snapshot_rule(c->cove, of, NULL, rule, err) < 0)
		return -1;
	else if (rule->of_image && strncmp(of, "image:", 6) != 0)
		*rule = (struct cove_snapshot_rule){0};
	if (c->o.keep)
		rule->keep = c->o.keep;
	if (c->o.max_age_ms)
		rule->max_age_ms = c->o.max_age_ms;
	return cove_snapshot_rule(c->cove, of, rule, rule, err);
}

static int print_rule(struct cli *c, const struct cove_snapshot_rule *rule)
{
	char age[SIZE_TEXT];
	struct buf b;
	int r;

	if (c->o.json) {
		struct cli_object o;
		struct json *j = cli_object_begin(&o);

		json_kv_str(j, "of", c->o.args[0]);
		json_kv_u64(j, "keep", rule->keep);
		json_kv_u64(j, "max_age_ms", rule->max_age_ms);
		json_kv_bool(j, "of_image", rule->of_image);
		return cli_object_end(c, &o);
	}
	buf_init(&b, 128);
	if (rule->keep)
		(void)buf_printf(&b, "the last %llu", (unsigned long long)rule->keep);
	if (rule->max_age_ms)
		(void)buf_printf(&b, "%snone older than %s", buf_len(&b) ? ", " : "",
				 text_duration(age, rule->max_age_ms));
	if (!buf_len(&b))
		(void)buf_printf(&b, "all are kept");
	else if (rule->of_image && strncmp(c->o.args[0], "image:", 6) != 0)
		(void)buf_printf(&b, " (its image's)");
	(void)buf_printf(&b, "\n");
	r = cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

static int rule(struct cli *c)
{
	bool is_change = c->o.keep || c->o.max_age_ms || c->o.no_rule;
	struct cove_snapshot_rule got;
	struct cove_error err;
	int r = 0;

	if (c->o.no_rule && (c->o.keep || c->o.max_age_ms))
		return cli_usage(c, "--none goes without --keep and --max-age");
	r = is_change ? change_rule(c, &got, &err)
		      : cove_snapshot_rule(c->cove, c->o.args[0], NULL, &got, &err);
	return r < 0 ? cli_fail(c, &err) : print_rule(c, &got);
}

static const struct verb snapshot_create = {
	.name = "snapshot create",
	.synopsis = "snapshot create BOX [NAME]",
	.summary = "keep the state of a box",
	.help = "Its files, those in its named workspace among them, as they are at one moment. A\n"
		"box that runs is copied while it runs, then frozen for what changed meanwhile,\n"
		"and goes on. Not in it: host directories, memory, secrets. --json says what\n"
		"it took.\n"
		"\n"
		"Examples\n"
		"  cove snapshot create dev before-upgrade\n"
		"  cove snapshot create dev --keep 5 --max-age 7d\n",
	.options =
		(const enum opt_id[]){OPT_NO_FREEZE, OPT_KEEP, OPT_MAX_AGE, OPTS_COMMON, OPT_END},
	.args = {1, 2},
	.answers = true,
	.run = create,
};

static const struct verb snapshot_ls = {
	.name = "snapshot ls",
	.synopsis = "snapshot ls [BOX]",
	.summary = "list snapshots",
	.help = "Oldest first. SIZE is what the box wrote since it was made, or came from one.\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {0, 1},
	.list = &form,
};

static const struct verb snapshot_inspect = {
	.name = "snapshot inspect",
	.synopsis = "snapshot inspect NAME",
	.summary = "everything known about a snapshot",
	.help = "By its name or a tag.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = inspect,
};

static const struct verb snapshot_rm = {
	.name = "snapshot rm",
	.synopsis = "snapshot rm NAME...",
	.summary = "remove snapshots",
	.help = "Boxes that came from one keep what they stand on.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = remove_one,
	.result = "removed",
};

static const struct verb snapshot_tag = {
	.name = "snapshot tag",
	.synopsis = "snapshot tag NAME TAG",
	.summary = "one more name for a snapshot",
	.help = "A tag is of one snapshot: another that had it loses it. One with a tag is not\n"
		"removed by --keep and --max-age.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.run = tag,
};

static const struct verb snapshot_prune = {
	.name = "snapshot prune",
	.synopsis = "snapshot prune [BOX]",
	.summary = "remove what --keep and --max-age say is too much",
	.help = "A rule (`cove snapshot rule`) is applied after each snapshot of a box; this\n"
		"applies it now, to one box or to all.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {0, 1},
	.run = prune,
};

static const struct verb snapshot_rule = {
	.name = "snapshot rule",
	.synopsis = "snapshot rule BOX|image:NAME [--keep N] [--max-age TIME] [--none]",
	.summary = "how many snapshots are kept, and how long",
	.help = "Shows the rule, or changes what is given of it. `snapshot create` does the same\n"
		"with these flags. An image's rule is for all boxes of it that have none of\n"
		"their own. The last snapshot of a box, and those with a tag, always stay.\n"
		"\n"
		"Examples\n"
		"  cove snapshot rule dev --keep 5 --max-age 7d\n"
		"  cove snapshot rule image:base --max-age 30d\n",
	.options = (const enum opt_id[]){OPT_KEEP, OPT_MAX_AGE, OPT_NO_RULE, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = rule,
};

static const struct verb *const verbs[] = {
	&snapshot_create,      &snapshot_ls,   &snapshot_inspect, &snapshot_rm,
	&snapshot_tag,	       &snapshot_rule, &snapshot_prune,	  &verb_snapshot_export,
	&verb_snapshot_import, NULL,
};

static int run(struct cli *c)
{
	return cli_usage(c, "snapshot has no verb '%.60s'; usage: cove %s", c->o.args[0],
			 c->verb->synopsis);
}

const struct verb verb_snapshot = {
	.name = "snapshot",
	.synopsis = "snapshot create|ls|inspect|rm|tag|rule|prune|export|import ...",
	.summary = "the state of a box, kept",
	.help = "create   keep the state of a box\n"
		"ls       list them\n"
		"inspect  everything known about one\n"
		"rm       remove some\n"
		"tag      one more name for one\n"
		"rule     how many are kept, and how long: of a box, or of an image's boxes\n"
		"prune    remove what the rules say is too much\n"
		"export   one as one file; import makes it of such a file\n"
		"\n"
		"`cove rollback` brings a box back to one, `cove fork` makes boxes of one.\n"
		"`cove help snapshot VERB` shows flags.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.no_home = true,
	.run = run,
	.own = verbs,
};
