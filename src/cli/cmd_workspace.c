/* cove workspace: the directories that outlive boxes. */
#include "base/fd.h"
#include "cli/list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const titles[] = {"NAME", "FILES", "SIZE", "IN USE"};

static void row(struct table *t, const void *item)
{
	const struct cove_workspace_info *w = item;
	char size[16];

	table_cell(t, w->name);
	table_cellf(t, "%llu", (unsigned long long)w->files);
	table_cell(t, text_bytes(size, w->bytes));
	table_cell(t, w->in_use ? "yes" : "");
}

static void object(struct json *j, const void *item)
{
	const struct cove_workspace_info *w = item;

	json_kv_str(j, "name", w->name);
	json_kv_u64(j, "files", w->files);
	json_kv_u64(j, "bytes", w->bytes);
	json_kv_bool(j, "in_use", w->in_use);
}

static void name(struct buf *b, const void *item)
{
	(void)buf_append_str(b, ((const struct cove_workspace_info *)item)->name);
}

static const struct list_form form = {
	.titles = titles,
	.columns = sizeof(titles) / sizeof(titles[0]),
	.right = 1 << 1 | 1 << 2,
	.empty = "no workspaces; `--workspace NAME` makes one",
	.row = row,
	.object = object,
	.name = name,
};

static int list(struct cli *c)
{
	autofree struct cove_workspace_info *items = NULL;
	struct cove_error err;
	int r = cli_open(c), count;

	if (r)
		return r;
	count = cove_workspaces(c->cove, &items, &err);
	if (count < 0)
		return cli_fail(c, &err);
	return list_print(c, &form, items, sizeof(*items), (size_t)count);
}

static int remove_one(struct cli *c, const char *workspace, struct cove_error *err)
{
	return cove_workspace_remove(c->cove, workspace, err);
}

static int chown_json(struct cli *c, const char *dir, uint64_t changed)
{
	struct buf b;
	struct json j;
	int r;

	buf_init(&b, 32768);
	json_init(&j, &b);
	json_object_begin(&j);
	json_kv_str(&j, "directory", dir);
	json_kv_u64(&j, "changed", changed);
	json_object_end(&j);
	r = j.error == 0 ? buf_append_str(&b, "\n") : j.error;
	r = r < 0 ? cli_error(c, COVE_LIMIT, "the path is too long") : cli_out_buf(c, &b);
	buf_done(&b);
	return r;
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
	if (c->o.json)
		return chown_json(c, dir, changed);
	if (!c->o.quiet)
		cli_note("%llu file%s given back", (unsigned long long)changed,
			 changed == 1 ? "" : "s");
	return 0;
}

static int run(struct cli *c)
{
	const char *what = c->o.args[0];

	if (strcmp(what, "ls") == 0) {
		if (c->o.arg_count > 1)
			return cli_usage(c, "unexpected argument '%.60s'", c->o.args[1]);
		return list(c);
	}
	if (strcmp(what, "chown") == 0) {
		if (c->o.arg_count < 2)
			return cli_usage(c, "name a directory of the host");
		return cli_each(c, 1, NULL, chown_one);
	}
	if (strcmp(what, "rm") != 0)
		return cli_usage(c, "no '%.60s' here: ls, rm or chown", what);
	if (c->o.arg_count < 2)
		return cli_usage(c, "which workspace? `cove workspace ls` lists them");
	return cli_each(c, 1, "removed", remove_one);
}

static const enum opt_id options[] = {OPT_QUIET, OPTS_COMMON, OPT_END};

const struct verb verb_workspace = {
	.name = "workspace",
	.synopsis = "workspace ls | rm NAME... | chown DIRECTORY...",
	.summary = "directories that outlive boxes",
	.help = "A workspace is made by `--workspace NAME` (and by `cove open`), is at\n"
		"/workspace in every box that names it, and stays when they are removed. One\n"
		"in use is not removed.\n"
		"\n"
		"chown is for directories of the host: what a box wrote there as another user\n"
		"than its own (root inside) becomes yours; as root, the directory's owner's.\n"
		"It follows no links, and can be said again.\n"
		"\n"
		"Examples\n"
		"  cove workspace ls\n"
		"  cove workspace rm old-project\n"
		"  cove workspace chown ./project\n",
	.options = options,
	.command_after = -1,
	.args_min = 1,
	.args_max = -1,
	.run = run,
};
