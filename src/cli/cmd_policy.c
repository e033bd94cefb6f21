/* cove policy: what may leave boxes, as text: check it, show it, apply it, make it the default. */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/door.h"
#include "cli/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct warnings {
	bool as_json;
	struct cli_object o;
};

static void on_warning(void *arg, const char *text)
{
	struct warnings *w = arg;

	if (w->as_json)
		json_str(&w->o.j, text);
	else
		cli_note("%s", text);
}

static int check(struct cli *c)
{
	const char *file = c->o.args[1];
	struct warnings w = {.as_json = c->o.json};
	struct cove_error err;
	char line[512];
	struct json *j;
	int r;

	j = cli_object_begin(&w.o);
	json_kv_str(j, "name", file);
	json_kv_str(j, "result", "valid");
	json_key(j, "warnings");
	json_array_begin(j);
	r = cove_policy_check_file(c->cove, file, on_warning, &w, &err);
	json_array_end(j);
	if (r >= 0 && c->o.json)
		return cli_object_end(c, &w.o);
	buf_done(&w.o.text);
	if (r < 0)
		return cli_fail(c, &err);
	snprintf(line, sizeof(line), "%.400s: the policy is valid\n",
		 strcmp(file, "-") == 0 ? "stdin" : file);
	return cli_out(c, line, strlen(line));
}

static int show(struct cli *c)
{
	const char *what = c->o.arg_count > 1 ? c->o.args[1] : NULL;
	bool preset = what && (cove_policy_is_preset(what) || strchr(what, ','));
	autofree char *text = NULL;
	struct cli_object o;
	struct json *j;
	struct cove_error err;

	if (preset && strcmp(what, "none") == 0)
		what = "closed";
	/* A box goes before a group of its name. */
	if (cove_policy_text(c->cove, preset ? NULL : what, preset ? what : NULL, &text, &err) <
		    0 &&
	    (!what || preset || err.kind != COVE_NOT_FOUND ||
	     cove_policy_text(c->cove, NULL, what, &text, NULL) < 0))
		return cli_fail(c, &err);
	if (!c->o.json)
		return cli_out(c, text, strlen(text));
	j = cli_object_begin(&o);
	json_kv_str(j, "name", what ? what : "default");
	json_kv_str(j, "text", text);
	return cli_object_end(c, &o);
}

static void group_row(struct table *t, const void *item)
{
	const struct cove_policy_group *g = item;

	table_cell(t, g->name);
	table_cell(t, g->summary);
	table_cell(t, g->hosts);
}

static void group_hosts(struct json *j, const void *item)
{
	const struct cove_policy_group *g = item;

	view_words_json(j, "hosts", g->hosts, ' ');
}

static int get_groups(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_policy_groups(c->cove, ret, err);
}

static int groups(struct cli *c)
{
	static const struct list_form form = {
		.titles = {"NAME", "OPENS", "HOSTS"},
		.size = sizeof(struct cove_policy_group),
		.get = get_groups,
		.row = group_row,
		.fields = view_policy_group_fields,
		.more = group_hosts,
	};

	return list_run(c, &form);
}

static int suggest(struct cli *c)
{
	struct cove_suggestion got = {.size = sizeof(got)};
	const char *box = c->o.args[1];
	autofree char *text = NULL;
	struct cli_object o;
	struct cove_error err;
	struct json *j;

	if (cove_policy_suggest(c->cove, box, &got, &err) < 0)
		return cli_fail(c, &err);
	text = got.text;
	if (!c->o.json)
		return cli_out(c, text, strlen(text));
	j = cli_object_begin(&o);
	json_kv_str(j, "name", box);
	json_kv_u64(j, "denied", got.denied);
	json_kv_u64(j, "rules", got.rules);
	json_kv_u64(j, "remarks", got.remarks);
	json_kv_str(j, "text", text);
	return cli_object_end(c, &o);
}

static int apply(struct cli *c)
{
	const char *box = c->o.args[1];
	char by[BY_MAX];
	struct cove_error err;
	uint64_t cut = 0;

	if (cove_policy_apply(c->cove, box, c->o.args[2], door_by(by), &cut, &err) < 0)
		return cli_fail(c, &err);
	door_say_cut(c, cut);
	return door_done(c, box, "applied", "cut", cut);
}

static int set_default(struct cli *c)
{
	struct cove_error err;

	if (cove_policy_set_default(c->cove, c->o.args[1], &err) < 0)
		return cli_fail(c, &err);
	return cli_done(c, c->o.args[1], "default", c->events);
}

const struct verb verb_policy = {
	.name = "policy",
	.synopsis = "policy check|show|groups|suggest|apply|set-default ...",
	.summary = "what may leave boxes",
	.help = "check FILE               is the policy good? names line and fault (-: stdin);\n"
		"                         warns of rules that let TLS through by its name alone\n"
		"show [BOX|PRESET|GROUP]  the text that holds for a box, or of a preset or group,\n"
		"                         or the default's; grants stand above it as comments\n"
		"groups                   what can be opened beside a preset, and its hosts\n"
		"suggest BOX              its policy with the fewest rules that let pass what was\n"
		"                         denied, from the audit log\n"
		"apply BOX FILE|PRESET    from now on; open connections are judged again, and\n"
		"                         grants (`cove allow`) go\n"
		"set-default FILE|PRESET  for boxes made from now on without --net\n"
		"\n"
		"A policy is YAML or JSON. The presets are policies too, good to start from:\n"
		"closed (nothing leaves), balanced (fetch from registries and code hosts, send\n"
		"nothing), open (the public internet). Groups after a comma open more for\n"
		"fetching: balanced,huggingface,pytorch; closed,conda is conda and nothing else.\n"
		"In a file they are `use: [balanced, conda]`. Any deny that matches wins; else\n"
		"the most specific of allow and ask; what no rule matches is refused.\n"
		"\n"
		"Examples\n"
		"  cove policy show balanced > policy.yaml\n"
		"  cove policy check policy.yaml\n"
		"  cove policy suggest dev > policy.yaml\n"
		"  cove policy apply dev ./policy.yaml\n"
		"  cove policy apply dev balanced,huggingface\n"
		"  cove policy set-default closed\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.subs = (const struct verb[]){{.name = "check",
				       .synopsis = "policy check FILE",
				       .args = {1, 1},
				       .run = check},
				      {.name = "show",
				       .synopsis = "policy show [BOX|PRESET|GROUP]",
				       .args = {0, 1},
				       .run = show},
				      {.name = "groups",
				       .synopsis = "policy groups",
				       .args = {0, 0},
				       .run = groups},
				      {.name = "suggest",
				       .synopsis = "policy suggest BOX",
				       .args = {1, 1},
				       .run = suggest},
				      {.name = "apply",
				       .synopsis = "policy apply BOX FILE|PRESET",
				       .args = {2, 2},
				       .run = apply},
				      {.name = "set-default",
				       .synopsis = "policy set-default FILE|PRESET",
				       .args = {1, 1},
				       .run = set_default},
				      {0}},
};
