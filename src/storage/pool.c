/*
 * Volumes and layers in the pool; see pool.h.
 *
 *	id -> pool/boxes/<id>/ -> its subvolume v -> limit, read back -> upper/ and work/
 *	     -> a detached clone of v for the box
 *
 * Each step is fine when it was taken before, so that a start which was killed goes on where it
 * was. Removing goes the other way, the subvolume in one call; the kernel frees its space behind.
 * While a box still has it mounted that is fine too: it is gone when the box is.
 *
 * How full a volume is stands below /sys in files that anybody may read and a confined keeper has
 * open. Space of deleted files is counted until the filesystem's next commit, which a writer who
 * meets the limit brings about: so a number is only ever too large, and where it matters whether a
 * volume is full, the filesystem is asked for space.
 */
#include "storage/pool.h"

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "storage/btrfs.h"
#include "storage/pool_internal.h"
#include "storage/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>

#define VOLUME "v"
/* Of the directory of a box or workspace. Only root of the host can set it. */
#define ID_ATTR "trusted.cove.pool"

enum {
	DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
	TREE_CLONE = 1, /* OPEN_TREE_CLONE */
	FALLOC_KEEP_SIZE = 1,
	USED_TEXT = 24,
};

static bool is_id(const char *text)
{
	return strlen(text) == POOL_ID_LEN && strspn(text, "0123456789abcdef") == POOL_ID_LEN;
}

static int read_id(int dir_fd, char ret_id[POOL_ID_LEN + 1])
{
	char text[POOL_ID_LEN + 2];
	ssize_t n = fgetxattr(dir_fd, ID_ATTR, text, sizeof(text) - 1);

	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? -ENOENT
		       : errno == ERANGE		       ? -EBADMSG
							       : -errno;
	text[n] = 0;
	if (!is_id(text))
		return -EBADMSG;
	str_copy(ret_id, POOL_ID_LEN + 1, text);
	return 0;
}

/* The directory of a place, to be closed, or -errno. */
static int open_place(const struct storage_place *p)
{
	int fd = openat(p->dir_fd, p->name ? p->name : ".", DIR_FLAGS);

	return fd < 0 ? -errno : fd;
}

bool pool_has(const struct storage_place *p)
{
	autoclose int fd = p->name ? open_place(p) : -1;
	char id[POOL_ID_LEN + 1];

	return read_id(p->name ? fd : p->dir_fd, id) == 0;
}

/* ---- removing ---- */

/* Where removing a subvolume is not allowed (a confined keeper on a btrfs of the host's that was
 * not mounted for this) its files go one by one, and an empty one goes like a directory. */
static int destroy(int dir_fd, const struct ids *ids, struct err *e)
{
	int r = btrfs_subvol_remove(dir_fd, VOLUME);

	if (r == 0 || r == -ENOENT)
		return 0;
	return tree_remove_as(ids, dir_fd, VOLUME, e);
}

static int remove_volume(int all_fd, const char *id, const struct ids *ids, struct err *e)
{
	autoclose int dir_fd = openat(all_fd, id, DIR_FLAGS);
	int r;

	if (dir_fd < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "open the volume '%s'", id);
	r = destroy(dir_fd, ids, e);
	if (r == 0 && unlinkat(all_fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_errno(e, errno, "remove the volume '%s'", id);
	return r;
}

int pool_remove_of(int home_fd, int dir_fd, const struct ids *ids, struct err *e)
{
	autoclose int all_fd = -1;
	char id[POOL_ID_LEN + 1];
	int r = read_id(dir_fd, id);

	if (r == -ENOENT)
		return 0;
	all_fd = r < 0 ? -1 : pool_open_dir(home_fd, POOL_BOXES, NULL, NULL);
	r = all_fd < 0 ? 0 : remove_volume(all_fd, id, ids, e);
	if (r == 0 && fremovexattr(dir_fd, ID_ATTR) < 0 && errno != ENODATA)
		r = err_errno(e, errno, "forget the volume '%s'", id);
	return r;
}

int pool_volume_drop(struct volume *v, const struct ids *ids, struct err *e)
{
	struct volume_pool *p = &v->pool;
	int r;

	if (p->dir_fd < 0)
		return 0;
	r = destroy(p->dir_fd, ids, e);
	if (r == 0 && unlinkat(p->all_fd, p->id, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_errno(e, errno, "remove the volume '%s'", p->id);
	if (r == 0)
		fd_close(&p->dir_fd);
	return r;
}

/* ---- opening ---- */

static int pool_check(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	autoclose int fd = -1;

	if (ids->kind != IDS_RANGE)
		return err_set(e, ERR_UNSUPPORTED, EPERM,
			       "the pool is root's: run as root, or use --storage tmpfs");
	fd = pool_open_dir(p->home_fd, POOL_BOXES, NULL, e);
	return fd < 0 ? fd : 0;
}

/* The name of a volume; a new one where there is none. */
static int find_id(const struct storage_place *p, bool durable, char ret_id[POOL_ID_LEN + 1],
		   struct err *e)
{
	autoclose int own = p->name || durable ? open_place(p) : -1;
	int fd = own < 0 ? p->dir_fd : own;
	int r = p->name && own < 0 ? own : read_id(fd, ret_id);

	if (r == -EBADMSG)
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "the attribute " ID_ATTR " names no volume");
	if (r != -ENOENT)
		return r < 0 ? err_errno(e, -r, "find the volume in the pool") : 0;
	r = pool_check_room(p->home_fd, e);
	if (r < 0)
		return r;
	rand_hex(ret_id, POOL_ID_LEN / 2);
	/* A volume that was synced must be found again after a power cut. */
	if (fsetxattr(fd, ID_ATTR, ret_id, POOL_ID_LEN, 0) < 0 || (durable && fsync(fd) < 0))
		return err_errno(e, errno, "note the volume in the pool");
	return 0;
}

static int open_volume(struct volume_pool *p, struct err *e)
{
	int r = mkdirat(p->all_fd, p->id, 0700) < 0 && errno != EEXIST ? -errno : 0, fd;

	if (r == 0) {
		p->dir_fd = openat(p->all_fd, p->id, DIR_FLAGS);
		r = p->dir_fd < 0 ? -errno : btrfs_subvol_make(p->dir_fd, VOLUME);
	}
	if (r < 0 && r != -EEXIST)
		return err_errno(e, -r, "make a volume in the pool");
	fd = openat(p->dir_fd, VOLUME, DIR_FLAGS);
	return fd < 0 ? err_errno(e, errno, "open the volume '%s'", p->id) : fd;
}

/* A box's layer has its two directories, a workspace is the box user's. */
static int fill(int fd, const struct storage_place *p)
{
	struct stat st;

	if (p->name) {
		if (fstat(fd, &st) < 0)
			return -errno;
		if (st.st_uid != 0) /* it is in use: what its user made of it stays */
			return 0;
		return fchmod(fd, 0755) < 0 || fchown(fd, IDS_USER, IDS_USER) < 0 ? -errno : 0;
	}
	if (mkdirat(fd, "work", 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	/* The caller's umask has no say. */
	if (mkdirat(fd, "upper", 0755) < 0 && errno != EEXIST)
		return -errno;
	return fchmodat(fd, "upper", 0755, 0) < 0 ? -errno : 0;
}

static int open_used(const char *dir, const char *file)
{
	char path[2 * BTRFS_SYS_PATH + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return fd_open(path, O_RDONLY);
}

static uint64_t read_number(int fd)
{
	char text[USED_TEXT];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	uint64_t value;

	if (n <= 0)
		return 0;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return str_parse_u64(text, UINT64_MAX, &value) ? value : 0;
}

/* A limit set right after quotas came on was once not kept: it is read back, always. An overlay
 * makes a directory when it is mounted, which a full volume would refuse: with ease such a one has
 * more until its box is up. */
static int limit_volume(int fd, uint64_t bytes, bool ease, struct volume_pool *p, struct err *e)
{
	char dir[BTRFS_SYS_PATH], own[BTRFS_SYS_PATH + 24];
	autoclose int limit_fd = -1;
	uint64_t id;
	int r = btrfs_subvol_id(fd, &id);

	if (r == 0)
		r = btrfs_quota_path(fd, dir);
	if (r < 0)
		return err_errno(e, -r, "limit the volume '%s'", p->id);
	snprintf(own, sizeof(own), "%s/0_%llu", dir, (unsigned long long)id);
	p->used_fd = open_used(own, "referenced");
	p->reserved_fd = open_used(own, "rsv_data");
	p->eased = ease && bytes && read_number(p->used_fd) + POOL_EASE / 2 > bytes;
	bytes += p->eased ? POOL_EASE : 0;
	r = bytes ? btrfs_quota_limit(fd, bytes) : 0;
	if (r < 0)
		return err_errno(e, -r, "limit the volume '%s'", p->id);
	limit_fd = open_used(own, "max_referenced");
	if (bytes && read_number(limit_fd) != bytes)
		return err_set(
			e, ERR_UNSUPPORTED, ENOTSUP,
			"the pool does not keep limits: its quotas are off; run 'cove doctor "
			"--setup-storage'");
	return 0;
}

int pool_volume_tighten(struct volume *v, struct err *e)
{
	int r = btrfs_quota_limit(v->stat_fd, v->bytes);

	v->pool.eased = r < 0;
	return r < 0 ? err_errno(e, -r, "limit the volume '%s'", v->pool.id) : 0;
}

/* The limit of one that was made before, which the caller does not know. */
static uint64_t known_limit(int fd)
{
	char dir[BTRFS_SYS_PATH], own[BTRFS_SYS_PATH + 48];
	autoclose int limit_fd = -1;
	uint64_t id, bytes;

	if (btrfs_subvol_id(fd, &id) < 0 || btrfs_quota_path(fd, dir) < 0)
		return 0;
	snprintf(own, sizeof(own), "0_%llu/max_referenced", (unsigned long long)id);
	limit_fd = open_used(dir, own);
	bytes = read_number(limit_fd);
	return bytes == UINT64_MAX ? 0 : bytes;
}

/* All of it but its id. What was opened before a failure is in *v. */
static int open_now(const struct storage_place *p, struct volume *v, bool ease, struct err *e)
{
	autoclose int fd = -1;
	int r;

	v->pool.all_fd = pool_open_dir(p->home_fd, POOL_BOXES, NULL, e);
	if (v->pool.all_fd < 0)
		return v->pool.all_fd;
	fd = open_volume(&v->pool, e);
	if (fd < 0)
		return take_fd(fd);
	r = fill(fd, p);
	if (r < 0)
		return err_errno(e, -r, "make the directories of the volume");
	r = limit_volume(fd, v->bytes, ease, &v->pool, e);
	if (r < 0)
		return r;
	if (v->bytes == 0)
		v->bytes = known_limit(fd);
	v->mount_fd = (int)syscall(SYS_open_tree, fd, "", TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
	if (v->mount_fd < 0)
		return err_errno(e, errno, "show the volume '%s'", v->pool.id);
	v->stat_fd = take_fd(fd);
	return 0;
}

/* Only who opens in two halves starts a box. */
int pool_volume_attach(struct volume *v, struct err *e)
{
	int r = find_id(&v->pool.place, !v->throw_away, v->pool.id, e);
	bool ease = v->pool.late;

	v->pool.late = false;
	return r < 0 ? r : open_now(&v->pool.place, v, ease, e);
}

static int pool_open(const struct storage_place *p, const struct ids *ids,
		     const struct storage_size *size, struct volume *ret, struct err *e)
{
	int r;

	*ret = VOLUME_NONE;
	ret->ops = &storage_pool;
	ret->throw_away = size->throw_away;
	ret->bytes = size->bytes;
	ret->pool.place = *p;
	ret->pool.late = size->late;
	if (size->late)
		return 0;
	r = pool_volume_attach(ret, e);
	if (r < 0) {
		volume_done(ret);
		*ret = VOLUME_NONE;
	}
	return r;
}

static int pool_remove(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	autoclose int fd = open_place(p);

	return fd < 0 ? 0 : pool_remove_of(p->home_fd, fd, ids, e);
}

const struct storage_ops storage_pool = {
	.name = "pool",
	.flags = STORAGE_LIMIT | STORAGE_SNAPSHOTS | STORAGE_QUOTA,
	.check = pool_check,
	.open = pool_open,
	.remove = pool_remove,
};

/* ---- how full ---- */

void pool_volume_usage(const struct volume *v, struct volume_usage *ret)
{
	uint64_t used = read_number(v->pool.used_fd) + read_number(v->pool.reserved_fd);

	*ret = (struct volume_usage){.bytes = used, .bytes_limit = v->bytes};
}

bool pool_volume_is_full(const struct volume *v)
{
	autoclose int fd = -1;
	struct volume_usage now;
	struct statfs fs;
	uint64_t little = v->bytes / DISK_ROOM_SHARE;
	bool limited, crowded;

	if (v->pool.used_fd < 0 || v->stat_fd < 0)
		return false;
	little = little < DISK_ROOM_MIN ? DISK_ROOM_MIN : little;
	little = little > DISK_ROOM_MAX ? DISK_ROOM_MAX : little;
	pool_volume_usage(v, &now);
	limited = v->bytes > 0 && now.bytes + little > v->bytes;
	crowded = fstatfs(v->stat_fd, &fs) == 0 &&
		  (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < POOL_FULL;
	if (!limited)
		return crowded;
	fd = openat(v->stat_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == EDQUOT || errno == ENOSPC;
	return fallocate(fd, FALLOC_KEEP_SIZE, 0, (off_t)little) < 0 &&
	       (errno == EDQUOT || errno == ENOSPC);
}

/* ---- layers ---- */

int pool_sync(int home_fd, struct err *e)
{
	autoclose int fd = pool_open_dir(home_fd, POOL_TREES, NULL, e);

	if (fd < 0)
		return take_fd(fd);
	return syncfs(fd) < 0 ? err_errno(e, errno, "sync the pool") : 0;
}

int pool_snapshot(int home_fd, const struct storage_place *box, const char *layer_id, struct err *e)
{
	autoclose int layers_fd = pool_open_dir(home_fd, POOL_TREES, NULL, e);
	autoclose int all_fd = layers_fd < 0 ? -1 : pool_open_dir(home_fd, POOL_BOXES, NULL, e);
	char path[POOL_ID_LEN + 8], id[POOL_ID_LEN + 1];
	autoclose int fd = -1, own = open_place(box);
	int r;

	if (all_fd < 0)
		return layers_fd < 0 ? take_fd(layers_fd) : take_fd(all_fd);
	r = own < 0 ? own : read_id(own, id);
	if (r == 0) {
		snprintf(path, sizeof(path), "%s/" VOLUME, id);
		fd = openat(all_fd, path, DIR_FLAGS);
		r = fd < 0 ? -errno : btrfs_snapshot(fd, layers_fd, layer_id);
	}
	if (r == -EEXIST)
		return err_set(e, ERR_CONFLICT, EEXIST, "there is a layer '%.16s' in the pool",
			       layer_id);
	return r < 0 ? err_errno(e, -r, "make a snapshot in the pool") : 0;
}

int pool_layer_remove(int home_fd, const char *layer_id, struct err *e)
{
	autoclose int fd = pool_open_dir(home_fd, POOL_TREES, NULL, e);
	int r = fd < 0 ? fd : btrfs_subvol_remove(fd, layer_id);

	if (fd < 0)
		return fd == -ENOENT ? 0 : take_fd(fd);
	return r < 0 && r != -ENOENT ? err_errno(e, -r, "remove the layer '%.16s'", layer_id) : 0;
}

/* ---- sweeping ---- */

enum { YOUNG_S = 60 };

struct ids_list {
	time_t before;		      /* only those that are older */
	char (*ids)[POOL_ID_LEN + 1]; /* owned */
	size_t count, room;
};

static int list_add(struct ids_list *l, const char *id)
{
	if (l->count >= POOL_VOLUMES_MAX)
		return -E2BIG;
	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		void *grown = reallocarray(l->ids, room, sizeof(*l->ids));

		if (!grown)
			return -ENOMEM;
		l->ids = grown;
		l->room = room;
	}
	memcpy(l->ids[l->count++], id, POOL_ID_LEN + 1);
	return 0;
}

static bool list_has(const struct ids_list *l, const char *id)
{
	for (size_t i = 0; i < l->count; i++)
		if (memcmp(l->ids[i], id, POOL_ID_LEN) == 0)
			return true;
	return false;
}

/* Calls on_name for every name in the directory, until it fails. */
static int each_name(int dir_fd, int (*on_name)(int dir_fd, const char *name, void *arg), void *arg)
{
	int fd = openat(dir_fd, ".", DIR_FLAGS), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		r = -errno;
		fd_close(&fd);
		return r;
	}
	while (r == 0 && (errno = 0, d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = on_name(dir_fd, d->d_name, arg);
	if (r == 0 && errno)
		r = -errno;
	closedir(dir);
	return r;
}

static int on_owner(int dir_fd, const char *name, void *arg)
{
	autoclose int fd = openat(dir_fd, name, DIR_FLAGS | O_NONBLOCK);
	char id[POOL_ID_LEN + 1];

	return fd >= 0 && read_id(fd, id) == 0 ? list_add(arg, id) : 0;
}

/* All that are named. A removal renames while this reads, and may be missed: that is all that is
 * ever renamed. */
static int list_named(int boxes_fd, int workspaces_fd, struct ids_list *l)
{
	int r = boxes_fd < 0 ? 0 : each_name(boxes_fd, on_owner, l);

	return r == 0 && workspaces_fd >= 0 ? each_name(workspaces_fd, on_owner, l) : r;
}

/* One that is being made is named already; its age stands beside that. */
static int on_volume(int all_fd, const char *name, void *arg)
{
	const struct ids_list *l = arg;
	struct stat st;

	if (!is_id(name) || fstatat(all_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_ctime >= l->before)
		return 0;
	return list_add(arg, name);
}

/* Kernels before 6.12 keep the quota of a subvolume that is gone. */
static int on_quota(int quotas_fd, const char *name, void *arg)
{
	const int *all_fd = arg;
	uint64_t id;

	if (str_starts(name, "0_") && str_parse_u64(name + 2, UINT64_MAX, &id) && id >= 256)
		(void)btrfs_quota_forget(*all_fd, id); /* -EBUSY: it is in use */
	return 0;
}

static void forget_quotas(int all_fd)
{
	char path[BTRFS_SYS_PATH];
	autoclose int fd = btrfs_quota_path(all_fd, path) < 0 ? -1 : fd_open(path, DIR_FLAGS);

	if (fd >= 0)
		(void)each_name(fd, on_quota, &all_fd);
}

int pool_sweep_older(int home_fd, int boxes_fd, int workspaces_fd, const struct ids *ids, int age_s,
		     struct err *e)
{
	autoclose int all_fd = pool_open_mounted(home_fd, POOL_BOXES, NULL);
	struct ids_list there = {.before = time(NULL) - age_s}, named = {0};
	int r;

	if (all_fd < 0)
		return 0;
	/* First what is there: whatever comes after that is not looked at. */
	r = each_name(all_fd, on_volume, &there);
	for (int round = 0; round < 2 && r == 0 && there.count; round++)
		r = list_named(boxes_fd, workspaces_fd, &named);
	for (size_t i = 0; i < there.count && r == 0; i++)
		if (!list_has(&named, there.ids[i]))
			r = remove_volume(all_fd, there.ids[i], ids, e);
	if (r == 0 && there.count)
		forget_quotas(all_fd);
	free(there.ids);
	free(named.ids);
	return r < 0 ? err_errno(e, -r, "sweep the pool") : 0;
}

int pool_sweep(int home_fd, int boxes_fd, int workspaces_fd, const struct ids *ids, struct err *e)
{
	return pool_sweep_older(home_fd, boxes_fd, workspaces_fd, ids, YOUNG_S, e);
}
