/* What a box shows of its host, for `cove sbx ls`. */
#pragma once

#include "base/buf.h"
#include "cove.h"

/* Appends what of the host a box shows, its workspace first, each with its NUL; with ":ro" where it
 * can only be read. 0, -ENOENT for a box that is gone, or another negative errno. */
int list_host_paths(struct cove *cove, const char *name, struct buf *ret);
