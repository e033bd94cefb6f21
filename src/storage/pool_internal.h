/* Between pool.c and pool_setup.c. */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <sys/vfs.h>

#define POOL_DIR   "pool"
#define POOL_FILE  "pool.img"
#define POOL_BOXES "boxes"
#define POOL_TREES "layers"

/* A directory of the pool, which is mounted first if it is not. -ENOENT with the remedy in *e where
 * there is no pool. ret (may be NULL) gets the filesystem's numbers. */
int pool_open_dir(int home_fd, const char *name, struct statfs *ret, struct err *e);
/* The same without mounting anything: -ENOENT says nothing in an error. */
int pool_open_mounted(int home_fd, const char *name, struct statfs *ret);

/* Mounts pool.img at pool/; fine if it is. -ENOENT: there is no such file. */
int pool_mount(int home_fd, struct err *e);

/* pool_sweep of volumes that are older than that. */
int pool_sweep_older(int home_fd, int boxes_fd, int workspaces_fd, const struct ids *ids, int age_s,
		     struct err *e);
