/* What all kinds of storage share; see storage.h. */
#include "storage/storage.h"

#include "base/fd.h"
#include "storage/loop.h"
#include "storage/pool.h"
#include "storage/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

const struct storage_ops *storage_find(const char *name)
{
	static const struct storage_ops *const all[] = {&storage_plain, &storage_loop,
							&storage_tmpfs, &storage_pool};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}

const struct storage_ops *storage_detect(const struct storage_place *p)
{
	char disk[DISK_NAME_SIZE];
	struct stat st;

	disk_name(p, disk);
	if (fstatat(p->dir_fd, disk, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		return &storage_loop;
	return pool_has(p) ? &storage_pool : &storage_plain;
}

bool volume_is_late(const struct volume *v)
{
	return v->file_fd >= 0 || v->pool.late;
}

int volume_attach(struct volume *v, struct err *e)
{
	if (v->pool.late)
		return pool_volume_attach(v, e);
	return v->file_fd < 0 ? 0 : disk_attach(v, e);
}

void volume_done(struct volume *v)
{
	enum { MUCH = 4 << 20 };
	struct volume_usage usage;

	/* Unmounting writes whatever is still in memory; a deleted file is not. Where this fails it
	 * only takes longer. */
	volume_usage(v, &usage);
	if (v->throw_away && usage.bytes > MUCH && v->pool.all_fd < 0)
		tree_remove(v->stat_fd, "upper", NULL);
	fd_close(&v->pool.dir_fd);
	fd_close(&v->pool.all_fd);
	fd_close(&v->pool.used_fd);
	fd_close(&v->pool.reserved_fd);
	fd_close(&v->stat_fd);
	fd_close(&v->mount_fd);
	fd_close(&v->file_fd);
	fd_close(&v->from_fd);
}

void volume_usage(const struct volume *v, struct volume_usage *ret)
{
	/* The inodes that ext4 has for itself. */
	enum { OWN_FILES = 10 };
	struct statfs s;
	uint64_t block;

	*ret = (struct volume_usage){0};
	if (v->pool.used_fd >= 0) {
		pool_volume_usage(v, ret);
		return;
	}
	if (v->stat_fd < 0 || fstatfs(v->stat_fd, &s) < 0 || s.f_bsize <= 0)
		return;
	block = (uint64_t)s.f_bsize;
	*ret = (struct volume_usage){
		.bytes = (s.f_blocks - s.f_bfree) * block,
		/* Without what the kernel keeps back for itself. */
		.bytes_limit = (s.f_blocks - (s.f_bfree - s.f_bavail)) * block,
		.files = s.f_files - s.f_ffree,
		.files_limit = s.f_files,
	};
	if (v->ops != &storage_tmpfs && ret->files >= OWN_FILES) {
		ret->files -= OWN_FILES;
		ret->files_limit -= OWN_FILES;
	}
}

bool volume_is_full(const struct volume *v)
{
	return pool_volume_is_full(v);
}

struct volume volume_take_measure(struct volume *v)
{
	struct volume m = VOLUME_NONE;

	m.ops = v->ops;
	m.bytes = v->bytes;
	m.stat_fd = take_fd(v->stat_fd);
	m.pool.used_fd = take_fd(v->pool.used_fd);
	m.pool.reserved_fd = take_fd(v->pool.reserved_fd);
	return m;
}

int volume_tighten(struct volume *v, struct err *e)
{
	return v->pool.eased ? pool_volume_tighten(v, e) : 0;
}

int volume_drop(struct volume *v, const struct ids *ids, struct err *e)
{
	return pool_volume_drop(v, ids, e);
}

int storage_delete(int home_fd, int dir_fd, const char *name, const struct ids *ids, struct err *e)
{
	autoclose int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	int r = fd < 0 ? 0 : pool_remove_of(home_fd, fd, ids, e);

	return r < 0 ? r : tree_remove_as(ids, dir_fd, name, e);
}
