/* cove rollback: a box's files become those of a snapshot again. */
#include "cli/cli.h"
#include "cli/watch.h"

static int run(struct cli *c)
{
	struct cove_rollback_options o = {
		.size = sizeof(o), .keep_workspace = c->o.keep_workspace, .foreign = c->o.foreign};
	const char *box = c->o.args[0], *snapshot = c->o.args[1];
	struct cove_rollback done = {.size = sizeof(done)};
	struct cli_object out;
	struct cove_error err;
	struct watch watch;
	struct json *j;
	int r;

	watch_start_words(&watch, "rolling back", box, c->o.json);
	r = cove_rollback(c->cove, box, snapshot, &o, &done, &err);
	watch_stop(&watch);
	if (r < 0)
		return cli_fail(c, &err);
	if (!c->o.json) {
		cli_note("box '%s' is as it was in '%s'%s", box, snapshot,
			 done.started ? ", and runs again" : "");
		if (done.host_dirs)
			cli_note("not undone: what it wrote to %llu director%s of this host",
				 (unsigned long long)done.host_dirs,
				 done.host_dirs == 1 ? "y" : "ies");
		if (done.sent_unknown)
			cli_note("what left the box since then could not be read, and is not "
				 "undone (cove audit %s)",
				 box);
		if (done.sent)
			cli_note("not undone: %llu request%s left the box since then, to %s "
				 "(cove audit %s)",
				 (unsigned long long)done.sent, done.sent == 1 ? "" : "s",
				 done.hosts, box);
		return 0;
	}
	j = cli_object_begin(&out);
	json_kv_str(j, "name", box);
	json_kv_str(j, "result", "rolled back");
	json_kv_str(j, "snapshot", snapshot);
	json_kv_bool(j, "started", done.started);
	json_kv_u64(j, "host_dirs", done.host_dirs);
	json_kv_u64(j, "sent", done.sent);
	json_kv_bool(j, "sent_unknown", done.sent_unknown);
	json_kv_str(j, "hosts", done.hosts);
	return cli_object_end(c, &out);
}

const struct verb verb_rollback = {
	.name = "rollback",
	.synopsis = "rollback BOX SNAPSHOT [--keep-workspace]",
	.summary = "its files as they were in a snapshot",
	.help = "In place: its processes end, with the cause 'rollback', and what it wrote since\n"
		"is gone; it is started again if it ran. Its named workspace goes back too,\n"
		"unless --keep-workspace; while another box has that, nothing is done. Host\n"
		"directories stay as they are. What left through the door meanwhile is not\n"
		"undone: how much, and where to, is said.\n"
		"\n"
		"Examples\n"
		"  cove rollback dev before-upgrade\n",
	.options = (const enum opt_id[]){OPT_KEEP_WORKSPACE, OPT_FOREIGN, OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.run = run,
};
