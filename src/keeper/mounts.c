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
#include "store/layer.h"
#include "store/own.h"
#include "store/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int too_long(struct err *e)
{
	return err_set(e, ERR_INVALID, ENAMETOOLONG, "the workspace's path is too long");
}

/* What the workspace of a box with a disk limit cannot keep. */
static int not_bounded(struct keeper_mounts *m, const struct keeper_config *c,
		       const struct workspace_use *use, struct err *e)
{
	const struct spec *s = &c->spec;
	bool is_lost = use->root_fd < 0 || use->needs_root; /* a new one is no better */

	if (keeper_config_is_due(c, LIMIT_DISK))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "--disk cannot be kept in workspace '%s': %s; %s, or use "
			       "--best-effort",
			       s->workspace, use->why,
			       is_lost ? "leave out --disk, or the named workspace"
				       : "use a new workspace");
	snprintf(m->note, sizeof(m->note), "disk: not counted in workspace '%s': %s", s->workspace,
		 use->why);
	return 0;
}

/* It was made by another box with a larger limit, and has what that box put there. */
static int larger_disk(struct keeper_mounts *m, const struct keeper_config *c, uint64_t bytes,
		       struct err *e)
{
	const struct spec *s = &c->spec;
	/* Up, so that a limit of so much is kept. */
	uint64_t mib = (bytes + (1 << 20) - 1) >> 20;
	char text[LIMIT_TEXT];

	limit_format(LIMIT_DISK, s->limits[LIMIT_DISK], text);
	if (keeper_config_is_due(c, LIMIT_DISK))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "--disk %s cannot be kept: workspace '%s' has a disk of %" PRIu64
			       " MiB; use another workspace, --disk %" PRIu64 "M, or --best-effort",
			       text, s->workspace, mib, mib);
	snprintf(m->note, sizeof(m->note),
		 "disk: workspace '%s' has a disk of %" PRIu64 " MiB, more than %s", s->workspace,
		 mib, text);
	return 0;
}

/* The layers below a stacked workspace, top first. */
static int find_stacked(struct keeper_mounts *m, const struct state *st,
			const struct workspace_stack *w, struct err *e)
{
	char path[BOX_PATH_MAX];

	m->stacked = w->count ? calloc(w->count, sizeof(*m->stacked)) : NULL;
	if (w->count && !m->stacked)
		return err_errno(e, ENOMEM, "open the workspace");
	for (size_t i = w->count; i > 0; i--) {
		int r = layer_root(st, w->layers[i - 1], path, sizeof(path));
		char *copy = r == 0 ? strdup(path) : NULL;

		if (!copy)
			return err_set(e, r < 0 ? ERR_DAMAGED : ERR_FULL, r < 0 ? -r : ENOMEM,
				       "a layer that the workspace stands on is gone (%.12s)",
				       w->layers[i - 1]);
		m->stacked[m->stacked_count++] = (struct wall_lower){.path = copy, .owned = true};
	}
	return 0;
}

/* What the box writes lies above them, in the workspace's volume or directory. */
static void make_stacked(const struct keeper_mounts *m, struct wall_mount *w)
{
	if (!m->stacked)
		return;
	w->lowers = m->stacked;
	w->lower_count = m->stacked_count;
	w->upper = ".";
	w->upper_in_src = !w->volume;
}

static int open_named(struct keeper_mounts *m, const struct keeper_config *c, struct state *st,
		      struct err *e)
{
	const struct spec *s = &c->spec;
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
	r = workspace_use(st, name, &ids, s->limits[LIMIT_DISK],
			  keeper_config_is_due(c, LIMIT_DISK), &use, e);
	if (r == 0 && use.why[0])
		r = not_bounded(m, c, &use, e);
	else if (r == 0 && s->limits[LIMIT_DISK] && use.volume.bytes > s->limits[LIMIT_DISK])
		r = larger_disk(m, c, use.volume.bytes, e);
	if (r < 0) {
		workspace_use_done(&use);
		return r;
	}
	m->workspace_fd = use.root_fd;
	m->volume = use.volume;
	r = find_stacked(m, st, &use.stack, e);
	if (r == 0 && m->stacked)
		r = workspace_stack_hold(st, name, &m->stack_fd, e);
	workspace_stack_done(&use.stack);
	return r;
}

/* Root gives a box the rights of the directory's owner in it. One that is somebody else's now was
 * put there since. */
static int take_owner(struct wall_mount *w, const char *path, int fd, const char *owner,
		      struct err *e)
{
	char now[32];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "look at '%.140s'", path);
	w->uid = st.st_uid;
	w->gid = st.st_gid;
	snprintf(now, sizeof(now), "%u:%u", st.st_uid, st.st_gid);
	if (geteuid() != 0 || !owner || strcmp(now, owner) == 0)
		return 0;
	return err_set(e, ERR_DENIED, EPERM,
		       "'%.100s' belongs to %s, and to %s when the box was made: give it back "
		       "(chown), or make the box anew",
		       path, now, owner);
}

/* Opens what a box is to have of the host, and refuses Cove's own state. Its path was brought into
 * its one form when the box was made: a link in it now was put there since, by somebody who may
 * write there, and that may be a box. */
static int open_host(const struct state *st, const char *path, const char *owner, int flags,
		     struct wall_mount *w, struct err *e)
{
	autoclose int fd = fd_openat2(AT_FDCWD, path, flags, 0, FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	int r;

	if (fd == -ELOOP)
		return err_set(e, ERR_DENIED, ELOOP,
			       "'%.120s' leads through a link that was not there when the box was "
			       "made: remove the link, or make the box anew",
			       path);
	if (fd == -EACCES)
		return err_set(e, ERR_DENIED, EACCES,
			       "'%.100s' may not be opened; if root of a box made it, `cove "
			       "workspace chown` gives it back",
			       path);
	if (fd < 0)
		return err_errno(e, -fd, "open '%.140s'", path);
	r = own_refuse_fd(st, path, fd, e);
	if (r == 0)
		r = take_owner(w, path, fd, owner, e);
	return r < 0 ? r : take_fd(fd);
}

static int open_host_dir(struct keeper_mounts *m, const struct state *st, const struct spec *s,
			 struct wall_mount *w, struct err *e)
{
	int fd;

	if (!str_copy(m->workspace, sizeof(m->workspace), s->workspace_dir))
		return too_long(e);
	fd = open_host(st, s->workspace_dir, s->workspace_owner, O_RDONLY | O_DIRECTORY, w, e);
	if (fd < 0)
		return fd;
	m->workspace_fd = fd;
	return 0;
}

/* Nothing reaches the directory, so nothing in it has to be kept from the box (pins.c). */
static void make_copy(struct keeper_mounts *m, struct wall_mount *w)
{
	m->copied = (struct wall_lower){.path = m->workspace, .uid = w->uid, .gid = w->gid};
	w->lowers = &m->copied;
	w->lower_count = 1;
	w->upper = WORKSPACE_COPY;
}

static int add_workspace(struct keeper_mounts *m, const struct keeper_config *c, struct state *st,
			 struct err *e)
{
	const struct spec *s = &c->spec;
	struct wall_mount w = {
		.src = m->workspace, .dst = WORKSPACE_DST, .owned = s->workspace != NULL};
	int r;

	if (!s->workspace && !s->workspace_dir)
		return 0;
	r = s->workspace ? open_named(m, c, st, e) : open_host_dir(m, st, s, &w, e);
	if (r < 0)
		return r;
	if (m->volume.mount_fd >= 0)
		w.volume = &m->volume;
	if (s->workspace_copy)
		make_copy(m, &w);
	make_stacked(m, &w);
	m->list[m->count++] = w;
	return s->workspace || s->trust_dir || s->workspace_copy
		       ? 0
		       : keeper_pins_add(m, m->workspace_fd, &m->list[m->count - 1], e);
}

static int add_mount(struct keeper_mounts *m, const struct spec *s, const struct spec_mount *given,
		     const struct state *st, struct err *e)
{
	struct wall_mount w = {.src = given->src, .dst = given->dst, .read_only = given->read_only};
	autoclose int fd = -1;
	int r;

	if (given->src[0] == '/') {
		r = open_host(st, given->src, given->owner, O_PATH, &w, e);
		if (r < 0)
			return r;
		fd = r;
	} else {
		if (m->workspace_fd < 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "mount source '%s' is relative, and the box has no "
				       "workspace; give an "
				       "absolute path or --workspace",
				       given->src);
		/* Of one above layers only the box has the whole. */
		w.beneath_dst = m->stacked != NULL;
		r = m->stacked ? 0 : workspace_open_source(m->workspace_fd, given->src, &fd, e);
		if (r == 0 && !s->workspace)
			r = own_refuse_fd(st, given->src, fd, e);
		if (r < 0)
			return r;
		w.src = m->workspace;
		w.volume = m->list[0].volume;
		w.beneath = given->src;
		w.uid = m->list[0].uid;
		w.gid = m->list[0].gid;
		w.owned = s->workspace != NULL;
	}
	m->list[m->count++] = w;
	if (fd < 0 || w.owned || w.read_only || s->trust_dir)
		return 0;
	return keeper_pins_add(m, fd, &w, e);
}

void keeper_mounts_init(struct keeper_mounts *m)
{
	m->count = m->pin_count = 0;
	m->workspace[0] = m->note[0] = 0;
	m->workspace_fd = m->stack_fd = -1;
	m->volume = VOLUME_NONE;
	m->stacked = NULL;
	m->stacked_count = 0;
}

int keeper_mounts_make(struct keeper_mounts *m, const struct keeper_config *c, struct state *st,
		       struct err *e)
{
	int r = add_workspace(m, c, st, e);

	for (size_t i = 0; i < c->spec.mount_count && r == 0; i++)
		r = add_mount(m, &c->spec, &c->spec.mounts[i], st, e);
	return r;
}

void keeper_mounts_done(struct keeper_mounts *m)
{
	fd_close(&m->workspace_fd);
	fd_close(&m->stack_fd);
	volume_done(&m->volume);
	keeper_pins_done(m);
	for (size_t i = 0; i < m->stacked_count; i++)
		free((char *)(uintptr_t)m->stacked[i].path);
	free(take_ptr(m->stacked));
	m->stacked_count = 0;
}
