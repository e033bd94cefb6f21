/*
 * Putting in order what a crash left.
 *
 * Every box without a keeper (its lock is free) that is not being made, started or removed (so is
 * its operation lock) is looked at: a one-shot is deleted; one whose keeper was lost gets its end
 * written, with the cause, and its socket and cgroup are removed. Then: half-made and half-deleted
 * directories; sockets, cgroups and certificate authorities of boxes that are gone or do not run.
 * In the usual case, where nothing is left, that is one listing of each directory and one question
 * to a lock per box: what was found out about a box then is remembered for its socket and its
 * groups, and only a box that is not known to run is looked at again.
 *
 * That still grows with the boxes there are, so what happens often (create, run, open) sweeps only
 * if no sweep began within SWEEP_EVERY_MS: run/.swept says when the last one did. What concerns one
 * box looks at that one alone.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "cgroup/helper.h"
#include "core/life.h"
#include "core/rollback.h"
#include "core/watch.h"
#include "storage/pool.h"
#include "store/layer.h"
#include "store/net.h"
#include "store/premade.h"
#include "store/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ABANDONED_MS = 60000, SWEEP_EVERY_MS = 60000 };

#define SWEPT_FILE ".swept"

struct sweep {
	struct cove *cove;
	char **names; /* owned; of all boxes, sorted */
	bool *busy;   /* owned; somebody ran or held that one when it was looked at */
	size_t count;
};

/* The operation lock is held and the box is not live. */
static void judge(struct cove *cove, const char *name, int box_fd)
{
	struct record record;
	bool was_abandoned;
	struct err e = {0};
	int r = rollback_finish(cove, name, box_fd, &e);

	if (r == 0)
		r = record_load(&cove->state, name, &record, &e);
	/* A damaged record is its owner's to look at, and to remove. */
	if (r < 0)
		return;
	/* Whoever was creating it was killed before it ever ran, so it was never given to anybody.
	 * A keeper on its way has long arrived by then. */
	was_abandoned = record.state == BOX_CREATED &&
			clock_wall_ms() > record.spec.created_ms + ABANDONED_MS;
	if (was_abandoned)
		life_drop_workspace(cove, &record.spec);
	if (record.spec.one_shot || was_abandoned) {
		r = life_trash(cove, name, box_fd, false, &e);
	} else if (record.state == BOX_STOPPED && record.ended_ms == 0) {
		/* First what it left: a group that is half removed is swept again, and no box is
		 * started in it. */
		box_clear_runtime(cove, name);
		r = record_write_end(box_fd, record.cause, "", true, &e);
	}
	record_done(&record);
	if (r < 0)
		log_debug("sweep box %s: %s", name, e.msg);
}

/* Returns whether somebody runs it or works on it. */
static bool look_at(struct cove *cove, const char *name)
{
	autoclose int box_fd = -1;

	if (record_open(&cove->state, name, &box_fd, NULL) < 0)
		return false;
	if (record_is_live(box_fd) || record_lock_operation(box_fd, false, NULL) < 0)
		return true;
	/* Only now does no other process change it. */
	if (record_is_live(box_fd))
		return true;
	if (!core_has_moved(cove, name, box_fd))
		judge(cove, name, box_fd);
	return false;
}

static int compare(const void *name, const void *item)
{
	return strcmp(name, *(char *const *)item);
}

static bool was_busy(const struct sweep *s, const char *name)
{
	char **at = s->count ? bsearch(name, s->names, s->count, sizeof(*s->names), compare) : NULL;

	return at && s->busy[at - s->names];
}

static void delete_leftovers(struct cove *cove, int dir_fd)
{
	char **names;
	size_t count;
	struct err e = {0};

	if (state_leftovers(dir_fd, &names, &count) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		if (core_ids(cove, &e) < 0 ||
		    storage_delete(cove->state.home_fd, dir_fd, names[i], &cove->ids, &e) < 0)
			log_debug("sweep %s: %s", names[i], e.msg);
	}
	state_names_free(names, count);
}

/* Volumes of boxes whose directories somebody deleted without Cove. */
static void sweep_pool(struct cove *cove)
{
	const struct state *s = &cove->state;
	struct err e = {0};

	if (geteuid() == 0 && core_ids(cove, &e) == 0 &&
	    pool_sweep(s->home_fd, s->boxes_fd, s->workspaces_fd, &cove->ids, &e) < 0)
		log_debug("%s", e.msg);
}

/* What forks and snapshots that were killed left. */
static void sweep_layers(struct cove *cove)
{
	struct err e = {0};

	if (cove->state.layers_fd < 0 || core_ids(cove, &e) < 0)
		return;
	snapshot_sweep(&cove->state, &cove->ids);
	layers_sweep(&cove->state, &cove->ids);
}

static bool has_box(struct cove *cove, const char *name)
{
	struct stat st;

	return fstatat(cove->state.boxes_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A socket that somebody answers is left alone, whatever the records say. */
static void clear_sockets(const struct sweep *s)
{
	struct cove *cove = s->cove;
	char **names;
	size_t count;

	if (state_names(cove->state.run_fd, &names, &count) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct core_conn *c = NULL;
		int r;

		if (was_busy(s, names[i]) || has_box(cove, names[i]))
			continue;
		r = core_conn_connect(NULL, cove->state.run_fd, names[i], &c, NULL);
		core_conn_free(c);
		if (r == -ECONNREFUSED || (r == -ENOENT && !has_box(cove, names[i])))
			box_clear_runtime(cove, names[i]);
	}
	state_names_free(names, count);
}

static bool is_live(struct cove *cove, const char *name)
{
	autoclose int box_fd = -1;

	if (premade_is_name(name))
		return premade_is_there(&cove->state, name);
	if (record_open(&cove->state, name, &box_fd, NULL) < 0)
		return false;
	return record_is_live(box_fd) || record_lock_operation(box_fd, false, NULL) < 0;
}

/* A box's, or that of its keeper or door. */
static void on_group(const char *group, void *arg)
{
	const struct sweep *s = arg;
	struct cove *cove = s->cove;
	size_t tag = strlen(cove->state.tag);
	char of_box[BOX_NAME_MAX + 12];
	struct err e = {0};
	const char *name;

	if (cgroup_helper_box(group, of_box, sizeof(of_box)))
		group = of_box;
	name = group + tag + 1;
	/* It may be of a box that has another name by now. */
	if (strncmp(group, cove->state.tag, tag) == 0 && group[tag] == '-' &&
	    premade_is_name(name)) {
		if (!premade_is_there(&cove->state, name))
			(void)cgroup_remove_empty(group);
		return;
	}
	if (strncmp(group, cove->state.tag, tag) != 0 || group[tag] != '-' ||
	    !str_is_name(name, BOX_NAME_MAX) || was_busy(s, name) || is_live(cove, name))
		return;
	if (cgroup_remove(group, &e) < 0)
		log_debug("sweep cgroup %s: %s", group, e.msg);
}

static bool needs_authority(void *arg, const char *name)
{
	const struct sweep *s = arg;

	return was_busy(s, name) || is_live(s->cove, name);
}

bool core_was_left(const struct record *r)
{
	return r->state == BOX_CREATED || (r->state == BOX_STOPPED && r->ended_ms == 0) ||
	       (r->state != BOX_RUNNING && r->spec.one_shot);
}

void core_sweep_box(struct cove *cove, const char *name)
{
	if (cove->state.boxes_fd >= 0 && str_is_name(name, BOX_NAME_MAX))
		(void)look_at(cove, name);
}

void core_sweep_seldom(struct cove *cove)
{
	uint64_t now = clock_wall_ms(), at = UINT64_MAX;
	struct stat st;

	if (cove->swept)
		return;
	if (fstatat(cove->state.run_fd, SWEPT_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0)
		at = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
	/* A time that is yet to come is of a clock that was set back since. */
	if (at > now || now - at >= SWEEP_EVERY_MS)
		core_sweep(cove);
	cove->swept = true;
}

void core_sweep(struct cove *cove)
{
	autoclose int swept_fd = -1;
	struct sweep s = {.cove = cove};

	if (cove->swept || cove->state.boxes_fd < 0)
		return;
	cove->swept = true;
	/* Before it begins, so that those who come meanwhile do not sweep as well. */
	swept_fd = openat(cove->state.run_fd, SWEPT_FILE,
			  O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (swept_fd >= 0)
		(void)futimens(swept_fd, NULL);
	if (record_names(&cove->state, &s.names, &s.count, NULL) < 0)
		return;
	s.busy = calloc(s.count + 1, sizeof(*s.busy));
	for (size_t i = 0; s.busy && i < s.count; i++)
		s.busy[i] = look_at(cove, s.names[i]);
	delete_leftovers(cove, cove->state.boxes_fd);
	delete_leftovers(cove, cove->state.workspaces_fd);
	sweep_pool(cove);
	sweep_layers(cove);
	if (s.busy)
		clear_sockets(&s);
	if (s.busy)
		net_ca_sweep(&cove->state, needs_authority, &s);
	if (s.busy && cgroup_each(on_group, &s) < 0)
		log_debug("sweep: cgroups cannot be listed");
	free(s.busy);
	state_names_free(s.names, s.count);
}
