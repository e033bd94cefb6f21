/*
 * The pool: one btrfs that holds the writes of many boxes, each in a subvolume of its own whose
 * simple quota is its limit.
 *
 *	$COVE_HOME/pool/	where COVE_HOME is on btrfs: a directory there
 *	$COVE_HOME/pool.img	elsewhere: a sparse file with a btrfs, mounted at pool/ by its first
 *				user after a reboot
 *	pool/boxes/<id>/v	a volume: upper/ and work/ of a box, or a workspace's files
 *	pool/layers/<id>/upper	a layer: a read-only snapshot of a box's volume
 *
 * `id` is random and stands in an attribute of the directory of the box (boxes/<name>) or
 * workspace, before there is such a volume: one that no directory names belongs to no box and is
 * swept. Each stands in a directory of its own so that a keeper that is confined can remove its own
 * volume and no other.
 *
 * A box never sees the pool: its mount is a detached clone of its own subvolume's root. There is
 * no limit of inodes: what they take of the metadata counts as bytes.
 */
#pragma once

#include "storage/storage.h"

#include "base/limits.h"

/* Is there one, for this caller? One that is set up is mounted by this, as root. */
bool pool_is_ready(int home_fd);

struct pool_info {
	bool is_file;	      /* pool.img, and not a directory of the host's btrfs */
	uint64_t bytes, free; /* of the btrfs */
	uint64_t file_bytes;  /* what pool.img takes of the host */
	uint64_t volumes, layers;
};
int pool_look(int home_fd, struct pool_info *ret, struct err *e);

/* Is there room for one more volume? ERR_FULL with the remedy: the pool is nearly full, or the disk
 * that its file is on. */
int pool_check_room(int home_fd, struct err *e);

/* Makes it; bytes of the file, 0: by what is free; not used on btrfs. One that is there is finished
 * if it is half made, and otherwise left alone. */
int pool_setup(int home_fd, uint64_t bytes, struct err *e);
/* Takes it away. ERR_CONFLICT while it holds volumes or layers. None is fine. */
int pool_teardown(int home_fd, struct err *e);

/* ---- snapshots ---- */

/* Writes what is dirty to disk, so that a snapshot has little left to write: before a box is
 * frozen. */
int pool_sync(int home_fd, struct err *e);
/* A read-only snapshot of a box's volume at pool/layers/<layer_id>, on disk when this returns. Of a
 * box that runs it is one moment of its files if the box is frozen. */
int pool_snapshot(int home_fd, const struct storage_place *box, const char *layer_id,
		  struct err *e);
/* Missing is success. */
int pool_layer_remove(int home_fd, const char *layer_id, struct err *e);

/* ---- for storage.c and those who delete ---- */

bool pool_has(const struct storage_place *p);
/* Second half of a late open. */
int pool_volume_attach(struct volume *v, struct err *e);
/* Removes the volume that the directory names. None is success; where the pool is not to be had the
 * name goes, and the next sweep of the pool finds the volume. */
int pool_remove_of(int home_fd, int dir_fd, const struct ids *ids, struct err *e);
/* The same for a volume that is open, by a keeper that is confined; its name stays. */
int pool_volume_drop(struct volume *v, const struct ids *ids, struct err *e);
int pool_volume_tighten(struct volume *v, struct err *e);
void pool_volume_usage(const struct volume *v, struct volume_usage *ret);
/* Would little more fit into it? Asks the filesystem, which frees first what is to be freed. */
bool pool_volume_is_full(const struct volume *v);

/* Removes volumes that nothing in the two directories names (a -1 has none), and what is left of
 * the quotas of volumes that are gone. */
int pool_sweep(int home_fd, int boxes_fd, int workspaces_fd, const struct ids *ids, struct err *e);
