/* cove watch: what changes in a directory of a box. */
#include "base/fd.h"
#include "cli/cancel.h"
#include "cli/place.h"

struct shown_changes {
	struct cli *c;
	struct cli_place place;
	int status;
};

static const char *const words[] = {
	[COVE_WATCH_READY] = "ready",	  [COVE_WATCH_CREATED] = "created",
	[COVE_WATCH_WRITTEN] = "written", [COVE_WATCH_REMOVED] = "removed",
	[COVE_WATCH_RENAMED] = "renamed", [COVE_WATCH_CHMOD] = "chmod",
	[COVE_WATCH_LOST] = "lost",	  [COVE_WATCH_UNWATCHED] = "unwatched"};

static int print_json(struct cli *c, const struct cove_watch_event *e)
{
	struct cli_object o;
	struct json *j = cli_object_begin(&o);

	json_kv_str(j, "change", words[e->kind]);
	json_kv_str(j, "path", e->path);
	if (e->to)
		json_kv_str(j, "to", e->to);
	json_kv_bool(j, "directory", e->is_dir);
	return cli_object_end(c, &o);
}

static int on_event(void *arg, const struct cove_watch_event *e)
{
	struct shown_changes *w = arg;
	struct buf line;
	int r;

	if (w->c->o.json) {
		w->status = print_json(w->c, e);
		return w->status;
	}
	buf_init(&line, 64u << 10);
	r = buf_printf(&line, "%-9s ", words[e->kind]);
	if (r == 0)
		r = cli_put_path_in(&line, &w->place, e->path);
	if (r == 0 && e->to)
		r = buf_append_str(&line, " -> ");
	if (r == 0 && e->to)
		r = cli_put_path_in(&line, &w->place, e->to);
	if (r == 0)
		r = buf_append_str(&line, "\n");
	w->status = r < 0 ? EXIT_COVE : cli_out_buf(w->c, &line);
	buf_done(&line);
	return w->status;
}

static int run(struct cli *c)
{
	struct shown_changes w = {.c = c};
	struct cove_watch_options o = {
		.size = sizeof(o),
		.user = c->o.box.user,
		.recursive = c->o.recursive,
		.on_event = on_event,
		.arg = &w,
	};
	struct cove_error err;
	int r = cli_place_first(c, true, &w.place);

	if (r != 0)
		return r;
	o.stop_fd = cancel_catch();
	if (cove_watch(c->box, w.place.path, &o, &err) < 0)
		return cli_broken(c, &err);
	return w.status ? w.status : cancel_signal() ? EXIT_SIGNAL + cancel_signal() : 0;
}

const struct verb verb_watch = {
	.name = "watch",
	.synopsis = "watch BOX:DIR [-r]",
	.summary = "print what changes in a directory",
	.help = "A line for each change as it comes, until Ctrl-C or the end of the box: created,\n"
		"written, removed, renamed, chmod. `ready` says that what happens from then on\n"
		"is seen, `lost` that changes came faster than they were taken, `unwatched` that\n"
		"a directory cannot be (8,192 are at most).\n"
		"\n"
		"Examples\n"
		"  cove watch dev:/workspace -r\n"
		"  cove watch dev:/tmp --json\n",
	.options = (const enum opt_id[]){OPT_RECURSIVE, OPT_COPY_USER, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.run = run,
};
