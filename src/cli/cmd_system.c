/* cove system: what Cove keeps on disk: how much, what can go, whether it is whole. */
#include "base/size.h"
#include "cli/cancel.h"
#include "cli/list.h"
#include "cli/watch.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_DAMAGED = 1 }; /* something is not as it was written */

/* ---- df ---- */

static void row(struct table *t, const void *item)
{
	const struct cove_usage_info *u = item;
	char size[SIZE_TEXT];

	table_cell(t, u->what);
	table_cellf(t, "%llu", (unsigned long long)u->count);
	table_cell(t, size_format(size, u->bytes));
	table_cell(t, u->shared_bytes ? size_format(size, u->shared_bytes) : "");
	table_cell(t, u->reclaimable_bytes ? size_format(size, u->reclaimable_bytes) : "");
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_system_df(c->cove, ret, err);
}

static const struct list_form form = {
	.titles = {"WHAT", "COUNT", "SIZE", "SHARED", "RECLAIMABLE"},
	.right = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4,
	.empty = "nothing is kept",
	.size = sizeof(struct cove_usage_info),
	.get = get,
	.row = row,
	.fields = view_usage_fields,
};

/* ---- gc and prune ---- */

struct removed {
	struct cli *c;
	struct list_rows rows;
	struct watch watch;
	int status;
};

static void on_removed(void *arg, const char *kind, const char *name, uint64_t bytes)
{
	struct removed *d = arg;
	struct cli *c = d->c;
	char size[SIZE_TEXT];
	struct buf b;

	if (c->o.quiet || c->o.json || d->status)
		return;
	watch_stop(&d->watch);
	buf_init(&b, 4096);
	if (buf_printf(&b, "%s %s", kind, name) == 0 &&
	    (bytes == 0 || buf_printf(&b, "  %s", size_format(size, bytes)) == 0) &&
	    buf_append_str(&b, "\n") == 0)
		d->status = cli_out_buf(c, &b);
	buf_done(&b);
}

static int say_pruned(struct cli *c, const struct cove_pruned *p)
{
	char size[SIZE_TEXT];

	if (c->o.json) {
		struct cli_object o;
		struct json *j = cli_object_begin(&o);

		json_kv_u64(j, "layers", p->layers);
		json_kv_u64(j, "blobs", p->blobs);
		json_kv_u64(j, "boxes", p->boxes);
		json_kv_u64(j, "images", p->images);
		json_kv_u64(j, "bytes", p->bytes);
		json_kv_bool(j, "blobs_held", p->blobs_held);
		json_kv_bool(j, "dry_run", c->o.dry_run);
		return cli_object_end(c, &o);
	}
	if (p->blobs_held)
		cli_note("an image is being fetched: blobs were left alone");
	cli_note("%s %s", size_format(size, p->bytes),
		 c->o.dry_run ? "would be freed" : "were freed");
	return 0;
}

static int prune_as(struct cli *c,
		    int (*call)(struct cove *cove, const struct cove_prune_options *options,
				struct cove_pruned *ret, struct cove_error *err))
{
	struct removed d = {.c = c};
	const struct cove_prune_options options = {.size = sizeof(options),
						   .dry_run = c->o.dry_run,
						   .all = c->o.all,
						   .boxes = c->o.boxes,
						   .on_removed = on_removed,
						   .arg = &d};
	struct cove_pruned pruned = {0};
	struct cove_error err;
	int r;

	watch_start_words(&d.watch, "looking for", "what nothing refers to", c->o.json);
	r = call(c->cove, &options, &pruned, &err);
	watch_stop(&d.watch);
	if (r < 0)
		return cli_broken(c, &err);
	return d.status ? d.status : say_pruned(c, &pruned);
}

static int prune(struct cli *c)
{
	return prune_as(c, cove_system_prune);
}

static int gc(struct cli *c)
{
	return prune_as(c, cove_image_gc);
}

/* ---- verify ---- */

struct damages {
	struct cli *c;
	struct cli_object o;
	struct json *j;
	struct watch watch;
	int status;
};

static void on_damage(void *arg, const char *kind, const char *name, const char *problem)
{
	struct damages *d = arg;
	struct buf b;

	if (d->j) {
		json_object_begin(d->j);
		json_kv_str(d->j, "kind", kind);
		json_kv_str(d->j, "name", name);
		json_kv_str(d->j, "problem", problem);
		json_object_end(d->j);
		return;
	}
	watch_stop(&d->watch);
	buf_init(&b, 8192);
	if (text_escape(&b, kind) == 0 && buf_append_str(&b, " ") == 0 &&
	    text_escape(&b, name) == 0 && buf_append_str(&b, ": ") == 0 &&
	    text_escape(&b, problem) == 0 && buf_append_str(&b, "\n") == 0 && d->status == 0)
		d->status = cli_out_buf(d->c, &b);
	buf_done(&b);
}

static int verify(struct cli *c)
{
	struct cove_verified done = {0};
	struct damages d = {.c = c};
	struct cove_error err;
	int r;

	if (c->o.json) {
		d.j = cli_object_begin(&d.o);
		json_key(d.j, "problems");
		json_array_begin(d.j);
	}
	cancel_say("cove: interrupted before all of it was looked at\n");
	watch_start_words(&d.watch, "verifying", "what is kept", c->o.json);
	r = cove_system_verify(c->cove, c->o.deep, on_damage, &d, &done, &err);
	watch_stop(&d.watch);
	if (d.j) {
		json_array_end(d.j);
		json_kv_u64(d.j, "checked", done.checked);
		json_kv_u64(d.j, "damaged", done.damaged);
		json_kv_u64(d.j, "not_compared", done.not_compared);
		if (r < 0)
			buf_done(&d.o.text);
		else
			d.status = cli_object_end(c, &d.o);
	}
	if (r < 0)
		return cli_broken(c, &err);
	if (!c->o.json && !c->o.quiet)
		cli_note("%llu looked at, %llu problem%s", (unsigned long long)done.checked,
			 (unsigned long long)done.damaged, done.damaged == 1 ? "" : "s");
	if (!c->o.json && !c->o.quiet && done.not_compared)
		cli_note("%llu layer%s of snapshots not compared: no tar can hold their names",
			 (unsigned long long)done.not_compared, done.not_compared == 1 ? "" : "s");
	return d.status ? d.status : done.damaged ? EXIT_DAMAGED : 0;
}

/* ---- backup and restore ---- */

struct items {
	struct cli *c;
	struct watch watch;
};

static void on_item(void *arg, const char *kind, const char *name)
{
	struct items *d = arg;

	if (!d->c->o.verbose && !strstr(name, "left out"))
		return;
	watch_stop(&d->watch);
	cli_note("%s %s", kind, name);
}

static int say_backed_up(struct cli *c, const struct cove_backed_up *d)
{
	const struct {
		const char *word;
		uint64_t count;
	} rows[] = {{"boxes", d->boxes},
		    {"images", d->images},
		    {"snapshots", d->snapshots},
		    {"workspaces", d->workspaces},
		    {"layers", d->layers},
		    {"blobs", d->blobs},
		    {"bytes", d->bytes},
		    {"boxes_left_out", d->boxes_left_out},
		    {"workspaces_left_out", d->workspaces_left_out},
		    {"left_out", d->left_out}};
	char size[SIZE_TEXT];
	struct cli_object o;
	struct json *j;

	if (c->o.json) {
		j = cli_object_begin(&o);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			json_kv_u64(j, rows[i].word, rows[i].count);
		return cli_object_end(c, &o);
	}
	if (c->o.quiet)
		return 0;
	cli_note("%llu box%s, %llu image%s, %llu snapshot%s, %llu workspace%s, %llu layer%s%s%s",
		 (unsigned long long)d->boxes, d->boxes == 1 ? "" : "es",
		 (unsigned long long)d->images, d->images == 1 ? "" : "s",
		 (unsigned long long)d->snapshots, d->snapshots == 1 ? "" : "s",
		 (unsigned long long)d->workspaces, d->workspaces == 1 ? "" : "s",
		 (unsigned long long)d->layers, d->layers == 1 ? "" : "s", d->bytes ? "; " : "",
		 d->bytes ? size_format(size, d->bytes) : "");
	return 0;
}

static int backup_as(struct cli *c, const char *doing,
		     int (*call)(struct cove *cove, const char *path,
				 const struct cove_backup_options *options,
				 struct cove_backed_up *ret, struct cove_error *err))
{
	struct items items = {.c = c};
	const struct cove_backup_options options = {.size = sizeof(options),
						    .with_secrets = c->o.with_secrets,
						    .force = c->o.force,
						    .on_item = on_item,
						    .arg = &items};
	struct cove_backed_up done = {0};
	struct cove_error err;
	int r, status;

	watch_start_words(&items.watch, doing, c->o.args[0], c->o.json);
	r = call(c->cove, c->o.args[0], &options, &done, &err);
	watch_stop(&items.watch);
	if (r < 0)
		return cli_broken(c, &err);
	status = say_backed_up(c, &done);
	return status || (!done.boxes_left_out && !done.workspaces_left_out) ? status : EXIT_COVE;
}

static int backup(struct cli *c)
{
	cancel_say("cove: interrupted; the backup was not made\n");
	return backup_as(c, "writing", cove_system_backup);
}

static int restore(struct cli *c)
{
	cancel_say("cove: interrupted before all of it was restored: say it again, or "
		   "`cove system prune` removes the layers that are left\n");
	return backup_as(c, "restoring", cove_system_restore);
}

static const struct verb system_backup = {
	.name = "system backup",
	.synopsis = "system backup FILE [--secrets] [--force]",
	.summary = "all that is kept, in one file",
	.help = "Images, layers, blobs, snapshots, boxes, workspaces and policies. A running\n"
		"box is frozen while it is copied. Secrets are in it only with --secrets: then\n"
		"the file holds their values. Logs and the audit log are not. The file is whole\n"
		"or absent: what an interruption cuts off leaves none. A box that runs and\n"
		"cannot be frozen on this host, or a workspace of one, is left out and named,\n"
		"and the exit status is 125: stop it and back up again.\n"
		"\n"
		"Examples\n"
		"  cove system backup /srv/cove.backup\n"
		"  COVE_HOME=/srv/copy cove system restore /srv/cove.backup\n",
	.options = (const enum opt_id[]){OPT_WITH_SECRETS, OPT_REPLACE, OPT_QUIET, OPTS_COMMON,
					 OPT_END},
	.args = {1, 1},
	.run = backup,
};

static const struct verb system_restore = {
	.name = "system restore",
	.synopsis = "system restore FILE [--secrets] [--force]",
	.summary = "what a backup holds, back",
	.help = "The file is read to its end first: of one that is cut or damaged nothing is\n"
		"made, nor of one that holds a box, an image, a snapshot or a workspace which\n"
		"is here already. --force replaces those once all of it is made, which needs\n"
		"room for both; a box that runs is ended. Only for files of your own: a box's\n"
		"record says what of the host it is shown.\n",
	.options = (const enum opt_id[]){OPT_WITH_SECRETS, OPT_REPLACE, OPT_QUIET, OPTS_COMMON,
					 OPT_END},
	.args = {1, 1},
	.run = restore,
};

static const struct verb system_df = {
	.name = "system df",
	.synopsis = "system df",
	.summary = "what takes how much of the disk",
	.help = "SHARED is what more than one image, box or snapshot stands on. RECLAIMABLE is\n"
		"what `cove system prune` would free; of boxes with --boxes, of what is premade\n"
		"with --all.\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.list = &form,
};

static const struct verb system_prune = {
	.name = "system prune",
	.synopsis = "system prune [--all] [--boxes] [--dry-run]",
	.summary = "remove what nothing refers to",
	.help = "Layers and blobs that nothing refers to, and what crashes and interrupted\n"
		"transfers left. Nothing that is in use is ever removed.\n"
		"\n"
		"Examples\n"
		"  cove system prune --dry-run\n"
		"  cove system prune --all --boxes\n",
	.options = (const enum opt_id[]){OPT_PRUNE_ALL, OPT_PRUNE_BOXES, OPT_DRY_RUN, OPT_QUIET,
					 OPTS_COMMON, OPT_END},
	.run = prune,
};

static const struct verb system_verify = {
	.name = "system verify",
	.synopsis = "system verify [--deep]",
	.summary = "say what is damaged",
	.help = "Reads records, what they refer to, blobs and the catalogue. What is not as it\n"
		"was written is named, one per line, and the exit status is 1. A layer that\n"
		"came as another program's tar is compared with what the first --deep look\n"
		"found.\n",
	.options = (const enum opt_id[]){OPT_DEEP, OPT_QUIET, OPTS_COMMON, OPT_END},
	.run = verify,
};

const struct verb verb_image_gc = {
	.name = "image gc",
	.synopsis = "image gc [--dry-run]",
	.summary = "remove layers and blobs that nothing refers to",
	.help = "Images, boxes and snapshots refer to layers. What was fetched in part is kept,\n"
		"to be resumed: `cove system prune` removes that too.\n",
	.options = (const enum opt_id[]){OPT_DRY_RUN, OPT_QUIET, OPTS_COMMON, OPT_END},
	.run = gc,
};

static const struct verb *const verbs[] = {
	&system_df,	   &system_prune, &system_verify, &system_backup, &system_restore,
	&verb_system_reap, NULL};

static int run(struct cli *c)
{
	return cli_usage(c, "system has no verb '%.60s'; usage: cove %s", c->o.args[0],
			 c->verb->synopsis);
}

const struct verb verb_system = {
	.name = "system",
	.synopsis = "system df|prune|verify|reap|backup|restore",
	.summary = "what is kept on disk",
	.help = "df      how much images, layers, boxes and the rest take\n"
		"prune   remove what nothing refers to\n"
		"verify  say exactly what is damaged\n"
		"reap    start again, remove and put in order what is due\n"
		"backup  all of it in one file; restore brings it back\n"
		"\n"
		"`cove help system VERB` shows flags.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.no_home = true,
	.run = run,
	.own = verbs,
};
