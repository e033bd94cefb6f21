/* Snapshots that a box asks for itself; see snapshot_inside.h. */
#include "core/snapshot_inside.h"

#include "base/str.h"
#include "core/snapshot.h"
#include "wire/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void snapshot_inside_name(const char *box, const char *name, char ret[BOX_NAME_MAX + 1])
{
	size_t room = BOX_NAME_MAX - 1 - strlen(name), part = strlen(box);

	if (part > room)
		part = room;
	while (part > 0 && box[part - 1] == '-')
		part--;
	snprintf(ret, BOX_NAME_MAX + 1, "%.*s-%s", (int)part, box, name);
}

static bool is_own(const struct snapshot *s, const struct spec *box)
{
	return s->inside && !s->transient && s->tag_count == 0 && snapshot_is_of(s, box);
}

static int count_own(struct cove *cove, const struct spec *box, uint64_t *ret, struct err *e)
{
	struct snapshot *list;
	size_t count;
	int r = snapshot_list(&cove->state, &list, &count, e);

	if (r < 0)
		return r;
	*ret = 0;
	for (size_t i = 0; i < count; i++)
		*ret += is_own(&list[i], box);
	snapshot_list_free(list, count);
	return 0;
}

/* Oldest first, until the rest fits; the newest stays. */
static int fit(struct cove *cove, const struct spec *box, struct err *e)
{
	uint64_t bytes = 0, have = 0, bytes_max = box->limits[LIMIT_DISK];
	struct snapshot *list;
	size_t count;
	int r = snapshot_list(&cove->state, &list, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		if (is_own(&list[i], box)) {
			bytes += list[i].bytes;
			have++;
		}
	for (size_t i = 0; i < count && r == 0 && have > 1 && bytes_max && bytes > bytes_max; i++) {
		if (!is_own(&list[i], box))
			continue;
		r = snapshot_remove_plain(&cove->state, &cove->ids, &list[i], e);
		if (r == -ENOENT)
			r = 0;
		bytes -= list[i].bytes;
		have--;
	}
	snapshot_list_free(list, count);
	return r;
}

/* BOX-NAME, and there is a box whose name goes on as this one's does: it would be taken for one of
 * that. The answer is the same as for a name that is taken. */
static int check_whose(struct cove *cove, const struct spec *box, const char *full, struct err *e)
{
	char **names;
	size_t count, n = strlen(box->name);
	struct snapshot sn;
	int r = record_names(&cove->state, &names, &count, e);
	bool is_taken = false;

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && !is_taken; i++)
		is_taken = strlen(names[i]) > n && str_starts(full, names[i]) &&
			   full[strlen(names[i])] == '-';
	state_names_free(names, count);
	if (!is_taken && snapshot_find(&cove->state, full, &sn, NULL) == 0) {
		is_taken = true;
		snapshot_done(&sn);
	}
	if (is_taken)
		return err_set(e, ERR_EXISTS, EEXIST, "that name is taken already: choose another");
	return 0;
}

static int take(struct cove *cove, const struct spec *box, const char *name, uint64_t keep,
		struct snapshot_inside *ret, struct err *e)
{
	char full[BOX_NAME_MAX + 1];
	struct snapshot sn = {0};
	uint64_t have;
	int r = count_own(cove, box, &have, e);

	if (r < 0)
		return r;
	if (have >= keep)
		return err_set(e, ERR_LIMIT, EDQUOT,
			       "this box has made %llu snapshots and may have no more: its owner "
			       "can remove one or give it a tag",
			       (unsigned long long)have);
	snapshot_inside_name(box->name, name, full);
	r = check_whose(cove, box, full, e);
	if (r < 0)
		return r;
	r = snapshot_make(cove, box->name, &(struct snapshot_make){.name = full, .inside = true},
			  &sn, e);
	/* Whose key it is, and what else that has, is not the box's to know. */
	if (r == -EDQUOT)
		err_set(e, ERR_LIMIT, EDQUOT,
			"what this box's owner may have leaves no room for one more snapshot");
	if (r == 0) {
		*ret = (struct snapshot_inside){.frozen_us = sn.frozen_us, .total_us = sn.total_us};
		str_copy(ret->name, sizeof(ret->name), sn.name);
	}
	snapshot_done(&sn);
	if (r == 0)
		r = fit(cove, box, e);
	if (r == 0)
		r = count_own(cove, box, &have, e);
	if (r == 0)
		ret->left = keep > have ? keep - have : 0;
	return r;
}

int snapshot_inside_make(struct cove *cove, const char *box, const char *name, uint64_t keep,
			 struct snapshot_inside *ret, struct err *e)
{
	struct record record;
	int r = state_check_name("box", box, e);

	if (r == 0 && !wire_ctl_is_name(name))
		r = err_set(e, ERR_INVALID, EINVAL, "'%.40s' is no name for a snapshot", name);
	if (r == 0)
		r = core_ids(cove, e);
	if (r == 0)
		r = record_load(&cove->state, box, &record, e);
	if (r < 0)
		return r;
	r = take(cove, &record.spec, name, keep, ret, e);
	record_done(&record);
	return r;
}
