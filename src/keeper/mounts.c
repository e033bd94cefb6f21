/*
 * Resolving a box's mounts; see mounts.h.
 *
 * A relative source lies below the workspace, which other boxes may be writing to at this moment.
 * It is resolved beneath the workspace twice, here to make what is missing and say what is wrong,
 * and by the wall when it mounts it: a link that leads out is refused by both, whoever put it
 * there and when. Below the volume of a workspace the second time is inside the box, where the
 * workspace is already in place: nothing below a mount that is not attached can be shown twice.
 */
#include "keeper/mounts.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "store/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int too_long(struct err *e)
{
	return err_set(e, ERR_INVALID, ENAMETOOLONG, "the workspace's path is too long");
}

/* What the workspace of a box with a disk limit cannot keep. */
static int not_bounded(struct mounts *m, const struct spec *s, const char *why, struct err *e)
{
	if (s->limits_asked & 1u << LIMIT_DISK && !s->best_effort)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "--disk cannot be kept in workspace '%s': %s; use a new workspace, "
			       "or --best-effort",
			       s->workspace, why);
	snprintf(m->note, sizeof(m->note), "disk: not counted in workspace '%s': %s", s->workspace,
		 why);
	return 0;
}

/* It was made by another box with a larger limit, and has what that box put there. */
static int larger_disk(struct mounts *m, const struct spec *s, uint64_t bytes, struct err *e)
{
	/* Up, so that a limit of so much is kept. */
	uint64_t mib = (bytes + (1 << 20) - 1) >> 20;
	char text[LIMIT_TEXT];

	limit_format(LIMIT_DISK, s->limits[LIMIT_DISK], text);
	if (s->limits_asked & 1u << LIMIT_DISK && !s->best_effort)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "--disk %s cannot be kept: workspace '%s' has a disk of %" PRIu64
			       " MiB; use another workspace, --disk %" PRIu64 "M, or --best-effort",
			       text, s->workspace, mib, mib);
	snprintf(m->note, sizeof(m->note),
		 "disk: workspace '%s' has a disk of %" PRIu64 " MiB, more than %s", s->workspace,
		 mib, text);
	return 0;
}

static int open_named(struct mounts *m, const struct spec *s, struct state *st, struct err *e)
{
	/* Only who asks matters here: the volume is stored with the box's own ids. */
	const struct ids ids = {.kind = geteuid() == 0 ? IDS_RANGE : IDS_SINGLE};
	const char *name = s->workspace;
	struct workspace_use use;
	char all[BOX_PATH_MAX];
	int r;

	if (!path_join(all, sizeof(all), st->home, "workspaces") ||
	    !path_join(m->workspace, sizeof(m->workspace), all, name))
		return too_long(e);
	if (st->workspaces_fd < 0)
		st->workspaces_fd = open(all, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (st->workspaces_fd < 0)
		return err_errno(e, errno, "open '%s'", all);
	r = workspace_use(st, name, &ids, s->limits[LIMIT_DISK], &use, e);
	if (r == 0 && use.why[0])
		r = not_bounded(m, s, use.why, e);
	else if (r == 0 && s->limits[LIMIT_DISK] && use.volume.bytes > s->limits[LIMIT_DISK])
		r = larger_disk(m, s, use.volume.bytes, e);
	if (r < 0) {
		workspace_use_done(&use);
		return r;
	}
	m->workspace_fd = use.root_fd;
	m->volume = use.volume;
	return 0;
}

/* The path without links, as the kernel sees it. */
static bool path_of(int fd, char *ret, size_t size)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = fd < 0 ? -1 : readlink(link, ret, size - 1);
	ret[n < 0 ? 0 : n] = 0;
	return n > 0;
}

static bool real_path(const char *path, char *ret, size_t size)
{
	autoclose int fd = open(path, O_PATH | O_CLOEXEC);

	return path_of(fd, ret, size);
}

static bool is_below_by_name(const char *inner, const char *outer)
{
	size_t n = strlen(outer);

	n -= n > 0 && outer[n - 1] == '/';
	return strncmp(inner, outer, n) == 0 && (inner[n] == 0 || inner[n] == '/');
}

/* Is inner the same as outer, or below it? Both are without links. A directory may be mounted in a
 * second place, so what stands on the way up is looked at, too. */
static bool is_within(const char *inner, const char *outer)
{
	char part[BOX_PATH_MAX];
	struct stat top, st;

	if (is_below_by_name(inner, outer))
		return true;
	if (stat(outer, &top) < 0 || !str_copy(part, sizeof(part), inner))
		return false;
	for (char *slash; (slash = strrchr(part, '/')); *slash = 0)
		if (stat(part, &st) == 0 && st.st_dev == top.st_dev && st.st_ino == top.st_ino)
			return true;
	return stat("/", &st) == 0 && st.st_dev == top.st_dev && st.st_ino == top.st_ino;
}

/* src is what the caller wrote, real what it is, own a directory of ours. */
static int refuse_one(const char *src, const char *real, const char *own, const char *remedy,
		      struct err *e)
{
	char state[BOX_PATH_MAX];

	if (!real_path(own, state, sizeof(state)))
		return errno == ENOENT ? 0 : err_errno(e, errno, "open '%.140s'", own);
	if (is_within(real, state))
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.80s' is inside Cove's own state at %.80s: a box cannot have it",
			       src, state);
	if (is_within(state, real))
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.60s' holds Cove's own state at %.60s: give a directory below it "
			       "that does not%s",
			       src, state, remedy);
	return 0;
}

/* What the caller names is the caller's trust; but a box that holds Cove's own state, with other
 * boxes and the sockets of their keepers in it, is no box. Reading is enough: a socket can be
 * connected to through a read-only mount. */
static int refuse_own(const char *src, const char *real, const struct state *st, struct err *e)
{
	int r = refuse_one(src, real, st->home, ", or set COVE_HOME elsewhere", e);

	if (r == 0)
		r = refuse_one(src, real, st->run, ", or set COVE_HOME elsewhere", e);
	if (r == 0 && geteuid() == 0)
		r = refuse_one(src, real, state_machine_run_dir(), "", e);
	return r;
}

static int refuse_state(const char *src, const struct state *st, struct err *e)
{
	char real[BOX_PATH_MAX];

	if (!real_path(src, real, sizeof(real)))
		return 0; /* opening it says what is wrong */
	return refuse_own(src, real, st, e);
}

/* Of a source below a workspace that is a host directory: something may be mounted there. */
static int refuse_opened(const char *src, int fd, const struct state *st, struct err *e)
{
	char real[BOX_PATH_MAX];

	if (!path_of(fd, real, sizeof(real)))
		return err_errno(e, errno, "find mount source '%.140s'", src);
	return refuse_own(src, real, st, e);
}

static int open_host_dir(struct mounts *m, const char *path, struct err *e)
{
	if (!str_copy(m->workspace, sizeof(m->workspace), path))
		return too_long(e);
	m->workspace_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->workspace_fd < 0)
		return err_errno(e, errno, "open the workspace '%s'", path);
	return 0;
}

static int add_workspace(struct mounts *m, const struct spec *s, struct state *st, struct err *e)
{
	int r;

	if (!s->workspace && !s->workspace_dir)
		return 0;
	r = s->workspace ? 0 : refuse_state(s->workspace_dir, st, e);
	if (r < 0)
		return r;
	r = s->workspace ? open_named(m, s, st, e) : open_host_dir(m, s->workspace_dir, e);
	if (r < 0)
		return r;
	m->list[m->count++] = (struct wall_mount){
		.src = m->workspace,
		.dst = WORKSPACE_DST,
		.owned = s->workspace != NULL,
		.src_fd = m->volume.mount_fd > 0 ? m->volume.mount_fd : 0,
	};
	return 0;
}

static int add_mount(struct mounts *m, const struct spec *s, const struct spec_mount *given,
		     const struct state *st, struct err *e)
{
	struct wall_mount w = {.src = given->src, .dst = given->dst, .read_only = given->read_only};
	autoclose int fd = -1;
	int r;

	if (given->src[0] == '/') {
		r = refuse_state(given->src, st, e);
		if (r < 0)
			return r;
	} else {
		if (m->workspace_fd < 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "mount source '%s' is relative, and the box has no "
				       "workspace; give an "
				       "absolute path or --workspace",
				       given->src);
		r = workspace_open_source(m->workspace_fd, given->src, &fd, e);
		if (r == 0 && !s->workspace)
			r = refuse_opened(given->src, fd, st, e);
		if (r < 0)
			return r;
		w.in_box = m->volume.mount_fd > 0;
		w.src = w.in_box ? WORKSPACE_DST : m->workspace;
		w.beneath = given->src;
		w.owned = s->workspace != NULL;
	}
	m->list[m->count++] = w;
	return 0;
}

int mounts_make(struct mounts *m, const struct keeper_config *c, struct state *st, struct err *e)
{
	int r;

	m->count = 0;
	m->workspace[0] = 0;
	m->workspace_fd = -1;
	m->volume = VOLUME_NONE;
	m->note[0] = 0;
	r = add_workspace(m, &c->spec, st, e);
	for (size_t i = 0; i < c->spec.mount_count && r == 0; i++)
		r = add_mount(m, &c->spec, &c->spec.mounts[i], st, e);
	return r;
}

void mounts_done(struct mounts *m)
{
	fd_close(&m->workspace_fd);
	volume_done(&m->volume);
}
