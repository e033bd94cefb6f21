/*
 * Boxes as a caller sees them: create, find, start, stop, remove, and the handle with its
 * connections.
 *
 * A handle keeps one idle connection. A request takes it, or makes another when it is in use, and
 * gives it back; so commands that a caller drives side by side never wait for each other, and a
 * line in a live shell costs one write and one or two reads. The connection a one-shot box was born
 * with is never closed before the handle: its end is the end of the box.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/life.h"
#include "core/transfer.h"
#include "core/watch.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRESH_NAME_TRIES = 8 };

int box_handle_take(struct cove *cove, const char *name, bool one_shot, struct core_conn *conn,
		    struct cove_box **ret, struct err *e)
{
	struct cove_box *box = calloc(1, sizeof(*box));

	if (!box) {
		core_conn_free(conn);
		return err_errno(e, ENOMEM, "open box '%s'", name);
	}
	box->cove = cove;
	box->refs = 1;
	str_copy(box->name, sizeof(box->name), name);
	box->one_shot = one_shot;
	box->idle = conn;
	*ret = box;
	return 0;
}

int box_conn_get(struct cove_box *box, struct core_conn **ret, struct err *e)
{
	struct core_conn *c = box->idle;

	box->idle = NULL;
	/* The one-shot's own connection is all there is: let it say what happened. */
	if (c && (c->first || !core_conn_is_dead(c))) {
		*ret = c;
		return 0;
	}
	core_conn_free(c);
	return core_conn_connect(NULL, box->cove->state.run_fd, box->name, ret, e);
}

void box_conn_put(struct cove_box *box, struct core_conn *c)
{
	bool broken;

	if (!c)
		return;
	broken = c->lost || c->violated;
	if ((box->idle && (broken || !c->first)) || (broken && !(c->first && box->one_shot))) {
		core_conn_free(c);
	} else {
		core_conn_free(box->idle);
		box->idle = c;
	}
}

void box_unref(struct cove_box *box)
{
	if (!box || --box->refs > 0)
		return;
	if (box->one_shot) {
		/* It is gone when its handle is: the keeper closes its end after it took the box
		 * out of sight, and what is left to delete then is not waited for. */
		if (box->idle)
			core_conn_wait_end(box->idle, ONE_SHOT_END_MS);
		core_event(
			box->cove,
			&(struct event){.kind = EVENT_CLOSE, .box = box->name, .cause = "removed"});
	} else if (box->visit && box->idle) {
		autoclose int box_fd = -1;

		/* The next command finds it stopped. */
		core_conn_wait_end(box->idle, STOP_WAIT_MS);
		if (box_open_dir(box->cove, box->name, &box_fd, NULL) == 0)
			(void)core_wait_free(box->cove, box->name, box_fd, STOP_WAIT_MS);
	}
	core_conn_free(box->idle);
	free(box->last_cwd);
	free(box);
}

void cove_box_free(struct cove_box *box)
{
	box_unref(box);
}

const char *cove_box_name(const struct cove_box *box)
{
	return box->name;
}

int box_open_dir(struct cove *cove, const char *name, int *ret_fd, struct err *e)
{
	return record_open(&cove->state, name, ret_fd, e);
}

void box_event_open(struct cove *cove, const struct spec *spec)
{
	core_event(cove,
		   &(struct event){
			   .kind = EVENT_OPEN,
			   .box = spec->name,
			   .image = spec->image,
			   .workspace = spec->workspace ? spec->workspace : spec->workspace_dir,
		   });
}

/* Can commands run as it was asked? Otherwise each of them would fail. */
static int check_start(struct cove_box *box, const struct cove_box_options *o, struct err *e)
{
	const char *dir = o->cwd ? o->cwd : ".";
	char type = 0, why[160];
	int r = files_probe(box, dir, NULL, &type, e);

	if (r == -ESRCH) {
		str_copy(why, sizeof(why), e->msg);
		return err_set(e, ERR_NOT_FOUND, ESRCH,
			       "%s (--user): name one of the image's, or a number: UID[:GID]", why);
	}
	/* Where the box's user may not look is nothing known of it. */
	if (r < 0 && r != -EACCES)
		return r;
	if (r == -EACCES || (r > 0 && type == 'd') || !o->cwd)
		return 0;
	return err_set(e, ERR_NOT_FOUND, r > 0 ? ENOTDIR : ENOENT,
		       "'%.120s' is no directory in this box (--workdir): name one of the image's, "
		       "/workspace, or a --mount",
		       dir);
}

static bool has_workspace(const struct cove *cove, const char *name)
{
	char disk[80];

	snprintf(disk, sizeof(disk), "%s.img", name);
	return cove->state.workspaces_fd >= 0 &&
	       (faccessat(cove->state.workspaces_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		faccessat(cove->state.workspaces_fd, disk, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

int box_create(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
	       struct cove_box **ret, struct err *e)
{
	const struct spec *spec = &s->spec;
	bool is_new_workspace = spec->workspace && !has_workspace(cove, spec->workspace);
	struct core_conn *conn = NULL;
	int r = life_create(cove, s, o, &conn, e);

	if (r == 0 && spec->one_shot)
		core_sweep_seldom(cove); /* while it comes up */
	if (r == 0)
		r = box_handle_take(cove, spec->name, spec->one_shot, conn, ret, e);
	if (r < 0)
		return r;
	if (!spec->one_shot && (o->cwd || o->user))
		r = check_start(*ret, o, e);
	if (r == 0) {
		box_event_open(cove, spec);
		return 0;
	}
	/* Nothing stays of a box that was not made. */
	box_unref(take_ptr(*ret));
	(void)box_destroy(cove, spec->name, "create", NULL);
	if (is_new_workspace)
		(void)cove_workspace_remove(cove, spec->workspace, NULL);
	return r;
}

static int create(struct cove *cove, const struct cove_box_options *options, struct cove_box **ret,
		  struct err *e)
{
	struct cove_box_options o;
	struct core_spec s;
	int r = core_copy_sized(&o, sizeof(o), options, e);

	if (r < 0)
		return r;
	if (!o.one_shot)
		core_sweep_seldom(cove);
	/* The name may be that of a box that a crash left. */
	if (o.name)
		core_sweep_box(cove, o.name);
	for (int i = 0; i < FRESH_NAME_TRIES; i++) {
		r = core_spec_init(&s, &o, NULL, NULL, e);
		if (r < 0)
			return r;
		r = box_create(cove, &s, &o, ret, e);
		core_spec_done(&s);
		if (r != -EEXIST || o.name)
			return r;
	}
	return r;
}

int cove_create(struct cove *cove, const struct cove_box_options *options, struct cove_box **ret,
		struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, create(cove, options, ret, &e), &e, err);
}

static int find(struct cove *cove, const char *name, bool visit, struct cove_box **ret,
		struct err *e)
{
	autoclose int box_fd = -1;
	struct core_conn *conn = NULL;
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r == 0)
		r = core_conn_connect(NULL, cove->state.run_fd, name, &conn, e);
	if (box_fd >= 0 && (r == -ENOENT || r == -ECONNREFUSED)) {
		core_sweep_box(cove, name);
		/* No keeper answers: it may be coming up this very moment. */
		r = record_is_live(box_fd)
			    ? core_wait_socket(cove, name, box_fd, START_WAIT_MS, &conn)
			    : -EAGAIN;
		if (r == -EAGAIN && visit)
			r = box_up(cove, name, true, &conn, e);
		else if (r == -EAGAIN)
			r = err_set(e, ERR_CONFLICT, ENOTCONN,
				    "box '%s' is stopped; start it first (cove start %s)", name,
				    name);
		else if (r < 0)
			err_errno(e, -r, "connect to box '%s'", name);
	}
	/* HELLO is looked at when it comes: the first request need not wait for it. */
	if (r == 0)
		r = box_handle_take(cove, name, false, conn, ret, e);
	if (r == 0)
		(*ret)->visit = conn->visit;
	return r;
}

int cove_find(struct cove *cove, const char *name, struct cove_box **ret, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, name, find(cove, name, false, ret, &e), &e, err);
}

int cove_visit(struct cove *cove, const char *name, struct cove_box **ret, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, name, find(cove, name, true, ret, &e), &e, err);
}

int cove_start(struct cove *cove, const char *name, struct cove_error *err)
{
	struct core_conn *conn = NULL;
	struct err e = {0};
	int r;

	core_sweep(cove);
	r = box_up(cove, name, false, &conn, &e);
	core_conn_free(conn);
	return core_return(cove, name, r, &e, err);
}

int cove_stop(struct cove *cove, const char *name, const char *by, uint64_t grace_ms,
	      struct cove_error *err)
{
	struct err e = {0};
	int r;

	core_sweep(cove);
	r = box_halt(cove, name, by, grace_ms, &e);
	if (r > 0)
		core_event(cove,
			   &(struct event){
				   .kind = EVENT_CLOSE, .box = name, .cause = "stopped", .by = by});
	return core_return(cove, name, r < 0 ? r : 0, &e, err);
}

static int remove_box(struct cove *cove, const char *name, bool force, struct err *e)
{
	autoclose int box_fd = -1;
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r == -ENOENT && force)
		return 0;
	/* Something with that name which is no directory is removed all the same. */
	if (r < 0 && r != -ENOTDIR && r != -ELOOP)
		return r;
	if (box_fd >= 0 && !force && record_is_live(box_fd))
		return err_set(
			e, ERR_CONFLICT, EBUSY,
			"box '%s' is running; stop it first, or remove it by force (cove rm -f %s)",
			name, name);
	return box_destroy(cove, name, "remove", e);
}

int cove_remove(struct cove *cove, const char *name, bool force, struct cove_error *err)
{
	struct err e = {0};
	int r;

	core_sweep(cove);
	r = remove_box(cove, name, force, &e);
	if (r == 0)
		core_event(cove,
			   &(struct event){.kind = EVENT_CLOSE, .box = name, .cause = "removed"});
	return core_return(cove, name, r, &e, err);
}
