/*
 * Groups below a box's, however many and deep: a process that got at a group of v1 can nest as deep
 * as it likes.
 *
 * Removal holds one descriptor and no stack. It goes down into the first group that is not empty
 * and up again when nothing is left there, and counts its steps: a tree with more than
 * CGROUP_STEPS_MAX is finished by the next call. Looking at groups (for numbers, and for killing)
 * goes no deeper than GROUP_DEPTH_MAX; what a box's own init makes is two deep.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cgroup/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

struct group_walk {
	void (*on_group)(int fd, void *arg);
	void *arg;
	int depth;
};

static void walk_one(int dir_fd, const char *name, void *arg)
{
	struct group_walk *w = arg;
	autoclose int fd = group_open(dir_fd, name);

	if (fd < 0)
		return;
	w->on_group(fd, w->arg);
	if (w->depth == GROUP_DEPTH_MAX)
		return;
	w->depth++;
	group_each(fd, walk_one, w);
	w->depth--;
}

void group_walk(int dir_fd, void (*on_group)(int fd, void *arg), void *arg)
{
	struct group_walk w = {.on_group = on_group, .arg = arg};

	walk_one(dir_fd, ".", &w);
}

/* What one look at a group's children does and finds. */
struct group_look {
	char full[NAME_MAX + 1]; /* one that has groups of its own; "" without */
	unsigned stuck;		 /* that have none, and somebody is in them */
};

static void remove_one(int dir_fd, const char *name, void *arg)
{
	struct group_look *l = arg;
	struct stat st;

	/* One at a time: with many that are full a look would otherwise try all of them again. */
	if (l->full[0] || unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink == 2)
		l->stuck++;
	else
		str_copy(l->full, sizeof(l->full), name);
}

int group_clear(int top_fd)
{
	autoclose int fd = group_open(top_fd, ".");
	unsigned depth = 0;

	for (unsigned steps = 0; fd >= 0 && steps < CGROUP_STEPS_MAX; steps++) {
		struct group_look l = {.stuck = 0};
		int next;

		group_each(fd, remove_one, &l);
		if (!l.full[0] && (l.stuck > 0 || depth == 0))
			return l.stuck > 0 ? -EBUSY : 0;
		next = group_open(fd, l.full[0] ? l.full : "..");
		depth = l.full[0] ? depth + 1 : depth - 1;
		fd_close(&fd);
		fd = next;
	}
	return fd < 0 ? fd : -EAGAIN;
}
