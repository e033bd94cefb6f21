/* A rollback that was interrupted; see rollback.c. */
#pragma once

#include "core/core.h"

/* With the operation lock held through box_fd and the box not live: does the rest of what was
 * begun. 0 where there is nothing. */
int rollback_finish(struct cove *cove, const char *name, int box_fd, struct err *e);
