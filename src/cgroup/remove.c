/*
 * Removing a box's groups from every tree, and naming those that are there.
 *
 * The v2 group goes first: its kill ends everything at once, after which the v1 groups are empty
 * too. Where there is no v2 the freezer's group is what holds all processes.
 */
#include "base/fd.h"
#include "cgroup/parts.h"

#include <errno.h>
#include <fcntl.h>

enum { ROUNDS = 3 };

static const enum layout_tree order[] = {LAYOUT_V2,  LAYOUT_FREEZER, LAYOUT_MEMORY, LAYOUT_PIDS,
					 LAYOUT_CPU, LAYOUT_CPUACCT, LAYOUT_IO};

/* The usual case: everything has ended, and of the groups that init made none is left. */
static int remove_quickly(const struct layout *l, enum layout_tree t, const char *box)
{
	layout_kind(t)->remove_below(l, t, box);
	return layout_remove(l, t, box, "");
}

static int remove_tree(const struct layout *l, enum layout_tree t, const char *box, struct err *e)
{
	autoclose int base = -1;
	int r = remove_quickly(l, t, box);

	for (int i = 0; i < ROUNDS && r < 0 && r != -ENOENT; i++) {
		if (base < 0)
			base = layout_open(l, t, false);
		autoclose int fd = base < 0 ? base : group_open(base, box);
		/* A read-only mount refuses also where there is nothing. */
		if (fd == -ENOENT)
			return 0;
		if (fd < 0 || layout_kind(t)->kill(fd) < 0)
			break;
		/* Cut short, it is swept later; somebody who is in there now may soon be gone. */
		(void)group_clear(fd);
		r = remove_quickly(l, t, box);
	}
	return r == 0 || r == -ENOENT ? 0 : err_errno(e, -r, "remove cgroup '%s'", box);
}

int cgroup_remove_in(const struct layout *l, const char *box, struct err *e)
{
	int first = 0;

	/* One tree that cannot be cleared is no reason to leave the others. */
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (layout_has(l, order[i]) && !layout_is_repeat(l, order[i])) {
			int r = remove_tree(l, order[i], box, first ? NULL : e);

			first = first ? first : r;
		}
	return first;
}

int cgroup_remove(const char *box, struct err *e)
{
	struct layout l;
	int r;

	layout_find(&l);
	r = cgroup_remove_in(&l, box, e);
	helper_remove_left(&l, box);
	return r;
}

/* On v2 also below; elsewhere init is in the group itself for as long as the box runs. */
static bool is_populated(const struct layout *l, enum layout_tree t, const char *box)
{
	autoclose int base = layout_open(l, t, false);
	autoclose int fd = base < 0 ? base : group_open(base, box);
	char text[KNOB_TEXT_MAX];

	if (fd < 0)
		return false;
	if (t == LAYOUT_V2)
		return knob_get(fd, "cgroup.events", text, sizeof(text)) < 0 ||
		       knob_field(text, "populated") > 0;
	return knob_get(fd, "tasks", text, sizeof(text)) < 0 || text[0];
}

int cgroup_remove_empty(const char *box)
{
	struct layout l;

	layout_find(&l);
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (layout_has(&l, order[i]) && !layout_is_repeat(&l, order[i]) &&
		    is_populated(&l, order[i], box))
			return -EBUSY;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (layout_has(&l, order[i]) && !layout_is_repeat(&l, order[i]))
			(void)remove_quickly(&l, order[i], box);
	helper_remove_left(&l, box);
	return 0;
}

struct each {
	void (*on_box)(const char *box, void *arg);
	void *arg;
};

static void name_box(int dir_fd, const char *name, void *arg)
{
	struct each *each = arg;

	(void)dir_fd;
	each->on_box(name, each->arg);
}

int cgroup_each_in(const struct layout *l, void (*on_box)(const char *box, void *arg), void *arg)
{
	struct each each = {on_box, arg};

	for (int t = 0; t < LAYOUT_COUNT; t++) {
		autoclose int base = layout_is_repeat(l, (enum layout_tree)t)
					     ? -1
					     : layout_open(l, (enum layout_tree)t, false);

		if (base >= 0)
			group_each(base, name_box, &each);
	}
	return 0;
}

int cgroup_each(void (*on_box)(const char *box, void *arg), void *arg)
{
	struct layout l;

	layout_find(&l);
	return cgroup_each_in(&l, on_box, arg);
}
