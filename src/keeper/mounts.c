/*
 * Resolving a box's mounts; see mounts.h.
 *
 * A relative source lies below the workspace, which other boxes may be writing to at this moment. So
 * it is only ever resolved by openat2 beneath the workspace, here to make what is missing and in the
 * wall to mount it: a link or ".." that leads out is an error in both, whoever put it there and when.
 */
#include "keeper/mounts.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Who owns what is made for the box, on the host's disk. */
struct owner {
	uid_t uid;
	gid_t gid;
};

/* The uid of the box's user, as far as it can be known without looking into the image: a number as
 * given, root, or the usual 1000. */
static uid_t box_user(const struct keeper_config *c)
{
	const char *user = c->spec.user ? c->spec.user : c->image_user;
	char digits[16];
	uint64_t uid;

	if (!user || !*user)
		return IDS_USER;
	if (strcmp(user, "root") == 0)
		return 0;
	snprintf(digits, sizeof(digits), "%.*s", (int)strcspn(user, ":"), user);
	return str_parse_u64(digits, IDS_COUNT - 1, &uid) ? (uid_t)uid : IDS_USER;
}

/* Below a named workspace root stores the box's own ids; an ordinary user can only be itself. */
static struct owner workspace_owner(const struct keeper_config *c, const struct ids *ids)
{
	if (ids->kind != IDS_RANGE)
		return (struct owner){ids->caller_uid, ids->caller_gid};
	return (struct owner){box_user(c), box_user(c)};
}

static int give(int fd, const struct owner *o)
{
	if (geteuid() != 0)
		return 0;
	return fchown(fd, o->uid, o->gid) < 0 ? -errno : 0;
}

/* Makes one directory below dir_fd for the box's user. */
static int make_dir(int dir_fd, const char *name, mode_t mode, const struct owner *o)
{
	autoclose int fd = -1;
	int r;

	if (mkdirat(dir_fd, name, 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = give(fd, o);
	return r == 0 && fchmod(fd, mode) < 0 ? -errno : r;
}

static int open_below(int dir_fd, const char *path)
{
	return fd_openat2(dir_fd, path, O_PATH, 0, FD_BENEATH | FD_NO_MAGICLINKS);
}

/* Walks down, making what is missing. Only plain names are made. */
static int make_below(int top_fd, const char *rel, const struct owner *o)
{
	autoclose int parent = fcntl(top_fd, F_DUPFD_CLOEXEC, 0);
	char path[BOX_PATH_MAX], *next;

	if (parent < 0)
		return -errno;
	if (!path_is_safe_relative(rel) || !str_copy(path, sizeof(path), rel))
		return -EINVAL;
	for (char *name = path; name; name = next) {
		char *slash = strchr(name, '/'), was = 0;
		int fd;

		next = slash ? slash + 1 : NULL;
		if (slash) {
			was = *slash;
			*slash = 0;
		}
		fd = make_dir(parent, name, 0755, o);
		/* From the top again, so that a link on the way stays beneath the workspace. */
		if (fd == 0)
			fd = open_below(top_fd, path);
		if (fd < 0)
			return fd;
		close(parent);
		parent = fd;
		if (slash)
			*slash = was;
	}
	return 0;
}

static int check_beneath(const struct mounts *m, const char *rel, struct owner o, bool owned,
			 struct err *e)
{
	autoclose int top = open(m->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int fd;

	if (top < 0 || fstat(top, &st) < 0)
		return err_errno(e, errno, "open the workspace '%s'", m->workspace);
	/* What is made in a host directory belongs to whoever that directory belongs to. */
	if (!owned)
		o = (struct owner){st.st_uid, st.st_gid};
	fd = open_below(top, rel);
	if (fd == -ENOENT)
		fd = make_below(top, rel, &o);
	if (fd == -EXDEV || fd == -ELOOP)
		return err_set(e, ERR_INVALID, -fd,
			"mount source '%s' leads out of the workspace; give an absolute path if that is meant",
			rel);
	if (fd < 0)
		return err_errno(e, -fd, "mount source '%s' in the workspace", rel);
	if (fd > 0)
		close(fd);
	return 0;
}

static int add_workspace(struct mounts *m, const struct keeper_config *c, const struct ids *ids,
			 struct err *e)
{
	struct owner o = workspace_owner(c, ids);
	const char *name = c->spec.workspace;
	autoclose int all = -1;
	char path[BOX_PATH_MAX];
	bool owned = name != NULL;
	int r;

	if (!name && !c->spec.workspace_dir)
		return 0;
	if (name) {
		if (!path_join(path, sizeof(path), c->home, "workspaces") ||
		    !path_join(m->workspace, sizeof(m->workspace), path, name))
			return err_set(e, ERR_INVALID, ENAMETOOLONG, "the workspace's path is too long");
		all = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = all < 0 ? -errno : make_dir(all, name, 0755, &o);
		if (r < 0)
			return err_errno(e, -r, "make workspace '%s'", name);
	} else if (!str_copy(m->workspace, sizeof(m->workspace), c->spec.workspace_dir)) {
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "the workspace's path is too long");
	}
	m->list[m->count++] = (struct wall_mount){
		.src = m->workspace, .dst = WORKSPACE_DST, .owned = owned};
	return 0;
}

static int add_mount(struct mounts *m, const struct keeper_config *c, const struct ids *ids,
		     const struct spec_mount *s, struct err *e)
{
	struct wall_mount w = {.src = s->src, .dst = s->dst, .read_only = s->read_only};
	int r;

	if (s->src[0] != '/') {
		if (!m->workspace[0])
			return err_set(e, ERR_INVALID, EINVAL,
				"mount source '%s' is relative, and the box has no workspace; give an "
				"absolute path or --workspace", s->src);
		w.src = m->workspace;
		w.beneath = s->src;
		w.owned = c->spec.workspace != NULL;
		r = check_beneath(m, s->src, workspace_owner(c, ids), w.owned, e);
		if (r < 0)
			return r;
	}
	m->list[m->count++] = w;
	return 0;
}

int mounts_make(struct mounts *m, const struct keeper_config *c, const struct ids *ids,
		struct err *e)
{
	int r;

	m->count = 0;
	m->workspace[0] = 0;
	r = add_workspace(m, c, ids, e);
	for (size_t i = 0; i < c->spec.mount_count && r == 0; i++)
		r = add_mount(m, c, ids, &c->spec.mounts[i], e);
	return r;
}
