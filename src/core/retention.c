/*
 * How many snapshots are kept: rules of boxes and of images (store/retention.h), and what they say
 * is too much. A rule is applied after each snapshot of a box, and by prune.
 */
#include "store/retention.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/snapshot.h"
#include "store/image.h"
#include "store/key.h"

#include <errno.h>
#include <string.h>

#define OF_IMAGE "image:"

/* ---- rules ---- */

static int check_rule(const struct retention *rule, struct err *e)
{
	if (rule->keep > SNAPSHOT_KEEP_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "--keep is at most %u", SNAPSHOT_KEEP_MAX);
	return 0;
}

static int rule_error(int r, const char *what, const char *name, struct err *e)
{
	if (r == -EBADMSG)
		return err_set(
			e, ERR_DAMAGED, EBADMSG,
			"the rule for snapshots of %s '%.100s' is damaged: cove snapshot rule "
			"%s%.100s --none",
			what, name, strcmp(what, "image") == 0 ? OF_IMAGE : "", name);
	return err_errno(e, -r, "the rule for snapshots of %s '%.100s'", what, name);
}

/* The box's own, else its image's. */
static int find_rule(struct cove *cove, const struct spec *spec, int box_fd, struct retention *ret,
		     bool *ret_of_image, struct err *e)
{
	int r = retention_read_box(box_fd, ret);

	*ret_of_image = false;
	if (r < 0)
		return rule_error(r, "box", spec->name, e);
	if (!retention_is_none(ret))
		return 0;
	r = retention_read_image(&cove->state, spec->image, ret);
	*ret_of_image = !retention_is_none(ret);
	return r < 0 ? rule_error(r, "image", spec->image, e) : 0;
}

int snapshot_rule_change(struct cove *cove, const char *box, const struct retention *to,
			 struct err *e)
{
	struct retention rule = {0};
	autoclose int box_fd = -1;
	int r = check_rule(to, e);

	if (r == 0)
		r = box_open_dir(cove, box, &box_fd, e);
	if (r < 0)
		return r;
	(void)retention_read_box(box_fd, &rule); /* one that cannot be read is written anew */
	if (to->keep)
		rule.keep = to->keep;
	if (to->max_age_ms)
		rule.max_age_ms = to->max_age_ms;
	r = retention_write_box(box_fd, &rule);
	return r < 0 ? state_error(&cove->state, -r, "keep a rule in", e) : 0;
}

static int rule_of_image(struct cove *cove, const char *name, const struct retention *set,
			 struct retention *ret, struct err *e)
{
	struct image im;
	int r = image_find(&cove->state, name, &im, e);

	if (r == 0 && set) {
		r = retention_write_image(&cove->state, im.name, set);
		if (r < 0)
			r = state_error(&cove->state, -r, "keep a rule in", e);
	}
	if (r == 0) {
		r = retention_read_image(&cove->state, im.name, ret);
		if (r < 0)
			r = rule_error(r, "image", im.name, e);
	}
	image_done(&im);
	return r;
}

static int rule_of_box(struct cove *cove, const char *name, const struct retention *set,
		       struct retention *ret, bool *ret_of_image, struct err *e)
{
	autoclose int box_fd = -1;
	struct record record;
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r == 0 && set) {
		r = retention_write_box(box_fd, set);
		if (r < 0)
			r = state_error(&cove->state, -r, "keep a rule in", e);
	}
	if (r == 0)
		r = record_load(&cove->state, name, &record, e);
	if (r < 0)
		return r;
	r = find_rule(cove, &record.spec, box_fd, ret, ret_of_image, e);
	record_done(&record);
	return r;
}

int cove_snapshot_rule(struct cove *cove, const char *of, const struct cove_snapshot_rule *set,
		       struct cove_snapshot_rule *ret, struct cove_error *err)
{
	bool is_image = strncmp(of, OF_IMAGE, strlen(OF_IMAGE)) == 0, of_image = is_image;
	struct retention to = {0}, rule = {0};
	struct err e = {0};
	int r = 0;

	if (set) {
		to = (struct retention){.keep = set->keep, .max_age_ms = set->max_age_ms};
		r = check_rule(&to, &e);
	}
	if (r == 0 && is_image)
		r = rule_of_image(cove, of + strlen(OF_IMAGE), set ? &to : NULL, &rule, &e);
	else if (r == 0)
		r = rule_of_box(cove, of, set ? &to : NULL, &rule, &of_image, &e);
	if (r == 0 && ret)
		*ret = (struct cove_snapshot_rule){
			.keep = rule.keep, .max_age_ms = rule.max_age_ms, .of_image = of_image};
	return core_return(cove, is_image ? NULL : of, r, &e, err);
}

/* ---- applying them ---- */

/* A file's writer, or another key, says nothing about what an owner has. */
static bool is_of_owner(const struct snapshot *s, const char *owner)
{
	return owner ? key_name_out(owner, KEY_OF_SNAPSHOT, s->name) != NULL
		     : key_name_plain(KEY_OF_SNAPSHOT, s->name) == s->name;
}

/* Those of this very box, without the ones that have a tag: somebody wants them. What the box made
 * itself has a rule of its own, and pushes none of its owner's out. */
static bool is_counted(const struct snapshot *s, const struct spec *spec)
{
	return snapshot_is_of(s, spec) && is_of_owner(s, spec->owner) && s->tag_count == 0 &&
	       !s->transient && !s->inside;
}

/* Oldest first; the last one stays, however old it is. How many went. */
static int remove_old(struct cove *cove, const struct spec *spec, const struct retention *rule,
		      struct err *e)
{
	struct snapshot *list;
	size_t count, have = 0;
	int removed = 0, r = snapshot_list(&cove->state, &list, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		have += is_counted(&list[i], spec);
	for (size_t i = 0; i < count && r == 0 && have > 1; i++) {
		bool is_old = rule->max_age_ms &&
			      clock_wall_since_ms(list[i].created_ms) > rule->max_age_ms;

		if (!is_counted(&list[i], spec) || (!is_old && (!rule->keep || have <= rule->keep)))
			continue;
		r = snapshot_remove_plain(&cove->state, &cove->ids, &list[i], e);
		if (r == -ENOENT)
			r = 0;
		have--;
		removed++;
	}
	snapshot_list_free(list, count);
	return r < 0 ? r : removed;
}

int snapshot_retain(struct cove *cove, const char *box, struct err *e)
{
	struct retention rule;
	autoclose int box_fd = -1;
	struct record record;
	bool of_image;
	int r = box_open_dir(cove, box, &box_fd, e);

	if (r == 0)
		r = core_ids(cove, e);
	if (r == 0)
		r = record_load(&cove->state, box, &record, e);
	if (r < 0)
		return r;
	r = find_rule(cove, &record.spec, box_fd, &rule, &of_image, e);
	if (r == 0 && !retention_is_none(&rule))
		r = remove_old(cove, &record.spec, &rule, e);
	record_done(&record);
	return r;
}

int cove_snapshot_prune(struct cove *cove, const char *box, uint64_t *ret_removed,
			struct cove_error *err)
{
	char **names = NULL;
	size_t count = 0;
	uint64_t removed = 0;
	struct err e = {0};
	int r = box ? snapshot_retain(cove, box, &e)
		    : record_names(&cove->state, &names, &count, &e);

	if (box && r > 0)
		removed = (uint64_t)r;
	for (size_t i = 0; i < count && r >= 0; i++) {
		r = snapshot_retain(cove, names[i], &e);
		removed += r > 0 ? (uint64_t)r : 0;
		if (r == -ENOENT)
			r = 0;
	}
	state_names_free(names, count);
	if (ret_removed)
		*ret_removed = removed;
	return core_return(cove, box, r < 0 ? r : 0, &e, err);
}
