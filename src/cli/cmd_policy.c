/* cove policy: what may leave boxes, as text: check it, show it, apply it, make it the default. */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 8 * DOOR_POLICY_MAX };

struct warnings {
	bool json;
	struct json list;
};

static void on_warning(void *arg, const char *text)
{
	struct warnings *w = arg;

	if (w->json)
		json_str(&w->list, text);
	else
		cli_note("%s", text);
}

static int check(struct cli *c)
{
	const char *file = c->o.args[1];
	struct warnings w = {.json = c->o.json};
	struct cove_error err;
	char line[512];
	struct buf b;
	int r = cli_open(c);

	if (r)
		return r;
	buf_init(&b, SHOWN_MAX);
	json_init(&w.list, &b);
	json_object_begin(&w.list);
	json_kv_str(&w.list, "name", file);
	json_kv_str(&w.list, "result", "valid");
	json_key(&w.list, "warnings");
	json_array_begin(&w.list);
	r = cove_policy_check_file(c->cove, file, on_warning, &w, &err);
	json_array_end(&w.list);
	json_object_end(&w.list);
	if (r < 0)
		r = cli_fail(c, &err);
	else if (c->o.json)
		r = w.list.error || buf_append_str(&b, "\n") < 0
			    ? cli_error(c, COVE_LIMIT, "the warnings are too long to print")
			    : cli_out_buf(c, &b);
	buf_done(&b);
	if (r != 0 || c->o.json)
		return r;
	snprintf(line, sizeof(line), "%.400s: the policy is valid\n",
		 strcmp(file, "-") == 0 ? "stdin" : file);
	return cli_out(c, line, strlen(line));
}

static int print_json(struct cli *c, const char *name, const char *text)
{
	struct buf b;
	struct json j;
	int r;

	buf_init(&b, SHOWN_MAX);
	json_init(&j, &b);
	json_object_begin(&j);
	json_kv_str(&j, "name", name);
	json_kv_str(&j, "text", text);
	json_object_end(&j);
	r = j.error ? j.error : buf_append_str(&b, "\n");
	r = r < 0 ? cli_error(c, COVE_LIMIT, "the policy is too long to print")
		  : cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

static int show(struct cli *c)
{
	const char *what = c->o.arg_count > 1 ? c->o.args[1] : NULL;
	bool preset = what && cove_policy_is_preset(what);
	autofree char *text = NULL;
	struct cove_error err;
	int r = cli_open(c);

	if (r)
		return r;
	if (preset && strcmp(what, "none") == 0)
		what = "closed";
	if (cove_policy_text(c->cove, preset ? NULL : what, preset ? what : NULL, &text, &err) < 0)
		return cli_fail(c, &err);
	return c->o.json ? print_json(c, what ? what : "default", text)
			 : cli_out(c, text, strlen(text));
}

static int apply(struct cli *c)
{
	const char *box = c->o.args[1];
	char by[BY_MAX];
	struct cove_error err;
	uint64_t cut = 0;
	int r = cli_open(c);

	if (r)
		return r;
	if (cove_policy_apply(c->cove, box, c->o.args[2], door_by(by), &cut, &err) < 0)
		return cli_fail(c, &err);
	door_say_cut(c, cut);
	return door_done(c, box, "applied", "cut", cut);
}

static int set_default(struct cli *c)
{
	struct cove_error err;
	int r = cli_open(c);

	if (r)
		return r;
	if (cove_policy_set_default(c->cove, c->o.args[1], &err) < 0)
		return cli_fail(c, &err);
	return cli_done(c, c->o.args[1], "default", c->events);
}

static int run(struct cli *c)
{
	static const struct {
		const char *name;
		size_t min, max;
		const char *usage;
		int (*run)(struct cli *c);
	} verbs[] = {
		{"check", 2, 2, "cove policy check FILE", check},
		{"show", 1, 2, "cove policy show [BOX|PRESET]", show},
		{"apply", 3, 3, "cove policy apply BOX FILE|PRESET", apply},
		{"set-default", 2, 2, "cove policy set-default FILE|PRESET", set_default},
	};
	const char *what = c->o.args[0];

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(what, verbs[i].name) != 0)
			continue;
		if (c->o.arg_count < verbs[i].min || c->o.arg_count > verbs[i].max)
			return cli_usage(c, "usage: %s", verbs[i].usage);
		return verbs[i].run(c);
	}
	return cli_usage(c, "no '%.60s' here: check, show, apply or set-default", what);
}

static const enum opt_id options[] = {OPTS_COMMON, OPT_END};

const struct verb verb_policy = {
	.name = "policy",
	.synopsis = "policy check|show|apply|set-default ...",
	.summary = "what may leave boxes",
	.help = "check FILE               is the policy good? names line and fault (-: stdin);\n"
		"                         warns of rules that let TLS through by its name alone\n"
		"show [BOX|PRESET]        the text that holds for a box, or of a preset, or the\n"
		"                         default's; grants stand above it as comments\n"
		"apply BOX FILE|PRESET    from now on; open connections are judged again, and\n"
		"                         grants (`cove allow`) go\n"
		"set-default FILE|PRESET  for boxes made from now on without --net\n"
		"\n"
		"A policy is YAML or JSON. The presets are policies too, good to start from:\n"
		"closed (nothing leaves), balanced (fetch from registries and code hosts, send\n"
		"nothing), open (the public internet). Any deny that matches wins; else the most\n"
		"specific of allow and ask; what no rule matches is refused.\n"
		"\n"
		"Examples\n"
		"  cove policy show balanced > policy.yaml\n"
		"  cove policy check policy.yaml\n"
		"  cove policy apply dev ./policy.yaml\n"
		"  cove policy set-default closed\n",
	.options = options,
	.command_after = -1,
	.args_min = 1,
	.args_max = -1,
	.run = run,
};
