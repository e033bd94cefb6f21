/* Memory that is taken in small pieces and given back all at once. */
#pragma once

#include <stddef.h>

struct arena {
	struct arena_chunk *chunks; /* owned; the newest first */
	size_t left;		    /* bytes free in the newest */
};

/* Zeroed, aligned for anything. NULL without memory. */
void *arena_alloc(struct arena *a, size_t n);
/* n things of a size each; NULL also where that is more than a size_t. */
void *arena_array(struct arena *a, size_t n, size_t size);
char *arena_strdup(struct arena *a, const char *s, size_t n);
void arena_done(struct arena *a); /* a zeroed one is fine */
