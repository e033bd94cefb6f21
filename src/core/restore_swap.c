/*
 * What a restore made gets its names, when all of it is there; see restore.c.
 *
 * Until here nothing was touched that a box or a workspace of this place needs. First the operation
 * locks of all boxes that are replaced, which somebody may hold for long; then, under the layers'
 * lock, as who has both takes them in that order, there are renames only: a box changes places with
 * the one that it replaces, which then goes with the stage. Killed in between, the next sweep
 * deletes the stages.
 *
 * Where the filesystem cannot exchange two names (before Linux 3.15, some network filesystems) the
 * old box goes out of sight first: killed between its two renames, the sweep deletes the old one
 * and the new one, and only the file that was restored still has that box.
 */
#include "base/fd.h"
#include "base/str.h"
#include "core/life.h"
#include "core/restore.h"
#include "core/watch.h"
#include "store/layer.h"
#include "store/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_RENAME_EXCHANGE 2u /* from the kernel's headers, which musl does not bring */

int restore_stage_open(struct restore *s, struct restore_stage *stage, int dir_fd)
{
	int r = stage->fd >= 0 ? 0 : state_new_dir(dir_fd, stage->tmp, &stage->fd);

	return r < 0 ? state_error(&s->cove->state, -r, "restore into", s->e) : 0;
}

static int each(struct restore *s, const struct restore_stage *stage,
		int (*run)(struct restore *s, const char *name))
{
	char **names = NULL;
	size_t count = 0;
	int r = state_names(stage->fd, &names, &count);

	if (r < 0)
		err_errno(s->e, -r, "list what was made");
	for (size_t i = 0; r == 0 && i < count; i++)
		r = run(s, names[i]);
	state_names_free(names, count);
	return r;
}

static bool is_here(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Does the box go, too? */
static bool is_replaced(void *arg, const char *box)
{
	const struct restore *s = arg;

	return s->boxes.fd >= 0 && is_here(s->boxes.fd, box);
}

static int check_workspace(struct restore *s, const char *name)
{
	return workspace_check_users(&s->cove->state, name, is_replaced, s, s->e);
}

static int halt_box(struct restore *s, const char *name)
{
	int r;

	if (!is_here(s->cove->state.boxes_fd, name))
		return 0;
	if (!s->o.force)
		return err_set(s->e, ERR_EXISTS, EEXIST, "box '%s' was made meanwhile", name);
	r = box_halt(s->cove, name, "cove system restore", 0, s->e);
	return r < 0 ? r : 0;
}

static int swap_workspace(struct restore *s, const char *name)
{
	return workspace_take_made(&s->cove->state, s->workspaces.fd, name, s->o.force, s->e);
}

static int exchange(struct restore *s, const char *name)
{
	int from = s->boxes.fd, to = s->cove->state.boxes_fd;
	char gone[32];

	if (syscall(SYS_renameat2, from, name, to, name, KERNEL_RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A filesystem without it. */
	state_gone_name(gone);
	return renameat(to, name, to, gone) < 0 || renameat(from, name, to, name) < 0 ? -errno : 0;
}

/* Held to the end, so that it is not started any more. */
static int lock_box(struct restore *s, const char *name)
{
	autoclose int fd = openat(s->cove->state.boxes_fd, name,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct restore_lock *grown;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(s->e, errno, "open box '%s'", name);
	r = core_wait_lock(s->cove, name, fd, STOP_WAIT_MS, s->e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (record_is_live(fd))
		return err_set(s->e, ERR_CONFLICT, EBUSY, "box '%s' was started meanwhile", name);
	grown = reallocarray(s->locks, s->lock_count + 1, sizeof(*grown));
	if (!grown)
		return err_errno(s->e, ENOMEM, "replace box '%s'", name);
	s->locks = grown;
	str_copy(grown[s->lock_count].name, sizeof(grown->name), name);
	grown[s->lock_count++].fd = take_fd(fd);
	return 0;
}

static bool is_locked(const struct restore *s, const char *name)
{
	for (size_t i = 0; i < s->lock_count; i++)
		if (strcmp(s->locks[i].name, name) == 0)
			return true;
	return false;
}

static int replace_box(struct restore *s, const char *name)
{
	struct record old = {0};
	int r;

	box_clear_runtime(s->cove, name);
	if (record_load(&s->cove->state, name, &old, NULL) == 0 && old.spec.from)
		for (size_t i = 0; i < old.spec.layer_count; i++)
			(void)state_list_add(&s->old_layers, old.spec.layers[i], REFS_MAX);
	record_done(&old);
	r = exchange(s, name);
	return r < 0 ? err_errno(s->e, -r, "replace box '%s'", name) : 0;
}

static int swap_box(struct restore *s, const char *name)
{
	int to = s->cove->state.boxes_fd, r = 0;

	if (is_locked(s, name))
		r = replace_box(s, name);
	else if (renameat(s->boxes.fd, name, to, name) < 0)
		r = err_errno(s->e, errno, "name box '%s'", name);
	if (r == 0 && fsync(to) < 0)
		r = err_errno(s->e, errno, "name box '%s'", name);
	return r;
}

int restore_swap(struct restore *s)
{
	autoclose int lock_fd = -1;
	int r = each(s, &s->workspaces, check_workspace);

	if (r == 0)
		r = each(s, &s->boxes, halt_box);
	if (r == 0)
		r = each(s, &s->boxes, lock_box);
	if (r == 0)
		r = layers_lock(&s->cove->state, &lock_fd, s->e);
	if (r == 0)
		r = each(s, &s->workspaces, swap_workspace);
	return r < 0 ? r : each(s, &s->boxes, swap_box);
}

static void stage_done(struct cove *cove, struct restore_stage *stage, int dir_fd)
{
	char **names = NULL;
	size_t count = 0;

	if (stage->fd < 0)
		return;
	if (state_names(stage->fd, &names, &count) == 0)
		for (size_t i = 0; i < count; i++)
			(void)storage_delete(cove->state.home_fd, stage->fd, names[i], &cove->ids,
					     NULL);
	state_names_free(names, count);
	(void)storage_delete(cove->state.home_fd, dir_fd, stage->tmp, &cove->ids, NULL);
	fd_close(&stage->fd);
}

void restore_stages_done(struct restore *s)
{
	struct state *st = &s->cove->state;
	autoclose int lock_fd = -1;
	char **ids = NULL;
	size_t count = 0;

	for (size_t i = 0; i < s->lock_count; i++)
		fd_close(&s->locks[i].fd);
	free(s->locks);
	stage_done(s->cove, &s->boxes, st->boxes_fd);
	stage_done(s->cove, &s->workspaces, st->workspaces_fd);
	(void)workspace_sweep(st, &s->cove->ids, NULL);
	if (state_list_take(&s->old_layers, 0, &ids, &count) < 0)
		return;
	if (count && layers_lock(st, &lock_fd, NULL) == 0) {
		layers_trash_unused(st, (const char *const *)ids, count);
		fd_close(&lock_fd);
		layers_sweep(st, &s->cove->ids);
	}
	state_names_free(ids, count);
}
