/* cove snapshot export, import: one snapshot as one file. */
#include "cli/cancel.h"
#include "cli/cli.h"
#include "cli/watch.h"

static int export_one(struct cli *c)
{
	const struct cove_backup_options options = {.size = sizeof(options), .force = c->o.force};
	unsigned events = c->events;
	struct cove_error err;
	struct watch watch;
	int r;

	cancel_say("cove: interrupted; no file was made\n");
	watch_start_words(&watch, "exporting", c->o.args[0], c->o.json);
	r = cove_snapshot_export(c->cove, c->o.args[0], c->o.args[1], &options, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_broken(c, &err);
	return cli_done(c, c->o.args[0], "exported", events);
}

static int import_one(struct cli *c)
{
	const struct cove_backup_options options = {.size = sizeof(options), .force = c->o.force};
	const char *name = c->o.arg_count > 1 ? c->o.args[1] : NULL;
	unsigned events = c->events;
	struct cove_error err;
	struct watch watch;
	int r;

	cancel_say("cove: interrupted; `cove snapshot ls` shows whether it was made, and "
		   "`cove system prune` removes what is left of it\n");
	watch_start_words(&watch, "importing", c->o.args[0], c->o.json);
	r = cove_snapshot_import(c->cove, c->o.args[0], name, &options, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_not_imported(c, name, &err);
	return cli_done(c, name ? name : c->o.args[0], "imported", events);
}

const struct verb verb_snapshot_export = {
	.name = "snapshot export",
	.synopsis = "snapshot export NAME FILE [--force]",
	.summary = "a snapshot as one file",
	.help = "With all layers that it stands on. The file is whole or absent.\n",
	.options = (const enum opt_id[]){OPT_REPLACE, OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.run = export_one,
};

const struct verb verb_snapshot_import = {
	.name = "snapshot import",
	.synopsis = "snapshot import FILE [NAME]",
	.summary = "a snapshot from such a file",
	.help = "The file may be somebody else's: of the box that it was, host directories,\n"
		"mounts and the policy are not brought along; a box of it has the balanced\n"
		"policy, or none. Its layers are checked by their hashes.\n",
	.options = (const enum opt_id[]){OPTS_COMMON, OPT_END},
	.args = {1, 2},
	.run = import_one,
};
