/* Which wall a box gets; walls.c has the calls of cove.h too. */
#pragma once

#include "core/core.h"

/* "auto" or "auto:TIME": the strongest wall behind which a box started within that time when it was
 * tried. Is it that? -EINVAL where the time is none. */
int wall_read_auto(const char *wall, uint64_t *ret_ms, struct err *e);

/* True also where either is no wall. */
bool wall_is_weaker(const char *wall, const char *least);
/* True also where it is no wall. */
bool wall_shares_kernel(const char *wall);
/* That a box gets whose maker names none; NULL where it is not known. */
const char *wall_of_new(struct cove *cove);
/* For a box that is made: puts a wall's name in the place of "auto" or none, and refuses one that
 * is weaker than boxes must have. */
int wall_choose(struct cove *cove, struct core_spec *s, struct err *e);
/* The second half, for a box that is there already. */
int wall_check(struct cove *cove, const char *wall, struct err *e);
