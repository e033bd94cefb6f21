/* cove fork: new boxes that begin where another is. */
#include "cli/cancel.h"
#include "cli/cli.h"
#include "cli/watch.h"

#include <stdlib.h>
#include <string.h>

static int print(struct cli *c, const char (*names)[64], int count, bool copy_left_out)
{
	struct buf b;
	int r;

	buf_init(&b, 1u << 20);
	if (c->o.json) {
		struct json j;

		json_init(&j, &b);
		json_array_begin(&j);
		for (int i = 0; i < count; i++) {
			json_object_begin(&j);
			json_kv_str(&j, "name", names[i]);
			json_kv_str(&j, "result", "forked");
			json_kv_bool(&j, "copy_left_out", copy_left_out);
			json_object_end(&j);
		}
		json_array_end(&j);
		(void)buf_append_str(&b, "\n");
	} else {
		for (int i = 0; i < count; i++)
			(void)buf_printf(&b, "%s\n", names[i]);
	}
	r = cli_out_buf(c, &b);
	buf_done(&b);
	if (copy_left_out && !c->o.json)
		cli_note("not in %s: what was written to the copy of a host directory and not "
			 "merged; %s with the directory as it is",
			 count == 1 ? "it" : "them", count == 1 ? "it begins" : "they begin");
	return r;
}

static int run(struct cli *c)
{
	bool copy_left_out = false;
	struct cove_fork_options o = {
		.size = sizeof(o),
		.name = c->o.box.name,
		.prefix = c->o.prefix,
		.count = c->o.count,
		.no_freeze = c->o.no_freeze,
		.ret_copy_left_out = &copy_left_out,
	};
	const char *source = c->o.args[0];
	struct cove_error err;
	struct watch watch;
	char(*names)[64];
	int count, r;

	if (o.count && !o.prefix && !o.name)
		o.prefix = strchr(source, ':') ? strchr(source, ':') + 1 : source;
	watch_start_words(&watch, "forking", source, c->o.json);
	o.cancel_fd = cancel_catch();
	count = cove_fork(c->cove, source, &o, &names, &err);
	watch_stop(&watch);
	if (count < 0 && err.kind == COVE_INTERRUPTED && cancel_signal()) {
		cli_note("interrupted: no fork is left");
		return EXIT_SIGNAL + cancel_signal();
	}
	if (count < 0)
		return cli_fail(c, &err);
	r = print(c, (const char(*)[64])names, count, copy_left_out);
	free(names);
	return r;
}

const struct verb verb_fork = {
	.name = "fork",
	.synopsis = "fork BOX|SNAPSHOT [--name NAME | --count N --prefix P]",
	.summary = "new boxes that begin where another is",
	.help = "A fork has the files of the box, or of the snapshot, and writes only its own\n"
		"changes: making one costs the same however much is there. Limits, policy,\n"
		"variables, labels, wall and host directories are those of the box; a named\n"
		"workspace becomes one of the fork's own, named like it. Never taken over: the\n"
		"session, secrets, grants, keys, processes, what was written to a copy of a host\n"
		"directory (--copy) and not merged. Host name, /etc/machine-id and\n"
		"ssh host keys are its own. `box:NAME` and `snapshot:NAME` say which is meant.\n"
		"\n"
		"Examples\n"
		"  cove fork dev --name try\n"
		"  cove fork before-upgrade --count 3 --prefix try\n",
	.options = (const enum opt_id[]){OPT_FORK_NAME, OPT_FORK_COUNT, OPT_FORK_PREFIX,
					 OPT_NO_FREEZE, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = run,
};
