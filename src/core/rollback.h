/* A rollback that was interrupted; see rollback.c. */
#pragma once

#include "core/core.h"

/* ERR_CONFLICT where another box has its workspace, too: it is not put back, nor changed,
 * behind that one's back. */
int rollback_check_workspace(struct cove *cove, const struct spec *spec, struct err *e);

/* Without its operation lock: finishes a rollback or merge of a box that was killed, which without
 * this the next start does. Nothing is to be read of such a box before. */
int rollback_resume(struct cove *cove, const char *name, struct err *e);

/* With the operation lock held through box_fd and the box not live: does the rest of what was
 * begun. 0 where there is nothing. */
int rollback_finish(struct cove *cove, const char *name, int box_fd, struct err *e);
