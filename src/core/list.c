/*
 * The list of boxes, from their records alone: what a box is, who has the lock, and what its keeper
 * wrote. No keeper is asked, so a thousand boxes are listed in the time of a few thousand system
 * calls (four for each) and one that hangs holds up nothing.
 */
#include "core/list.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/core.h"
#include "core/view.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill_info(struct cove_box_info *i, const struct record *r)
{
	const struct spec *s = &r->spec;
	const char *place = s->workspace ? s->workspace : s->workspace_dir;
	size_t len = place ? strlen(place) : 0;

	str_copy(i->image, sizeof(i->image), s->image);
	/* A long path keeps its end, which says more. */
	if (len < sizeof(i->workspace))
		str_copy(i->workspace, sizeof(i->workspace), place ? place : "");
	else
		snprintf(i->workspace, sizeof(i->workspace), "...%s",
			 place + len - (sizeof(i->workspace) - 4));
	str_copy(i->state, sizeof(i->state), r->paused ? "paused" : box_state_name(r->state));
	str_copy(i->cause, sizeof(i->cause), r->cause);
	str_copy(i->by, sizeof(i->by), r->by);
	str_copy(i->persistence, sizeof(i->persistence), persistence_name(s->persistence));
	if (s->session)
		str_copy(i->session, sizeof(i->session), s->session);
	if (s->owner)
		str_copy(i->owner, sizeof(i->owner), s->owner);
	i->created_ms = s->created_ms;
	i->started_ms = r->started_ms;
	i->ended_ms = r->ended_ms;
	i->keeper_pid = r->keeper_pid;
	/* One that is just starting has said nothing yet. */
	i->outdated = r->state == BOX_RUNNING && r->started_ms > 0 &&
		      r->init_revision < WIRE_INIT_REVISION;
}

/* False if it went away meanwhile. */
static bool load_info(struct cove *cove, const char *name, bool sweep, struct cove_box_info *ret)
{
	struct record record;
	struct err e = {0};
	int r = record_load(&cove->state, name, &record, &e);

	if (r == 0 && sweep && core_was_left(&record)) {
		record_done(&record);
		core_sweep_box(cove, name);
		r = record_load(&cove->state, name, &record, &e);
	}
	if (r == -ENOENT)
		return false;
	memset(ret, 0, sizeof(*ret));
	str_copy(ret->name, sizeof(ret->name), name);
	if (r < 0) {
		str_copy(ret->state, sizeof(ret->state),
			 e.kind == ERR_DAMAGED ? "damaged" : "unknown");
		str_copy(ret->cause, sizeof(ret->cause), "see cove inspect");
		return true;
	}
	fill_info(ret, &record);
	record_done(&record);
	return true;
}

int cove_list(struct cove *cove, struct cove_box_info **ret, struct cove_error *err)
{
	struct cove_box_info *infos = NULL;
	char **names = NULL;
	size_t count = 0;
	struct err e = {0};
	int r, n = 0;

	core_sweep_seldom(cove);
	r = record_names(&cove->state, &names, &count, &e);
	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? 0 : err_errno(&e, ENOMEM, "list boxes");
	}
	for (size_t i = 0; infos && i < count; i++)
		n += load_info(cove, names[i], true, &infos[n]) ? 1 : 0;
	state_names_free(names, count);
	if (r == 0)
		*ret = infos;
	return core_return(cove, NULL, r < 0 ? r : n, &e, err);
}

int list_outdated(struct cove *cove, char *ret, size_t size)
{
	size_t count, len = 0;
	char **names;
	int found = 0;

	ret[0] = 0;
	if (record_names(&cove->state, &names, &count, NULL) < 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct cove_box_info info;

		if (!load_info(cove, names[i], false, &info) || !info.outdated)
			continue;
		if (len < size)
			len += (size_t)snprintf(ret + len, size - len, "%s%s", found ? ", " : "",
						info.name);
		found++;
	}
	state_names_free(names, count);
	return found;
}

int list_host_paths(struct cove *cove, const char *name, struct buf *ret)
{
	struct record record;
	const struct spec *s = &record.spec;
	struct err e = {0};
	int r = record_load(&cove->state, name, &record, &e);

	if (r < 0)
		return r;
	if (s->workspace_dir)
		r = buf_append(ret, s->workspace_dir, strlen(s->workspace_dir) + 1);
	for (size_t i = 0; i < s->mount_count && r == 0; i++) {
		const struct spec_mount *m = &s->mounts[i];

		if (m->src[0] != '/') /* within the workspace */
			continue;
		r = buf_printf(ret, "%s%s", m->src, m->read_only ? ":ro" : "");
		if (r == 0)
			r = buf_append(ret, "", 1);
	}
	record_done(&record);
	return r;
}
