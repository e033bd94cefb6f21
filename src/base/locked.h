/* Memory for what must not be left lying about: locked, out of core dumps, wiped when it is given
 * back. From any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* NULL without memory. Where memory cannot be locked it goes on (RLIMIT_MEMLOCK): locked_is says
 * so, and locked_always no more for the whole process, nor for a child. */
void *locked_alloc(size_t n);
void locked_free(void *data); /* of NULL: nothing */
bool locked_is(const void *data);
bool locked_always(void);
