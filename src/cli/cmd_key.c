/*
 * cove key: who may use this machine through its server.
 *
 * The token is on stdout alone and once, so that TOKEN=$(cove key create NAME) takes it; where it
 * could not be written the key is removed again.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lists ---- */

static const char *state_of(const struct cove_key_info *k)
{
	return k->damaged ? "damaged" : k->revoked_ms ? "removed" : "";
}

static void put_quotas(struct buf *b, const struct cove_key_info *k)
{
	char text[SIZE_TEXT];

	if (k->boxes)
		(void)buf_printf(b, " boxes=%llu", (unsigned long long)k->boxes);
	if (k->mem_bytes)
		(void)buf_printf(b, " mem=%s", size_format_exact(text, k->mem_bytes));
	if (k->cpu_milli)
		(void)buf_printf(b, " cpus=%g", (double)k->cpu_milli / 1000);
	if (k->disk_bytes)
		(void)buf_printf(b, " disk=%s", size_format_exact(text, k->disk_bytes));
	if (k->snapshots)
		(void)buf_printf(b, " snapshots=%llu", (unsigned long long)k->snapshots);
	if (k->images)
		(void)buf_printf(b, " images=%llu", (unsigned long long)k->images);
}

static void row(struct table *t, const void *item)
{
	const struct cove_key_info *k = item;
	char age[16], mounts[sizeof(k->mounts)];
	struct buf b;

	buf_init(&b, 512);
	put_quotas(&b, k);
	str_copy(mounts, sizeof(mounts), k->mounts);
	for (char *at = mounts; (at = strchr(at, '\n'));)
		*at = ' ';
	table_cell(t, k->name);
	table_cell(t, k->id);
	table_cell(t, k->damaged ? "" : text_duration(age, clock_wall_since_ms(k->created_ms)));
	table_cell(t, state_of(k));
	table_cell(t, k->scopes);
	table_cell(t, buf_len(&b) > 0 ? buf_cstr(&b) + 1 : "");
	table_cell(t, mounts);
	buf_done(&b);
}

static void more(struct json *j, const void *item)
{
	view_key_more_json(j, item);
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	struct cove_key_info *list;
	int n = 0, count = cove_keys(c->cove, &list, err);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++)
		if (c->o.all || !list[i].revoked_ms)
			list[n++] = list[i];
	*(struct cove_key_info **)ret = list;
	return n;
}

/* One that is damaged has no name any more. */
static void name(struct buf *b, const void *item)
{
	const struct cove_key_info *k = item;

	(void)buf_append_str(b, k->name[0] ? k->name : k->id);
}

static const struct list_form form = {
	.titles = {"NAME", "ID", "AGE", "STATE", "SCOPES", "QUOTAS", "DIRECTORIES"},
	.whole = 1 << 1,
	.optional = 1 << 3 | 1 << 6,
	.empty = "no keys; `cove key create NAME` makes one",
	.size = sizeof(struct cove_key_info),
	.get = get,
	.row = row,
	.fields = view_key_fields,
	.more = more,
	.name = name,
};

/* ---- create ---- */

static int print_made(struct cli *c, const char *what, const struct cove_key_made *made)
{
	struct cli_object o;
	struct json *j;
	char line[sizeof(made->token) + 1];
	int r;

	if (c->o.json) {
		j = cli_object_begin(&o);
		json_kv_str(j, "name", what);
		json_kv_str(j, "id", made->id);
		json_kv_str(j, "token", made->token);
		return cli_object_end(c, &o);
	}
	r = snprintf(line, sizeof(line), "%s\n", made->token);
	r = cli_out(c, line, (size_t)r);
	explicit_bzero(line, sizeof(line));
	if (r == 0 && isatty(STDERR_FILENO))
		cli_note("that is the token of key '%s' (%s), and it is not shown again", what,
			 made->id);
	return r;
}

static int create(struct cli *c)
{
	const char *what = c->o.args[0];
	struct cove_key_options o = {
		.size = sizeof(o),
		.name = what,
		.scopes = c->o.key_scopes.items,
		.quotas = c->o.key_quotas,
		.mounts = c->o.mounts.items,
	};
	struct cove_key_made made = {.size = sizeof(made)};
	struct cove_error err;
	int r;

	if (cove_key_create(c->cove, &o, &made, &err) < 0)
		return cli_fail(c, &err);
	r = print_made(c, what, &made);
	/* Its token is lost. */
	if (r && cove_key_remove(c->cove, made.id, &err) < 0)
		cli_note("the key '%s' is there all the same: %s", what, err.message);
	explicit_bzero(&made, sizeof(made));
	return r;
}

/* ---- inspect, rm ---- */

static const struct cove_key_info *find(const struct cove_key_info *list, int count,
					const char *what)
{
	for (int i = 0; i < count; i++)
		if (strcmp(list[i].id, what) == 0 ||
		    (!list[i].revoked_ms && strcmp(list[i].name, what) == 0))
			return &list[i];
	return NULL;
}

static int inspect_one(struct cli *c, const char *what, struct cove_error *err)
{
	autofree struct cove_key_info *list = NULL;
	int r, count = cove_keys(c->cove, &list, err);
	const struct cove_key_info *k;
	struct json j;
	struct buf b;

	if (count < 0)
		return count;
	k = find(list, count, what);
	if (!k)
		return cli_error(c, COVE_NOT_FOUND, "no key '%.80s' (cove key ls shows all)", what);
	buf_init(&b, 16384);
	json_init(&j, &b);
	json_object_begin(&j);
	wire_fields_json(&j, view_key_fields, k);
	more(&j, k);
	json_object_end(&j);
	r = j.error == 0 && buf_cstr(&b) ? cli_out_json(c, buf_cstr(&b))
					 : cli_error(c, COVE_FULL, "out of memory");
	buf_done(&b);
	return r;
}

static int remove_one(struct cli *c, const char *what, struct cove_error *err)
{
	return cove_key_remove(c->cove, what, err);
}

static const struct verb key_create = {
	.name = "key create",
	.synopsis = "key create NAME [--scope LIST]... [--quota LIST] [--mount DIR]...",
	.summary = "make a key, and print its token once",
	.help = "The token is printed on stdout and never again: only a hash of it is kept.\n"
		"What a key makes is its own, in names that begin with its id, and no other\n"
		"key sees it.\n"
		"\n"
		"Scopes\n"
		"  read      look at boxes, files, output and the rest\n"
		"  run       make and end boxes, run commands, write files, take snapshots\n"
		"  images    pull, build, import and remove images\n"
		"  network   policies, grants, answers to asks, ports to the outside\n"
		"  secrets   store and remove secrets\n"
		"  audit     read the audit log\n"
		"  metrics   read the figures of the whole machine (/metrics)\n"
		"  admin     everything on this machine, with no namespace\n"
		"  mount:DIR as --mount DIR\n"
		"\n"
		"Quotas are for all its boxes together, by what they may use, running or not;\n"
		"a box without such a limit is refused under a quota.\n"
		"\n"
		"Examples\n"
		"  TOKEN=$(cove key create ci)\n"
		"  cove key create team --quota boxes=20,mem=16g,cpus=8 --mount /srv/team\n"
		"  cove key create watcher --scope read,audit\n",
	.options = (const enum opt_id[]){OPT_KEY_SCOPE, OPT_KEY_QUOTA, OPT_KEY_MOUNT, OPTS_COMMON,
					 OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = create,
};

static const struct verb key_ls = {
	.name = "key ls",
	.synopsis = "key ls",
	.summary = "list keys",
	.help = "Names, ids and what they may; a token is never shown again.\n",
	.options = (const enum opt_id[]){OPT_KEY_ALL, OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {0, 0},
	.list = &form,
};

static const struct verb key_inspect = {
	.name = "key inspect",
	.synopsis = "key inspect NAME|ID...",
	.summary = "everything known about a key",
	.help = "By its name, or by the id that is in the names of what it made; then also of one\n"
		"that was removed.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.answers = true,
	.each = inspect_one,
};

static const struct verb key_rm = {
	.name = "key rm",
	.synopsis = "key rm NAME|ID...",
	.summary = "remove keys: their tokens are refused at once",
	.help = "Its pools go with it. What else a key made stays, and is yours to remove:\n"
		"`cove ls` shows boxes whose names begin with its id, `cove image ls` images.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.each = remove_one,
	.result = "removed",
};

static const struct verb *const verbs[] = {&key_create, &key_ls, &key_inspect, &key_rm, NULL};

static int run(struct cli *c)
{
	return cli_usage(c, "key has no verb '%.60s'; usage: cove %s", c->o.args[0],
			 c->verb->synopsis);
}

const struct verb verb_key = {
	.name = "key",
	.synopsis = "key create|ls|inspect|rm ...",
	.summary = "who may use this machine's API",
	.help = "create   make one, and print its token once\n"
		"ls       list them\n"
		"inspect  everything known about one\n"
		"rm       remove some: their tokens are refused at once\n"
		"\n"
		"`cove help key VERB` shows flags.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.no_home = true,
	.run = run,
	.own = verbs,
};
