/*
 * What a pool asks of btrfs, by ioctl: no program is started, and no header is needed that musl
 * lacks.
 *
 * Simple quotas (Linux 6.7): every extent, data and metadata alike, is charged to the subvolume
 * that wrote it first, once, however often it is referenced later; a limit is checked before the
 * space is handed out (EDQUOT). A subvolume within another would have a quota of its own: no box
 * may make one (src/filter/box.syscalls).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BTRFS_MAGIC 0x9123683Eu /* f_type of statfs(2) */

/* All return 0 or -errno. Names are one component. */
bool btrfs_is(int fd);
int btrfs_subvol_make(int dir_fd, const char *name);
int btrfs_subvol_remove(int dir_fd, const char *name); /* with all that is in it, at once */
int btrfs_subvol_id(int subvol_fd, uint64_t *ret);
/* A read-only copy of the subvolume as `name` in dir_fd; on the disk when this returns. */
int btrfs_snapshot(int subvol_fd, int dir_fd, const char *name);

/* Commits, and has the kernel free what removed subvolumes held now, behind the caller, instead of
 * within half a minute. */
int btrfs_clean(int fd);

/* Simple quotas for the whole filesystem; where they are on already that is fine. -EOPNOTSUPP: this
 * kernel has none, or the filesystem has quotas of the other kind. */
int btrfs_quota_on(int fd);
int btrfs_quota_limit(int subvol_fd, uint64_t bytes); /* 0: none */
/* Forgets the quota of a subvolume that is gone. -EBUSY while somebody holds its data. */
int btrfs_quota_forget(int fd, uint64_t subvol_id);

/* The directory of the filesystem's quotas below /sys, as a path; it is there from the moment they
 * are on. */
enum { BTRFS_SYS_PATH = 72 };
int btrfs_quota_path(int fd, char ret[BTRFS_SYS_PATH]);
