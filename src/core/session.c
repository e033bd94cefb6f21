/*
 * Sessions: a caller's own id is always the same box.
 *
 * open   no such box: make and start it. There: start or join it. Two programs that open one
 *        session at the same moment race to rename the record into place; the loser joins the
 *        winner's box.
 * close  persistence "workspace": the box is removed, its workspace stays. "box": it is stopped.
 *        With remove it is removed in both.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/core.h"
#include "core/life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_TRIES = 8 };

static int session_name(const char *session, const char *prefix, char ret[BOX_NAME_MAX + 1],
			struct err *e)
{
	if (!session || !*session)
		return err_set(e, ERR_INVALID, EINVAL, "a session id may not be empty");
	return spec_session_name(prefix, session, ret, e);
}

static int join(struct cove *cove, const char *name, struct cove_box **ret, struct err *e)
{
	struct conn *conn = NULL;
	int r = box_up(cove, name, &conn, e);

	return r < 0 ? r : box_handle_take(cove, name, false, conn, ret, e);
}

static void event_open(struct cove *cove, const char *name)
{
	struct record record;

	if (!cove->on_event || record_load(&cove->state, name, &record, NULL) < 0)
		return;
	core_event(cove, &(struct event){
				 .kind = EVENT_OPEN,
				 .box = name,
				 .image = record.spec.image,
				 .workspace = record.spec.workspace ? record.spec.workspace
								    : record.spec.workspace_dir,
			 });
	record_done(&record);
}

/* Joining first is the common case of an agent's next turn. */
static int open_named(struct cove *cove, const struct spec *spec, struct cove_box **ret,
		      struct err *e)
{
	int r = -ENOENT;

	for (int i = 0; i < OPEN_TRIES; i++) {
		autoclose int box_fd = -1;

		r = box_open_dir(cove, spec->name, &box_fd, e);
		if (r == 0) {
			r = join(cove, spec->name, ret, e);
			if (r == 0)
				event_open(cove, spec->name);
		} else if (r == -ENOENT) {
			r = box_create(cove, spec, ret, e);
		}
		/* -ENOENT: it was removed under our hands; the image's own ENOENT comes again. */
		if (r != -EEXIST && !(r == -ENOENT && box_fd >= 0))
			return r;
	}
	return r;
}

static int open_session(struct cove *cove, const char *session, const char *prefix,
			const struct cove_box_options *options, struct cove_box **ret,
			struct err *e)
{
	struct cove_box_options o;
	char name[BOX_NAME_MAX + 1];
	struct core_spec s;
	int r = core_copy_sized(&o, sizeof(o), options, e);

	if (r == 0)
		r = session_name(session, prefix, name, e);
	if (r < 0)
		return r;
	if (o.name)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a session's box has its own name: give no name");
	if (o.one_shot)
		return err_set(e, ERR_INVALID, EINVAL, "a session's box cannot be one-shot");
	r = core_spec_init(&s, &o, name, session, e);
	if (r < 0)
		return r;
	core_sweep(cove);
	r = open_named(cove, &s.spec, ret, e);
	core_spec_done(&s);
	return r;
}

int cove_open(struct cove *cove, const char *session, const char *prefix,
	      const struct cove_box_options *options, struct cove_box **ret, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, open_session(cove, session, prefix, options, ret, &e), &e,
			   err);
}

/* 1: it was removed, 2: stopped, 0: there was nothing to do. */
static int close_named(struct cove *cove, const char *name, bool remove, struct err *e)
{
	struct record record;
	bool keep;
	int r = record_load(&cove->state, name, &record, e);

	if (r == -ENOENT)
		return remove ? 0 : r;
	if (r < 0 && !remove)
		return r;
	keep = r == 0 && !remove && record.spec.persistence == PERSIST_BOX;
	if (r == 0)
		record_done(&record);
	if (keep) {
		r = box_halt(cove, name, "close", 0, e);
		return r > 0 ? 2 : r;
	}
	r = box_destroy(cove, name, "close", e);
	return r < 0 ? r : 1;
}

int cove_close(struct cove *cove, const char *session, const char *prefix, bool remove,
	       struct cove_error *err)
{
	char name[BOX_NAME_MAX + 1] = "";
	struct err e = {0};
	int r = session_name(session, prefix, name, &e);

	if (r == 0) {
		core_sweep(cove);
		r = close_named(cove, name, remove, &e);
	}
	if (r == -ENOENT)
		err_set(&e, ERR_NOT_FOUND, ENOENT, "session is not open: no box '%s'", name);
	if (r > 0)
		core_event(cove, &(struct event){.kind = EVENT_CLOSE,
						 .box = name,
						 .cause = r == 1 ? "removed" : "stopped",
						 .by = "close"});
	return core_return(cove, name, r > 0 ? 0 : r, &e, err);
}
