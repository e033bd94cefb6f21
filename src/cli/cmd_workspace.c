/* cove workspace: the directories that outlive boxes. */
#include "base/fd.h"
#include "base/size.h"
#include "cli/list.h"
#include "cli/watch.h"
#include "core/view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void row(struct table *t, const void *item)
{
	const struct cove_workspace_info *w = item;
	char size[SIZE_TEXT];

	table_cell(t, w->name);
	table_cellf(t, "%llu", (unsigned long long)w->files);
	table_cell(t, size_format(size, w->bytes));
	table_cell(t, w->in_use ? "yes" : "");
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_workspaces(c->cove, ret, err);
}

static const struct list_form form = {
	.titles = {"NAME", "FILES", "SIZE", "IN USE"},
	.right = 1 << 1 | 1 << 2,
	.empty = "no workspaces; `--workspace NAME` makes one",
	.size = sizeof(struct cove_workspace_info),
	.get = get,
	.row = row,
	.fields = view_workspace_fields,
};

static int remove_one(struct cli *c, const char *workspace, struct cove_error *err)
{
	return cove_workspace_remove(c->cove, workspace, err);
}

static int chown_one(struct cli *c, const char *dir, struct cove_error *err)
{
	uint64_t changed = 0;
	int r = cove_workspace_chown(c->cove, dir, &changed, err);

	if (r < 0 && err->code == ENOENT && *dir && !strchr(dir, '/'))
		snprintf(
			err->message, sizeof(err->message),
			"there is no directory '%.60s' here; chown is for directories of the host, "
			"and a named workspace needs none",
			dir);
	if (r < 0)
		return r;
	if (c->o.json) {
		struct cli_object o;
		struct json *j = cli_object_begin(&o);

		json_kv_str(j, "directory", dir);
		json_kv_u64(j, "changed", changed);
		return cli_object_end(c, &o);
	}
	if (!c->o.quiet)
		cli_note("%llu file%s given back", (unsigned long long)changed,
			 changed == 1 ? "" : "s");
	return 0;
}

static int export_one(struct cli *c)
{
	const struct cove_backup_options options = {.size = sizeof(options), .force = c->o.force};
	unsigned events = c->events;
	struct cove_error err;
	struct watch watch;
	int r;

	watch_start_words(&watch, "exporting", c->o.args[1], c->o.json);
	r = cove_workspace_export(c->cove, c->o.args[1], c->o.args[2], &options, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_broken(c, &err);
	return cli_done(c, c->o.args[1], "exported", events);
}

static int import_one(struct cli *c)
{
	const struct cove_backup_options options = {.size = sizeof(options), .force = c->o.force};
	const char *name = c->o.arg_count > 2 ? c->o.args[2] : NULL;
	unsigned events = c->events;
	struct cove_error err;
	struct watch watch;
	int r;

	watch_start_words(&watch, "importing", c->o.args[1], c->o.json);
	r = cove_workspace_import(c->cove, c->o.args[1], name, &options, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_not_imported(c, name, &err);
	return cli_done(c, name ? name : c->o.args[1], "imported", events);
}

const struct verb verb_workspace = {
	.name = "workspace",
	.synopsis = "workspace ls|rm|chown|export|import ...",
	.summary = "directories that outlive boxes",
	.help = "A workspace is made by `--workspace NAME` (and by `cove open`), is at\n"
		"/workspace in every box that names it, and stays when they are removed. One\n"
		"in use is not removed.\n"
		"\n"
		"chown is for directories of the host: what a box wrote there as another user\n"
		"than its own (root inside) becomes yours; as root, the directory's owner's.\n"
		"It follows no links, and can be said again.\n"
		"\n"
		"export writes one, with all it stands on, to a file that is whole or absent;\n"
		"boxes that run with it are frozen meanwhile. import makes it here, under NAME\n"
		"if that is given.\n"
		"\n"
		"Examples\n"
		"  cove workspace ls\n"
		"  cove workspace rm old-project\n"
		"  cove workspace chown ./project\n"
		"  cove workspace export notes /srv/notes.cove\n",
	.options = (const enum opt_id[]){OPT_REPLACE, OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.subs = (const struct verb[]){{.name = "ls", .synopsis = "workspace ls", .list = &form},
				      {.name = "rm",
				       .synopsis = "workspace rm NAME...",
				       .args = {1, -1},
				       .each = remove_one,
				       .result = "removed"},
				      {.name = "chown",
				       .synopsis = "workspace chown DIRECTORY...",
				       .args = {1, -1},
				       .each = chown_one},
				      {.name = "export",
				       .synopsis = "workspace export NAME FILE",
				       .args = {2, 2},
				       .run = export_one},
				      {.name = "import",
				       .synopsis = "workspace import FILE [NAME]",
				       .args = {1, 2},
				       .run = import_one},
				      {0}},
};
