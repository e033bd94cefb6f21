/* What others have to know about a disk in a file: its name, and how to make one aside. */
#pragma once

#include "storage/storage.h"

#include "base/limits.h"

enum { DISK_NAME_SIZE = BOX_NAME_MAX + 8 };

/* disk.img in a box's directory, <name>.img beside a workspace's. */
void disk_name(const struct storage_place *p, char ret[DISK_NAME_SIZE]);

/* Makes the new disk of a place as `file` in into_fd, a directory that no one else works in. */
int disk_make(const struct storage_place *p, const struct storage_size *size, int into_fd,
	      const char *file, struct err *e);

/* volume_attach of a volume with a disk. */
int disk_attach(struct volume *v, struct err *e);

/* Opens the file of a place's disk for writing. -ENOENT if there is none. */
int disk_open(const struct storage_place *p);
