/*
 * Rolling a box back to a snapshot, in place.
 *
 *	end its processes -> write what it is to become (durable) -> delete its volume -> its record
 *	stands on the snapshot's layers -> its workspace does -> forget what it was to become
 *
 * From the second step on there is no way back: whoever finds the file, the next start at the
 * latest, does the rest. Each step can be done again. The operation lock is held from before the
 * box ends until it is done: no other process starts it halfway. So is the lock of its snapshots.
 */
#include "core/rollback.h"

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/life.h"
#include "core/snapshot.h"
#include "core/watch.h"
#include "store/rollback.h"
#include "store/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINEAGE_MAX = 4096 };

/* ---- may it? ---- */

/* Is it of this very box, or one of those that it came from? */
static bool is_of_lineage(struct cove *cove, const struct spec *spec, const struct snapshot *sn)
{
	char id[LAYER_ID_SIZE] = "";
	struct snapshot at;

	if (snapshot_is_of(sn, spec))
		return true;
	str_copy(id, sizeof(id), spec->from ? spec->from : "");
	for (int i = 0; i < LINEAGE_MAX && id[0]; i++) {
		if (strcmp(id, sn->id) == 0)
			return true;
		if (snapshot_find_id(&cove->state, id, &at) < 0)
			return false;
		str_copy(id, sizeof(id), at.parent ? at.parent : "");
		snapshot_done(&at);
	}
	return false;
}

/* Another box that has this workspace: 1 and its name. */
static int find_sharer(struct cove *cove, const struct spec *spec, char ret[BOX_NAME_MAX + 1],
		       struct err *e)
{
	char **names;
	size_t count;
	int r = record_names(&cove->state, &names, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		struct record other;

		if (strcmp(names[i], spec->name) == 0 ||
		    record_load(&cove->state, names[i], &other, NULL) < 0)
			continue;
		if (other.spec.workspace && strcmp(other.spec.workspace, spec->workspace) == 0) {
			str_copy(ret, BOX_NAME_MAX + 1, names[i]);
			r = 1;
		}
		record_done(&other);
	}
	state_names_free(names, count);
	return r;
}

int rollback_check_workspace(struct cove *cove, const struct spec *spec, struct err *e)
{
	char other[BOX_NAME_MAX + 1];
	int r = find_sharer(cove, spec, other, e);

	if (r > 0)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' has the workspace '%s' too: remove it first, or "
			       "--keep-workspace",
			       other, spec->workspace);
	return r;
}

static int check(struct cove *cove, const struct spec *spec, const struct snapshot *sn,
		 const struct cove_rollback_options *o, struct err *e)
{
	if (!o->foreign && !is_of_lineage(cove, spec, sn))
		return err_set(e, ERR_CONFLICT, EINVAL,
			       "snapshot '%s' is of box '%s', which '%s' does not come from: "
			       "--foreign (over HTTP 'foreign') does it all the same, and a fork "
			       "makes a box of it",
			       sn->name, sn->box, spec->name);
	if (spec->workspace_copy)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "box '%s' works on a copy of a host directory, which is in no "
			       "snapshot: `cove merge` its changes and make the box anew",
			       spec->name);
	if (spec->storage && strcmp(spec->storage, storage_tmpfs.name) == 0)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "box '%s' keeps its files in memory: stop it, and they are gone",
			       spec->name);
	if (!spec->workspace || o->keep_workspace)
		return 0;
	return rollback_check_workspace(cove, spec, e);
}

/* ---- doing it ---- */

static int replace_record(struct cove *cove, const char *name, int box_fd,
			  const struct rollback *rb, struct err *e)
{
	struct record record;
	int lock_fd = -1, r = record_load(&cove->state, name, &record, e);
	const char *old[SPEC_LAYER_MAX];
	size_t old_count;
	struct spec *spec = &record.spec;

	if (r < 0)
		return r;
	old_count = spec->layer_count;
	memcpy(old, spec->layers, sizeof(old));
	spec->layer_count = rb->layer_count;
	memcpy(spec->layers, rb->layers, rb->layer_count * sizeof(rb->layers[0]));
	spec->from = rb->from;
	spec->renew = spec->renew || rb->renew;
	r = record_replace(box_fd, spec, e);
	/* What only it stood on goes. */
	if (r == 0 && layers_lock(&cove->state, &lock_fd, NULL) == 0) {
		layers_trash_unused(&cove->state, old, old_count);
		fd_close(&lock_fd);
		layers_sweep(&cove->state, &cove->ids);
	}
	record_done(&record);
	return r;
}

static int replace_workspace(struct cove *cove, const char *name, const struct rollback *rb,
			     struct err *e)
{
	struct workspace_stack with = {.layers = (char **)(uintptr_t)rb->workspace_layers,
				       .count = rb->workspace_layer_count};
	struct record record;
	uint64_t bytes;
	int r;

	if (!rb->workspace)
		return 0;
	r = record_load(&cove->state, name, &record, e);
	if (r < 0)
		return r;
	bytes = record.spec.limits[LIMIT_DISK];
	/* A box that was made with it since would go on in what is put away. */
	r = rollback_check_workspace(cove, &record.spec, e);
	record_done(&record);
	if (r < 0)
		return r;
	str_copy(with.token, sizeof(with.token), rb->token);
	return workspace_stack_replace(&cove->state, rb->workspace, &cove->ids, &with, bytes, e);
}

int rollback_finish(struct cove *cove, const char *name, int box_fd, struct err *e)
{
	const struct storage_place place = {.home_fd = cove->state.home_fd, .dir_fd = box_fd};
	struct rollback rb;
	int r = rollback_read(box_fd, &rb, e);

	if (r <= 0)
		return r;
	r = core_ids(cove, e);
	if (r == 0)
		r = storage_detect(&place)->remove(&place, &cove->ids, e);
	if (r == 0)
		r = replace_record(cove, name, box_fd, &rb, e);
	if (r == 0)
		r = replace_workspace(cove, name, &rb, e);
	if (r == 0 && rb.renew)
		unlinkat(box_fd, BOX_RENEWED_FILE, 0);
	if (r == 0)
		r = rollback_end(box_fd, e);
	rollback_done(&rb);
	if (r < 0)
		err_prefix(e, "roll back box '%s'", name);
	return r;
}

int rollback_resume(struct cove *cove, const char *name, struct err *e)
{
	autoclose int box_fd = -1;
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r < 0 || !rollback_is_there(box_fd))
		return r;
	r = core_wait_lock(cove, name, box_fd, START_WAIT_MS, e);
	if (r < 0 || record_is_live(box_fd))
		return r;
	return rollback_finish(cove, name, box_fd, e);
}

/* The snapshot's layers are referred to from here on by the box, too. workspace: the box's own,
 * whatever the snapshot's was called; NULL: none goes back. */
static int write_intent(struct cove *cove, const struct snapshot *judged, int box_fd,
			const char *workspace, bool renew, struct err *e)
{
	autofree struct rollback *rb = calloc(1, sizeof(*rb));
	char token[WORKSPACE_TOKEN];
	struct snapshot sn = {0};
	int r = rb ? layers_hold(&cove->state) : -ENOMEM;

	if (r < 0)
		return err_errno(e, -r, "lock the layers");
	rand_hex(token, sizeof(token) / 2);
	r = snapshot_find(&cove->state, judged->name, &sn, e);
	if (r == 0 && strcmp(sn.id, judged->id) != 0)
		r = err_set(e, ERR_CONFLICT, EBUSY,
			    "snapshot '%s' was replaced by another meanwhile", judged->name);
	if (r == 0) {
		rb->token = token;
		rb->from = sn.id;
		rb->renew = renew;
		rb->layer_count = sn.layer_count;
		memcpy(rb->layers, sn.layers, sizeof(sn.layers));
		if (sn.workspace && workspace) {
			rb->workspace = workspace;
			rb->workspace_layer_count = sn.workspace_layer_count;
			memcpy(rb->workspace_layers, sn.workspace_layers,
			       sizeof(sn.workspace_layers));
		}
		r = rollback_write(box_fd, rb, e);
	}
	layers_release(&cove->state);
	snapshot_done(&sn);
	return r;
}

/* ---- what cannot be undone ---- */

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at++)
		if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == 0))
			return true;
	return false;
}

/* One that was let through and then did not end well (it was cut, say, when its box ended) left,
 * too, if any of it did. */
static bool has_left(const struct cove_audit_row *row)
{
	const char *kind = row->kind, *verdict = row->verdict;

	if (!verdict || (strcmp(kind, "connect") != 0 && strcmp(kind, "request") != 0))
		return false;
	if (strcmp(verdict, "allow") == 0)
		return true;
	return (strcmp(verdict, "cut") == 0 || strcmp(verdict, "failed") == 0) && row->bytes_up > 0;
}

static bool on_row(void *arg, const struct cove_audit_row *row)
{
	struct cove_rollback *ret = arg;
	size_t len = strlen(ret->hosts);

	if (!row || !has_left(row))
		return true;
	ret->sent += row->count ? row->count : 1;
	if (row->host && !has_word(ret->hosts, row->host) &&
	    len + strlen(row->host) + 3 < sizeof(ret->hosts))
		snprintf(ret->hosts + len, sizeof(ret->hosts) - len, "%s%s", len ? ", " : "",
			 row->host);
	return true;
}

static void look_at_door(struct cove *cove, const char *box, uint64_t since_ms,
			 struct cove_rollback *ret)
{
	struct cove_audit_options o = {.size = sizeof(o), .box = box, .since_ms = since_ms};

	ret->sent_unknown = cove_audit(cove, &o, on_row, ret, NULL) < 0;
}

/* ---- all of it ---- */

struct rolling {
	struct cove *cove;
	const char *box;
	const struct cove_rollback_options *o;
	struct cove_rollback *ret;
	struct core_hold *hold; /* owned: the place of a box that runs */
};

/* With both locks held. g->ret->started says whether it ran, also after a failure. */
static int roll(struct rolling *g, const struct snapshot *sn, int box_fd, struct err *e)
{
	struct record record;
	const char *workspace;
	bool foreign;
	int r = record_load(&g->cove->state, g->box, &record, e);

	if (r < 0)
		return r;
	r = check(g->cove, &record.spec, sn, g->o, e);
	foreign = !is_of_lineage(g->cove, &record.spec, sn);
	workspace = g->o->keep_workspace ? NULL : record.spec.workspace;
	if (r == 0 && record.state == BOX_RUNNING)
		g->hold = core_hold_keep(g->cove, &record.spec);
	if (r == 0)
		r = box_halt_to_roll_back(g->cove, g->box, e);
	if (r >= 0) {
		g->ret->started = r > 0;
		g->ret->host_dirs = snapshot_host_dirs(&record.spec);
		look_at_door(g->cove, g->box, sn->created_ms, g->ret);
		r = write_intent(g->cove, sn, box_fd, workspace, foreign, e);
	}
	record_done(&record);
	return r < 0 ? r : rollback_finish(g->cove, g->box, box_fd, e);
}

static int roll_back(struct rolling *g, const char *snapshot, struct err *e)
{
	struct cove *cove = g->cove;
	autoclose int box_fd = -1, snapshot_fd = -1;
	struct core_conn *conn = NULL;
	struct err why = {0};
	struct snapshot sn;
	int r = snapshot_find(&cove->state, snapshot, &sn, e), up;

	if (r == 0)
		r = core_ids(cove, e);
	if (r == 0)
		r = box_open_dir(cove, g->box, &box_fd, e);
	if (r == 0)
		r = commit_lock(cove, g->box, box_fd, &snapshot_fd, e);
	if (r == 0)
		r = core_wait_lock(cove, g->box, box_fd, START_WAIT_MS, e);
	if (r == 0)
		r = roll(g, &sn, box_fd, e);
	snapshot_done(&sn);
	fd_close(&box_fd);
	fd_close(&snapshot_fd);
	if (!g->ret->started)
		return r;
	/* One that ran does so again, whatever became of the rollback. */
	up = box_up(cove, g->box, false, &conn, &why);
	core_conn_free(conn);
	if (r < 0 || up == 0)
		return r;
	*e = why;
	err_prefix(e, "it is rolled back, but does not start");
	return up;
}

int cove_rollback(struct cove *cove, const char *box, const char *snapshot,
		  const struct cove_rollback_options *options, struct cove_rollback *ret,
		  struct cove_error *err)
{
	struct cove_rollback_options o = {0};
	struct cove_rollback own = {0};
	struct rolling g = {.cove = cove, .box = box, .o = &o, .ret = &own};
	struct err e = {0};
	int r = options ? core_copy_sized(&o, sizeof(o), options, &e) : 0;

	core_sweep_box(cove, box);
	if (r == 0)
		r = roll_back(&g, snapshot, &e);
	core_hold_end(g.hold);
	if (r == 0 && ret) {
		own.size = ret->size;
		memcpy(ret, &own, own.size < sizeof(own) ? own.size : sizeof(own));
	}
	return core_return(cove, box, r, &e, err);
}
