/*
 * All that a state directory holds as one file (store/parcel.h), and back. Members, by `what`:
 *
 *	image, snapshot, policy, secret	  name; content: the file as it is
 *	workspace	name, disk_bytes; content: its files (storage/tree_pack.h)
 *	workspace_stack	name; the layers that it stands on: a file
 *	box		name, disk_bytes: begins a box, of which these follow:
 *	box_file	file; content: record, policy, grants
 *	box_tree	dir ("upper", "copy/upper"); content: what it wrote
 *	box_end
 *	layer		id, kind, created_ms, bytes, files, diff; content: its tree
 *	blob		name; content
 */
#pragma once

#include "base/buf.h"
#include "core/core.h"
#include "storage/tree_pack.h"
#include "store/inside.h"
#include "store/parcel.h"

#define BACKUP_KIND	 "backup"
#define BACKUP_WORKSPACE "workspace" /* one, with the layers that it stands on */
#define BACKUP_SNAPSHOT	 "snapshot"  /* the same */
#define BACKUP_DISK_KEY	 "disk_bytes"

/* Files of a box that are kept besides its record. */
extern const char *const backup_box_files[];

/* Trees are packed and unpacked by a child with the box's ids; the writer or reader goes along. */
struct backup_pack_job {
	struct inside_job job;
	int root_fd;
	uint64_t bytes_max;
	struct parcel_writer w;
	struct tree_packed sum;
};
struct backup_unpack_job {
	struct inside_job job;
	int root_fd;
	bool single;
	struct parcel_reader r;
	struct tree_packed sum;
};
/* bytes_max as in tree_sink. */
int backup_pack_tree(struct cove *cove, struct parcel_writer *w, int root_fd, uint64_t bytes_max,
		     struct tree_packed *ret, struct err *e);
int backup_unpack_tree(struct cove *cove, struct parcel_reader *r, int root_fd,
		       struct tree_packed *ret, struct err *e);
