/*
 * Named workspaces; see workspace.h.
 *
 * How it works: a workspace is made as .new-<random>, given its owner and renamed: one that
 * belongs to root by mistake is never seen. Removal renames to .gone-<random> first; whatever
 * a crash leaves behind is deleted by the next removal.
 *
 * A disk is made within .new-<random> and named <name>.img before the directory gets its name, and
 * a removal takes the names away in the other order: a disk without a directory is never in use,
 * whoever made it or removed it was killed, and it goes; so does a list of layers. Making, opening
 * and removing hold a lock on workspaces/, so that none of them sees another halfway. A volume in
 * the pool is named by the directory itself, and comes and goes with it.
 *
 * A mount source is resolved by the kernel with RESOLVE_BENEATH, because a box may be changing the
 * workspace at this very moment: no check of ours could be trusted by the time the path is used.
 */
#include "store/workspace_parts.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "storage/ext4.h"
#include "storage/loop.h"
#include "storage/loopdev.h"
#include "storage/pool.h"
#include "storage/tree.h"
#include "store/inside.h"
#include "store/record.h"
#include "store/workspace_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { LOCK_STEP_MS = 5, STACK_NAME_SIZE = BOX_NAME_MAX + sizeof(WORKSPACE_STACK_END) };

#define KERNEL_RENAME_NOREPLACE 1u /* from the kernel's headers, which musl does not bring */

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

/* Everything that changes names below workspaces/ holds this. The descriptor is the lock. */
static int lock_all(struct state *s, int wait_ms)
{
	autoclose int fd = openat(s->workspaces_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_STEP_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (waited >= wait_ms)
			return -EBUSY;
		poll(NULL, 0, LOCK_STEP_MS);
	}
	return take_fd(fd);
}

struct storage_place workspace_place(const struct state *s, const char *name)
{
	return (struct storage_place){
		.home_fd = s->home_fd, .dir_fd = s->workspaces_fd, .name = name};
}

static void stack_name(const char *name, char ret[STACK_NAME_SIZE])
{
	snprintf(ret, STACK_NAME_SIZE, "%.*s" WORKSPACE_STACK_END, (int)BOX_NAME_MAX, name);
}

/* Of a directory that is missing. The next of that name would take it over. Under the lock. */
static int drop_lone_disk(struct state *s, const char *name)
{
	struct storage_place place = workspace_place(s, name);
	char disk[DISK_NAME_SIZE];

	disk_name(&place, disk);
	return unlinkat(s->workspaces_fd, disk, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int workspace_drop_lone(struct state *s, const char *name, struct err *e)
{
	char stack[STACK_NAME_SIZE];
	int r = drop_lone_disk(s, name);

	stack_name(name, stack);
	if (r == 0 && unlinkat(s->workspaces_fd, stack, 0) < 0 && errno != ENOENT)
		r = -errno;
	return r < 0 ? state_error(s, -r, "sweep the workspaces in", e) : 0;
}

/* Under the lock. */
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

/* The same with a disk. Under the lock. */
static int make_with_disk(struct state *s, const char *name, uint64_t bytes, struct err *e)
{
	struct storage_place place = workspace_place(s, name);
	char tmp[32], disk[DISK_NAME_SIZE];
	autoclose int fd = -1;
	int r = state_new_dir(s->workspaces_fd, tmp, &fd);

	if (r < 0)
		return state_error(s, -r, "make the workspace in", e);
	disk_name(&place, disk);
	r = disk_make(&place, &(struct storage_size){.bytes = bytes}, fd, disk, e);
	if (r == 0 && (renameat(fd, disk, s->workspaces_fd, disk) < 0 ||
		       renameat(s->workspaces_fd, tmp, s->workspaces_fd, name) < 0))
		r = state_error(s, errno, "make the workspace in", e);
	if (r < 0) {
		unlinkat(fd, disk, 0);
		unlinkat(s->workspaces_fd, tmp, AT_REMOVEDIR);
		return r;
	}
	return fsync(s->workspaces_fd) < 0 ? state_error(s, errno, "sync", e) : 0;
}

/* The same with a volume in the pool, which the directory names. Under the lock. */
static int make_in_pool(struct state *s, const char *name, const struct ids *ids, uint64_t bytes,
			struct err *e)
{
	struct volume volume = VOLUME_NONE;
	struct storage_place place;
	autoclose int fd = -1;
	char tmp[32];
	int r = state_new_dir(s->workspaces_fd, tmp, &fd);

	if (r < 0)
		return state_error(s, -r, "make the workspace in", e);
	place = workspace_place(s, tmp);
	r = storage_pool.open(&place, ids, &(struct storage_size){.bytes = bytes}, &volume, e);
	volume_done(&volume);
	if (r == 0 && (renameat(s->workspaces_fd, tmp, s->workspaces_fd, name) < 0 ||
		       fsync(s->workspaces_fd) < 0))
		r = state_error(s, errno, "make the workspace in", e);
	if (r < 0)
		(void)storage_delete(s->home_fd, s->workspaces_fd, tmp, ids, NULL);
	return r;
}

int workspace_make(struct state *s, const char *name, const struct ids *ids, uint64_t bytes,
		   struct err *e)
{
	struct storage_place place = workspace_place(s, name);
	int r = drop_lone_disk(s, name);

	if (r < 0)
		return state_error(s, -r, "make the workspace in", e);
	if (bytes > 0 && ids->kind == IDS_RANGE && pool_is_ready(s->home_fd))
		return make_in_pool(s, name, ids, bytes, e);
	if (bytes > 0 && ids->kind == IDS_RANGE && storage_loop.check(&place, ids, NULL) == 0)
		return make_with_disk(s, name, bytes, e);
	r = make_workspace(s, name);
	return r < 0 ? state_error(s, -r, "make the workspace in", e) : 0;
}

enum { OPEN_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW };

/* Opens the directory; makes it if it is missing. Under the lock. */
static int open_or_make(struct state *s, const char *name, int *ret_fd, struct err *e)
{
	int fd = openat(s->workspaces_fd, name, OPEN_FLAGS), r;

	if (fd < 0 && errno == ENOENT) {
		r = make_workspace(s, name);
		if (r < 0)
			return state_error(s, -r, "make the workspace in", e);
		fd = openat(s->workspaces_fd, name, OPEN_FLAGS);
	}
	if (fd < 0)
		return err_errno(e, errno, "open workspace '%s'", name);
	*ret_fd = fd;
	return 0;
}

int workspace_lock(struct state *s, const char *name, int *ret_fd, struct err *e)
{
	int r = state_check_name("workspace", name, e);

	if (r < 0)
		return r;
	*ret_fd = lock_all(s, DISK_LOCK_MS);
	return *ret_fd < 0 ? state_error(s, -*ret_fd, "lock the workspaces in", e) : 0;
}

/* ---- as a box uses it ---- */

void workspace_use_done(struct workspace_use *u)
{
	fd_close(&u->root_fd);
	volume_done(&u->volume);
	workspace_stack_done(&u->stack);
}

bool workspace_is_missing(const struct state *s, const char *name)
{
	struct stat st;

	return fstatat(s->workspaces_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int use_disk(const struct storage_ops *ops, const struct storage_place *place,
		    const struct ids *ids, struct workspace_use *ret, struct err *e)
{
	int r = ops->check(place, ids, e);

	if (r == 0)
		r = ops->open(place, ids, &(struct storage_size){0}, &ret->volume, e);
	if (r < 0) {
		err_prefix(e, "workspace '%s'", place->name);
		return r;
	}
	ret->root_fd = openat(ret->volume.stat_fd, ".", OPEN_FLAGS);
	return ret->root_fd < 0 ? err_errno(e, errno, "open workspace '%s'", place->name) : 0;
}

int workspace_use(struct state *s, const char *name, const struct ids *ids, uint64_t bytes,
		  bool due, struct workspace_use *ret, struct err *e)
{
	struct storage_place place = workspace_place(s, name);
	autoclose int lock = -1;
	struct err no_disk = {0};
	int r;

	*ret = (struct workspace_use){
		.root_fd = -1, .volume = VOLUME_NONE, .needs_root = ids->kind != IDS_RANGE};
	r = workspace_lock(s, name, &lock, e);
	if (r < 0)
		return r;
	if (workspace_is_missing(s, name)) {
		r = workspace_drop_lone(s, name, e);
		if (r < 0)
			return r;
	}
	r = workspace_stack_read(s, name, &ret->stack);
	if (r < 0 && r != -ENOENT)
		return err_set(e, ERR_DAMAGED, -r, "the layers of workspace '%s' cannot be read",
			       name);
	r = 0;
	if (bytes > 0 && workspace_is_missing(s, name)) {
		/* Memory, which the check would name, is no place for what outlives its box. */
		if (ret->needs_root)
			err_set(&no_disk, ERR_UNSUPPORTED, EPERM,
				"a disk of its own needs root (loop devices)");
		else if (pool_is_ready(s->home_fd))
			r = make_in_pool(s, name, ids, bytes, e);
		else if (storage_loop.check(&place, ids, &no_disk) == 0)
			r = make_with_disk(s, name, bytes, e);
	} else if (bytes > 0) {
		err_set(&no_disk, ERR_UNSUPPORTED, ENOTSUP,
			"it was made as a plain directory, and stays one");
	}
	if (r < 0)
		return r;
	if (!workspace_is_missing(s, name) && storage_detect(&place) != &storage_plain)
		return use_disk(storage_detect(&place), &place, ids, ret, e);
	str_copy(ret->why, sizeof(ret->why), no_disk.msg);
	if (due && ret->why[0] && workspace_is_missing(s, name))
		return 0;
	return open_or_make(s, name, &ret->root_fd, e);
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

/* An ordinary user may not read directories that belong to the box's other ids, but box root
 * may. */
static int measure_tree(struct state *s, const struct ids *ids, struct workspace *w, struct err *e)
{
	struct usage_job j = {.job.run = usage_inside, .dir_fd = s->workspaces_fd};
	int r = tree_usage(s->workspaces_fd, w->name, &w->bytes, &w->files, e);

	if (r != -EACCES || ids->kind != IDS_SUBORDINATE)
		return r;
	str_copy(j.name, sizeof(j.name), w->name);
	r = inside_run(ids, &j.job, sizeof(j), e);
	w->bytes = j.bytes;
	w->files = j.files;
	return r;
}

/* What the disk takes of the host, and what it says about its files: the filesystem itself while a
 * box has it, else what was written when the last one let it go. */
static int measure_disk(const struct storage_place *place, const struct ids *ids,
			struct workspace *w, struct err *e)
{
	autoclose int fd = disk_open(place);
	struct volume volume = VOLUME_NONE;
	struct volume_usage usage;
	struct ext4_counts counts;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, fd < 0 ? -fd : errno, "measure workspace '%s'", w->name);
	w->bytes = (uint64_t)st.st_blocks * 512;
	if (loopdev_has(fd) &&
	    storage_loop.open(place, ids, &(struct storage_size){0}, &volume, NULL) == 0) {
		volume_usage(&volume, &usage);
		volume_done(&volume);
		w->files = usage.files + 1; /* its root, as everywhere */
		return 0;
	}
	r = ext4_read_counts(fd, &counts);
	if (r < 0)
		return err_errno(e, -r, "measure workspace '%s'", w->name);
	w->files = counts.files + 1;
	return 0;
}

/* Its quota says how much, a walk how many. */
static int measure_pool(const struct storage_place *place, const struct ids *ids,
			struct workspace *w, struct err *e)
{
	struct volume volume = VOLUME_NONE;
	struct volume_usage usage;
	uint64_t bytes;
	int r = storage_pool.open(place, ids, &(struct storage_size){0}, &volume, e);

	if (r == 0)
		r = tree_usage(volume.stat_fd, ".", &bytes, &w->files, e);
	volume_usage(&volume, &usage);
	w->bytes = usage.bytes;
	volume_done(&volume);
	return r;
}

int workspace_list(struct state *s, const struct ids *ids, struct workspace **ret,
		   size_t *ret_count, struct err *e)
{
	const struct storage_ops *ops;
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
		struct storage_place place = workspace_place(s, names[i]);

		str_copy(list[n].name, sizeof(list[n].name), names[i]);
		ops = storage_detect(&place);
		r = ops == &storage_loop   ? measure_disk(&place, ids, &list[n], e)
		    : ops == &storage_pool ? measure_pool(&place, ids, &list[n], e)
					   : measure_tree(s, ids, &list[n], e);
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

/* A damaged one may still be as long as its file. */
static int bound_of_disk(const struct storage_place *place, uint64_t *ret)
{
	autoclose int fd = disk_open(place);
	struct ext4_counts counts;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	*ret = ext4_read_counts(fd, &counts) == 0 ? counts.bytes_limit : (uint64_t)st.st_size;
	return 0;
}

int workspace_bound(struct state *s, const struct ids *ids, const char *name, uint64_t *ret_bytes,
		    struct err *e)
{
	struct storage_place place = workspace_place(s, name);
	const struct storage_ops *ops = storage_detect(&place);
	struct volume volume = VOLUME_NONE;
	struct volume_usage usage;
	struct workspace w = {0};
	int r;

	if (ops == &storage_loop) {
		r = bound_of_disk(&place, ret_bytes);
		return r < 0 ? err_errno(e, -r, "measure workspace '%s'", name) : 0;
	}
	if (ops == &storage_pool) {
		r = storage_pool.open(&place, ids, &(struct storage_size){0}, &volume, e);
		if (r < 0)
			return r;
		volume_usage(&volume, &usage);
		volume_done(&volume);
		*ret_bytes = usage.bytes_limit ? usage.bytes_limit : usage.bytes;
		return 0;
	}
	str_copy(w.name, sizeof(w.name), name);
	r = measure_tree(s, ids, &w, e);
	*ret_bytes = w.bytes;
	return r;
}

/* ---- removing ---- */

/* Disks and lists of layers whose directory is gone or was never there. Under the lock. */
static int drop_lone_disks(struct state *s)
{
	char **names;
	size_t count;
	int r = state_all_names(s->workspaces_fd, &names, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		const char *end = strrchr(names[i], '.');
		char name[BOX_NAME_MAX + 1];

		if (!end || end == names[i] || (size_t)(end - names[i]) > BOX_NAME_MAX ||
		    (strcmp(end, ".img") != 0 && strcmp(end, WORKSPACE_STACK_END) != 0))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(end - names[i]), names[i]);
		if (workspace_is_missing(s, name) && unlinkat(s->workspaces_fd, names[i], 0) < 0 &&
		    errno != ENOENT)
			r = -errno;
	}
	state_names_free(names, count);
	return r;
}

int workspace_sweep(struct state *s, const struct ids *ids, struct err *e)
{
	autoclose int lock = s->workspaces_fd < 0 ? -1 : lock_all(s, 0);
	char **names;
	size_t count;
	int r;

	if (s->workspaces_fd < 0)
		return 0;
	/* Somebody is at work there: another time will do. */
	r = lock == -EBUSY ? 0 : lock < 0 ? lock : drop_lone_disks(s);
	if (r < 0)
		return state_error(s, -r, "sweep the workspaces in", e);
	fd_close(&lock);
	r = state_leftovers(s->workspaces_fd, &names, &count);
	if (r < 0)
		return err_errno(e, -r, "list the workspaces in '%.140s'", s->home);
	for (size_t i = 0; i < count && r == 0; i++)
		r = storage_delete(s->home_fd, s->workspaces_fd, names[i], ids, e);
	state_names_free(names, count);
	return r;
}

/* Which is what counts. */
int workspace_hide(struct state *s, const char *name, struct err *e)
{
	struct storage_place place = workspace_place(s, name);
	char gone[32], disk[DISK_NAME_SIZE], stack[STACK_NAME_SIZE];

	state_gone_name(gone);
	if (renameat(s->workspaces_fd, name, s->workspaces_fd, gone) < 0) {
		if (errno == ENOENT)
			return err_set(e, ERR_NOT_FOUND, ENOENT, "no workspace '%s'", name);
		return state_error(s, errno, "remove the workspace in", e);
	}
	disk_name(&place, disk);
	state_gone_name(gone);
	if (renameat(s->workspaces_fd, disk, s->workspaces_fd, gone) < 0 && errno != ENOENT)
		return state_error(s, errno, "remove the workspace in", e);
	stack_name(name, stack);
	if (unlinkat(s->workspaces_fd, stack, 0) < 0 && errno != ENOENT)
		return state_error(s, errno, "remove the workspace in", e);
	return fsync(s->workspaces_fd) < 0 ? state_error(s, errno, "sync", e) : 0;
}

int workspace_remove(struct state *s, const struct ids *ids, const char *name, struct err *e)
{
	char box[BOX_NAME_MAX + 1];
	autoclose int lock = -1;
	int r = state_check_name("workspace", name, e);

	if (r < 0)
		return r;
	if (s->workspaces_fd < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no workspace '%s'", name);
	r = workspace_lock(s, name, &lock, e);
	if (r == 0)
		r = record_find_user(s, NULL, NULL, name, box, e);
	if (r > 0)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' uses workspace '%s'; remove the box first (cove rm -f %s)",
			       box, name, box);
	if (r == 0)
		r = workspace_hide(s, name, e);
	fd_close(&lock); /* the sweep has its own */
	return r < 0 ? r : workspace_sweep(s, ids, e);
}

/* ---- replacing ---- */

struct replaced_users {
	const char *workspace;
	bool (*is_replaced)(void *arg, const char *box);
	void *arg;
	char box[BOX_NAME_MAX + 1];
};

static int stays_user(void *arg, const struct spec *spec)
{
	struct replaced_users *u = arg;

	if (!spec->workspace || strcmp(spec->workspace, u->workspace) != 0 ||
	    u->is_replaced(u->arg, spec->name))
		return 0;
	str_copy(u->box, sizeof(u->box), spec->name);
	return 1;
}

int workspace_check_users(struct state *s, const char *name,
			  bool (*is_replaced)(void *arg, const char *box), void *arg, struct err *e)
{
	struct replaced_users u = {.workspace = name, .is_replaced = is_replaced, .arg = arg};
	int r = workspace_is_missing(s, name) ? 0 : record_each_spec(s, false, stays_user, &u, e);

	return r > 0 ? err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' uses workspace '%s'; remove the box first (cove rm -f %s)",
			       u.box, name, u.box)
		     : r;
}

int workspace_take_made(struct state *s, int from_fd, const char *name, bool force, struct err *e)
{
	struct storage_place place = workspace_place(s, name);
	char disk[DISK_NAME_SIZE], stack[STACK_NAME_SIZE];
	autoclose int lock = -1;
	int to = s->workspaces_fd, r = workspace_lock(s, name, &lock, e);

	if (r == 0 && !workspace_is_missing(s, name))
		r = force ? workspace_hide(s, name, e)
			  : err_set(e, ERR_EXISTS, EEXIST, "workspace '%s' was made meanwhile",
				    name);
	if (r == 0)
		r = workspace_drop_lone(s, name, e);
	if (r < 0)
		return r;
	disk_name(&place, disk);
	stack_name(name, stack);
	if ((renameat(from_fd, disk, to, disk) < 0 && errno != ENOENT) ||
	    (renameat(from_fd, stack, to, stack) < 0 && errno != ENOENT) ||
	    renameat(from_fd, name, to, name) < 0 || fsync(to) < 0)
		return err_errno(e, errno, "name workspace '%s'", name);
	return 0;
}

/* ---- mount sources ---- */

static int leads_out(const char *src, struct err *e)
{
	return err_set(e, ERR_INVALID, EXDEV,
		       "mount source '%.120s' leads out of the workspace; give an absolute path if "
		       "that is meant",
		       src);
}

static int open_inside(int dir_fd, const char *path, int flags)
{
	return fd_openat2(dir_fd, path, flags, 0, FD_BENEATH | FD_NO_MAGICLINKS);
}

/* A directory made by root for the box belongs to whoever owns the one above. */
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
