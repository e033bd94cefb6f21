/*
 * Named workspaces; see workspace.h.
 *
 * How it works: a workspace is made as .new-<random>, given its owner and renamed, so that nobody
 * ever sees one that belongs to root by mistake. Removal renames to .gone-<random> first; whatever
 * a crash leaves behind is deleted by the next removal.
 *
 * A mount source is resolved by the kernel with RESOLVE_BENEATH, because a box may be changing the
 * workspace at this very moment: no check of ours could be trusted by the time the path is used.
 */
#include "store/workspace.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "storage/tree.h"
#include "store/image_internal.h"
#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { OPEN_TRIES = 32 };

#define KERNEL_RENAME_NOREPLACE 1u /* from the kernel's headers, which musl does not bring */

static int check_workspace_name(const char *name, struct err *e)
{
	if (str_is_name(name, BOX_NAME_MAX))
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.80s' is not the name of a workspace: lower-case letters, digits and "
		       "inner dashes",
		       name);
}

/* Renames without ever replacing: an empty workspace that somebody just made is in use. */
static int rename_new(int dir_fd, const char *from, const char *to)
{
	if (syscall(SYS_renameat2, dir_fd, from, dir_fd, to, KERNEL_RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EEXIST) {
		unlinkat(dir_fd, from, AT_REMOVEDIR);
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A filesystem without RENAME_NOREPLACE: a lost race replaces one empty directory by
	 * another. */
	if (renameat(dir_fd, from, dir_fd, to) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	unlinkat(dir_fd, from, AT_REMOVEDIR);
	return 0;
}

static int make_workspace(struct state *s, const char *name)
{
	autoclose int fd = -1;
	char tmp[32];
	int r = state_new_dir(s->workspaces_fd, tmp, &fd);

	if (r < 0)
		return r;
	if (fchmod(fd, 0755) < 0 || (geteuid() == 0 && fchown(fd, IDS_USER, IDS_USER) < 0))
		r = -errno;
	if (r == 0)
		r = rename_new(s->workspaces_fd, tmp, name);
	if (r < 0) {
		unlinkat(s->workspaces_fd, tmp, AT_REMOVEDIR);
		return r;
	}
	return fsync(s->workspaces_fd) < 0 ? -errno : 0;
}

int workspace_open(struct state *s, const char *name, bool make, int *ret_fd, struct err *e)
{
	enum { FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW };
	int r = check_workspace_name(name, e), fd;

	if (r < 0)
		return r;
	fd = openat(s->workspaces_fd, name, FLAGS);
	if (fd < 0 && errno == ENOENT && make) {
		r = make_workspace(s, name);
		if (r < 0)
			return state_error(s, -r, "make the workspace in", e);
		fd = openat(s->workspaces_fd, name, FLAGS);
	}
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no workspace '%s'", name);
	if (fd < 0)
		return err_errno(e, errno, "open workspace '%s'", name);
	*ret_fd = fd;
	return 0;
}

/* ---- listing ---- */

struct usage_job {
	struct inside_job job;
	int dir_fd;
	char name[64];
	uint64_t bytes, files;
};

static int usage_inside(struct inside_job *job)
{
	struct usage_job *j = (struct usage_job *)(void *)job;

	return tree_usage(j->dir_fd, j->name, &j->bytes, &j->files, &job->err);
}

/* An ordinary user may not look into directories that belong to the box's other ids, but box root
 * may. */
static int measure(struct state *s, const struct ids *ids, struct workspace *w, struct err *e)
{
	struct usage_job *j;
	int r = tree_usage(s->workspaces_fd, w->name, &w->bytes, &w->files, e);

	if (r != -EACCES || ids->kind != IDS_SUBORDINATE)
		return r;
	j = inside_alloc(sizeof(*j));
	if (!j)
		return err_errno(e, ENOMEM, "measure a workspace");
	*j = (struct usage_job){.job.run = usage_inside, .dir_fd = s->workspaces_fd};
	str_copy(j->name, sizeof(j->name), w->name);
	r = inside_run(ids, &j->job, e);
	w->bytes = j->bytes;
	w->files = j->files;
	inside_free(j, sizeof(*j));
	return r;
}

int workspace_list(struct state *s, const struct ids *ids, struct workspace **ret,
		   size_t *ret_count, struct err *e)
{
	struct workspace *list;
	char **names;
	size_t count, n = 0;
	int r = state_names(s->workspaces_fd, &names, &count);

	if (r < 0)
		return err_errno(e, -r, "list the workspaces in '%.140s'", s->home);
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		r = err_errno(e, ENOMEM, "list the workspaces");
	for (size_t i = 0; i < count && r == 0; i++) {
		str_copy(list[n].name, sizeof(list[n].name), names[i]);
		r = measure(s, ids, &list[n], e);
		/* One that was removed meanwhile is not an error. */
		if (r == -ENOENT)
			r = 0;
		else
			n++;
	}
	state_names_free(names, count);
	if (r < 0) {
		free(list);
		return r;
	}
	*ret = list;
	*ret_count = n;
	return 0;
}

/* ---- removing ---- */

static int delete_leftovers(struct state *s, const struct ids *ids, struct err *e)
{
	char **names;
	size_t count;
	int r = state_leftovers(s->workspaces_fd, &names, &count);

	if (r < 0)
		return err_errno(e, -r, "list the workspaces in '%.140s'", s->home);
	for (size_t i = 0; i < count && r == 0; i++)
		r = tree_remove_as(ids, s->workspaces_fd, names[i], e);
	state_names_free(names, count);
	return r;
}

int workspace_remove(struct state *s, const struct ids *ids, const char *name, struct err *e)
{
	char box[BOX_NAME_MAX + 1], gone[32];
	int r = check_workspace_name(name, e);

	if (r == 0)
		r = record_find_user(s, NULL, name, box, e);
	if (r < 0)
		return r;
	if (r > 0)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' uses workspace '%s'; remove the box first (cove rm %s)",
			       box, name, box);
	state_gone_name(gone);
	if (renameat(s->workspaces_fd, name, s->workspaces_fd, gone) < 0) {
		if (errno == ENOENT || s->workspaces_fd < 0)
			return err_set(e, ERR_NOT_FOUND, ENOENT, "no workspace '%s'", name);
		return state_error(s, errno, "remove the workspace in", e);
	}
	if (fsync(s->workspaces_fd) < 0)
		return state_error(s, errno, "sync", e);
	return delete_leftovers(s, ids, e);
}

/* ---- mount sources ---- */

static int leads_out(const char *src, struct err *e)
{
	return err_set(e, ERR_INVALID, EXDEV,
		       "mount source '%.120s' leads out of the workspace; give an absolute path if "
		       "that is meant",
		       src);
}

/* openat2 says EAGAIN when something was renamed while it looked. */
static int open_inside(int dir_fd, const char *path, int flags)
{
	int fd = -EAGAIN;

	for (int i = 0; i < OPEN_TRIES && fd == -EAGAIN; i++)
		fd = fd_openat2(dir_fd, path, flags, 0, FD_BENEATH | FD_NO_MAGICLINKS);
	return fd;
}

/* A directory made by root on behalf of the box belongs to whoever owns the one above. */
static int make_child(int parent_fd, const char *name)
{
	struct stat st;

	if (mkdirat(parent_fd, name, 0755) < 0)
		return errno == EEXIST ? 0 : -errno;
	if (geteuid() != 0)
		return 0;
	autoclose int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(parent_fd, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0)
		return -errno;
	return 0;
}

/* Walks down from the workspace; every prefix is resolved from the top, so that links inside work
 * and none leads out. */
static int make_source(int workspace_fd, char *path)
{
	autoclose int fd = fcntl(workspace_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return -errno;
	for (char *name = path, *next; name; name = next) {
		int child, r = 0;

		next = strchr(name, '/');
		if (next)
			*next = 0;
		child = open_inside(workspace_fd, path, O_PATH | O_DIRECTORY);
		if (child == -ENOENT) {
			r = make_child(fd, name);
			child = r < 0 ? r : open_inside(workspace_fd, path, O_PATH | O_DIRECTORY);
		}
		if (next)
			*next++ = '/';
		if (child < 0)
			return child;
		fd_close(&fd);
		fd = child;
	}
	return take_fd(fd);
}

int workspace_open_source(int workspace_fd, const char *src, int *ret_fd, struct err *e)
{
	char path[BOX_PATH_MAX];
	int fd;

	if (!path_is_safe_relative(src) || !str_copy(path, sizeof(path), src))
		return leads_out(src, e);
	fd = open_inside(workspace_fd, src, O_PATH);
	if (fd == -ENOENT)
		fd = make_source(workspace_fd, path);
	if (fd == -EXDEV || fd == -ELOOP)
		return leads_out(src, e);
	if (fd == -ENOENT)
		return err_set(e, ERR_INVALID, ENOENT,
			       "mount source '%.120s' goes through a link that leads nowhere", src);
	if (fd < 0)
		return err_errno(e, -fd, "mount source '%.120s'", src);
	*ret_fd = fd;
	return 0;
}
