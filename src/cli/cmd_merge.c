/* cove merge: what a box changed, brought back to where it came from. */
#include "cli/cancel.h"
#include "cli/change.h"
#include "cli/cli.h"
#include "cli/watch.h"
#include "core/view.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_CONFLICT = 1 };

struct merging {
	struct cli *c;
	struct buf out; /* lines, or the array of JSON */
	struct json j;
	struct buf conflicts;
	int error;
};

/* A change as `cove diff` prints it; what is not taken goes to stderr, with its reason. */
static int put_line(struct merging *m, const struct cove_merge_item *i)
{
	bool taken = i->state == COVE_MERGE_TAKEN;
	struct buf *b = taken ? &m->out : &m->conflicts;
	int r = taken				  ? buf_printf(b, "%c ", "AMD"[i->kind])
		: i->state == COVE_MERGE_CONFLICT ? buf_append_str(b, "cove: conflict: ")
						  : buf_append_str(b, "cove: left out: ");

	if (r == 0)
		r = change_put_path(b, "", i->path);
	if (r == 0 && !taken)
		r = buf_printf(b, " (%s)", i->why);
	return r < 0 ? r : buf_append_str(b, "\n");
}

static int on_item(void *arg, const struct cove_merge_item *i)
{
	struct merging *m = arg;
	int r = 0;

	if (m->c->o.json) {
		view_merge_item_json(&m->j, i);
		r = m->j.error;
	} else {
		r = put_line(m, i);
	}
	m->error = r;
	return r < 0;
}

static int finish(struct merging *m, const struct cove_merge_result *result)
{
	bool conflicts = result->conflicts > 0;
	int r = 0;

	if (m->c->o.json) {
		json_array_end(&m->j);
		view_merge_result_json(&m->j, result);
		json_object_end(&m->j);
		(void)buf_append_str(&m->out, "\n");
		r = cli_out_buf(m->c, &m->out);
	} else {
		if (buf_len(&m->conflicts) > 0)
			fwrite(buf_data(&m->conflicts), 1, buf_len(&m->conflicts), stderr);
		if (!conflicts || m->c->o.dry_run)
			r = cli_out_buf(m->c, &m->out);
		if (!result->taken && !conflicts && !result->left_out && !result->finished)
			cli_note("nothing to merge");
		if (result->finished)
			cli_note("an earlier merge that was interrupted was finished first");
		if (result->restarted)
			cli_note("the box was stopped for it and started again");
		if (conflicts && !m->c->o.dry_run)
			cli_note(
				"nothing was merged: --theirs takes what the first box has, --ours "
				"leaves what is there, and paths choose");
	}
	return r ? r : conflicts ? EXIT_CONFLICT : 0;
}

static int run(struct cli *c)
{
	struct merging m = {.c = c};
	struct cove_merge_options o = {
		.size = sizeof(o),
		.prefer = c->o.theirs ? "theirs"
			  : c->o.ours ? "ours"
				      : NULL,
		.dry_run = c->o.dry_run,
		.trust_dir = c->o.box.trust_dir,
		.keep_workspace = c->o.keep_workspace,
		.on_item = on_item,
		.arg = &m,
	};
	struct cove_merge_result result;
	struct cove_error err;
	struct watch watch;
	size_t names = 0;
	int r;

	if (c->o.theirs && c->o.ours)
		return cli_usage(c, "--theirs and --ours exclude each other");
	/* A path begins with a slash, and no name does. */
	while (names < c->o.arg_count && c->o.args[names][0] != '/')
		names++;
	if (names == 0 || names > 2)
		return cli_usage(c,
				 "one box, or a fork and its box, and then paths; usage: cove %s",
				 c->verb->synopsis);
	o.from = c->o.args[0];
	o.to = names == 2 ? c->o.args[1] : NULL;
	o.paths = c->o.args + names;
	/* It leaves nothing in the directory. */
	if (!o.to)
		o.cancel_fd = cancel_catch();
	buf_init(&m.out, CHANGE_TEXT_MAX);
	buf_init(&m.conflicts, CHANGE_TEXT_MAX);
	json_init(&m.j, &m.out);
	if (c->o.json) {
		json_object_begin(&m.j);
		json_key(&m.j, "changes");
		json_array_begin(&m.j);
	}
	watch_start_words(&watch, "merging", o.from, c->o.json);
	r = cove_merge(c->cove, &o, &result, &err);
	watch_stop(&watch);
	if (r < 0 && err.kind == COVE_INTERRUPTED && cancel_signal())
		r = EXIT_SIGNAL + cancel_signal();
	else
		r = r < 0 ? cli_fail(c, &err) : finish(&m, &result);
	buf_done(&m.out);
	buf_done(&m.conflicts);
	return r;
}

const struct verb verb_merge = {
	.name = "merge",
	.synopsis = "merge BOX|FORK [BOX] [/PATH...]",
	.summary = "bring back what a box changed",
	.help = "Of a box that works on a copy of a directory of yours (--workspace DIR --copy):\n"
		"what it changed there comes back to the directory. Of a fork and the box that\n"
		"it came from: what the fork changed since it was forked comes to the box. All\n"
		"of it or the given paths (/workspace/src/main.c), as `cove diff` lists them.\n"
		"\n"
		"What was changed on both sides, differently, is a conflict: it is named,\n"
		"nothing is done, and the exit status is 1. --theirs takes what the first box\n"
		"has, --ours leaves what is there. It is done whole or not at all: what is\n"
		"interrupted, the next merge or start finishes.\n"
		"\n"
		"To a directory: a file that was changed there since the box had it is a\n"
		"conflict. What the box left alone since the last merge stays as it is there,\n"
		"and the box keeps its own. Left out, and named, is what makes this machine\n"
		"run something (.git/hooks, .vscode, .envrc ...), and links that lead out of\n"
		"the directory, unless --trust-dir; devices, FIFOs and sockets. Files are yours\n"
		"(as root: the directory's owner's), without set-user-ID bits.\n"
		"\n"
		"To a box: it is stopped for it and started again, and what it has then is what\n"
		"it stands on. What the fork changed in its copy of a named workspace comes too,\n"
		"unless --keep-workspace; while another box has that workspace nothing does.\n"
		"\n"
		"Examples\n"
		"  cove diff --text --workspace my-box && cove merge my-box\n"
		"  cove merge my-box /workspace/src\n"
		"  cove fork my-box --count 3 --prefix try; cove merge try-2 my-box\n",
	.options = (const enum opt_id[]){OPT_DRY_RUN, OPT_THEIRS, OPT_OURS, OPT_MERGE_TRUST,
					 OPT_KEEP_WORKSPACE, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.answers = true,
	.run = run,
};
