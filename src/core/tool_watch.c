/* Watching a directory in a box. */
#include "core/tool.h"

#include "base/fd.h"

#include <errno.h>

static int on_change(void *arg, const struct wire_frame *f, struct err *e)
{
	static const enum cove_watch_kind kinds[CHANGE_KIND_COUNT] = {
		[CHANGE_READY] = COVE_WATCH_READY,     [CHANGE_CREATED] = COVE_WATCH_CREATED,
		[CHANGE_WRITTEN] = COVE_WATCH_WRITTEN, [CHANGE_REMOVED] = COVE_WATCH_REMOVED,
		[CHANGE_RENAMED] = COVE_WATCH_RENAMED, [CHANGE_CHMOD] = COVE_WATCH_CHMOD,
		[CHANGE_LOST] = COVE_WATCH_LOST,       [CHANGE_UNWATCHED] = COVE_WATCH_UNWATCHED};
	const struct cove_watch_options *o = arg;
	struct cove_watch_event event = {0};
	struct wire_change m;
	int r;

	if (f->type != WIRE_CHANGE || wire_change_decode(f, &m) < 0 || m.kind == 0)
		return core_tool_unexpected(f, e);
	/* What a newer init says of is passed over. */
	if (m.kind >= CHANGE_KIND_COUNT)
		return 0;
	event.kind = kinds[m.kind];
	event.is_dir = m.is_dir;
	r = core_tool_path(m.path, &event.path, e);
	if (r == 0 && m.kind == CHANGE_RENAMED)
		r = core_tool_path(m.to, &event.to, e);
	if (r < 0)
		return r;
	return o->on_event && o->on_event(o->arg, &event) != 0;
}

int cove_watch(struct cove_box *box, const char *dir, const struct cove_watch_options *options,
	       struct cove_error *err)
{
	struct cove_watch_options o;
	struct core_tool tool = {.on_frame = on_change, .arg = &o};
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	if (r == 0)
		r = core_tool_run(&tool, box,
				  &(struct wire_file){.op = FILE_WATCH,
						      .path = dir,
						      .user = o.user,
						      .recursive = o.recursive},
				  o.stop_fd, &e);
	if (r > 0 || (r < 0 && tool.cancelled))
		r = 0;
	else if (r == 0)
		r = err_set(&e, ERR_INTERRUPTED, ECANCELED, "the watch ended");
	return core_return(box->cove, box->name, r, &e, err);
}
