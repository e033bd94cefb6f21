/*
 * cove webhook: which URLs the server of this machine tells of what happens to boxes. The secret of
 * the signatures is printed once, as a key's token is.
 */
#include "base/clock.h"
#include "base/str.h"
#include "cli/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ls ---- */

static void row(struct table *t, const void *item)
{
	const struct cove_webhook_info *w = item;
	char age[16], text[32];

	table_cell(t, w->id);
	table_cell(t, w->url);
	table_cell(t, text_duration(age, clock_wall_since_ms(w->created_ms)));
	table_cell(t, w->disabled_ms ? "disabled" : w->failures ? "failing" : "");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)w->delivered);
	table_cell(t, text);
	table_cell(t, w->types[0] ? w->types : "all");
	table_cell(t, w->reason);
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_webhooks(c->cove, NULL, ret, err);
}

static const struct list_form form = {
	.titles = {"ID", "URL", "AGE", "STATE", "DELIVERED", "EVENTS", "LAST FAILURE"},
	.right = 1 << 4,
	.whole = 1 << 0,
	.optional = 1 << 3 | 1 << 6,
	.empty = "no webhooks; `cove webhook add URL` makes one",
	.size = sizeof(struct cove_webhook_info),
	.get = get,
	.row = row,
	.fields = view_webhook_fields,
};

/* ---- add ---- */

static int print_made(struct cli *c, const struct cove_webhook_made *made)
{
	struct cli_object o;
	struct json *j;
	char line[sizeof(made->id) + sizeof(made->secret) + 2];
	int r;

	if (c->o.json) {
		j = cli_object_begin(&o);
		json_kv_str(j, "id", made->id);
		json_kv_str(j, "secret", made->secret);
		return cli_object_end(c, &o);
	}
	r = snprintf(line, sizeof(line), "%s %s\n", made->id, made->secret);
	r = cli_out(c, line, (size_t)r);
	explicit_bzero(line, sizeof(line));
	return r;
}

static int add(struct cli *c)
{
	struct cove_webhook_options o = {.size = sizeof(o),
					 .url = c->o.args[0],
					 .types = c->o.events,
					 .box = c->o.only_box,
					 .label = c->o.only_label};
	struct cove_webhook_made made = {.size = sizeof(made)};
	struct cove_error err;
	int r;

	if (cove_webhook_create(c->cove, &o, &made, &err) < 0)
		return cli_fail(c, &err);
	r = print_made(c, &made);
	/* Its secret is lost. */
	if (r && cove_webhook_remove(c->cove, made.id, NULL, &err) < 0)
		cli_note("the webhook %s is there all the same: %s", made.id, err.message);
	explicit_bzero(&made, sizeof(made));
	return r;
}

/* ---- of one ---- */

static int remove_one(struct cli *c, const char *what, struct cove_error *err)
{
	return cove_webhook_remove(c->cove, what, NULL, err);
}

static int enable_one(struct cli *c, const char *what, struct cove_error *err)
{
	return cove_webhook_enable(c->cove, what, NULL, err);
}

/* Lines of JSON, as they are kept. */
static int log_one(struct cli *c, const char *what, struct cove_error *err)
{
	char *text = NULL;
	int r = cove_webhook_log(c->cove, what, NULL, &text, err);

	if (r == 0)
		r = cli_out(c, text, strlen(text));
	free(text);
	return r;
}

static const struct verb webhook_add = {
	.name = "webhook add",
	.synopsis = "webhook add URL [--events LIST] [--of-box NAME] [--of-label NAME[=VALUE]]",
	.summary = "tell a URL of what happens from now on; prints id and secret once",
	.help = "The server (`cove serve`) sends each event as JSON by POST, again and again\n"
		"until it is taken (a status 2xx), across its own restarts; what was sent\n"
		"before a crash may come twice, with the same Cove-Event-Id. After many failures\n"
		"in a row the webhook is disabled. Cove-Signature is t=SECONDS,v1=HEX: the\n"
		"HMAC-SHA256, under the secret, of SECONDS, a dot and the body.\n"
		"\n"
		"Examples\n"
		"  cove webhook add https://example.org/cove --events box.stopped,limit.hit\n"
		"  cove webhook add http://127.0.0.1:9000/ --of-label team=red\n",
	.options = (const enum opt_id[]){OPT_WEBHOOK_EVENTS, OPT_WEBHOOK_BOX, OPT_WEBHOOK_LABEL,
					 OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = add,
};

static const struct verb webhook_ls = {
	.name = "webhook ls",
	.synopsis = "webhook ls",
	.summary = "list webhooks",
	.help = "Those of keys, too; a secret is never shown again.\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {0, 0},
	.list = &form,
};

static const struct verb webhook_rm = {
	.name = "webhook rm",
	.synopsis = "webhook rm ID...",
	.summary = "remove webhooks",
	.help = "Nothing more is sent, but for what is under way.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = remove_one,
	.result = "removed",
};

static const struct verb webhook_enable = {
	.name = "webhook enable",
	.synopsis = "webhook enable ID...",
	.summary = "let webhooks go on that were disabled after failures",
	.help = "They go on where they were, as far as the events are kept.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = enable_one,
	.result = "enabled",
};

static const struct verb webhook_log = {
	.name = "webhook log",
	.synopsis = "webhook log ID",
	.summary = "the last deliveries of a webhook, a line of JSON each",
	.help = "When, which event, the status of the answer or why there was none.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.answers = true,
	.each = log_one,
};

static const struct verb *const verbs[] = {&webhook_add,    &webhook_ls,  &webhook_rm,
					   &webhook_enable, &webhook_log, NULL};

static int run(struct cli *c)
{
	return cli_usage(c, "webhook has no verb '%.60s'; usage: cove %s", c->o.args[0],
			 c->verb->synopsis);
}

const struct verb verb_webhook = {
	.name = "webhook",
	.synopsis = "webhook add|ls|rm|enable|log ...",
	.summary = "whom the server tells of what happens",
	.help = "add     a URL; prints id and secret once\n"
		"ls      list them\n"
		"rm      remove some\n"
		"enable  let some go on that were disabled\n"
		"log     the last deliveries of one\n"
		"\n"
		"`cove help webhook VERB` shows flags.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.no_home = true,
	.run = run,
	.own = verbs,
};
