/* Chunks that grow with what is asked for; see arena.h. */
#include "door/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK = 8 << 10, ARENA_ALIGN = 16 };

struct arena_chunk {
	struct arena_chunk *next;
	size_t size;
	_Alignas(ARENA_ALIGN) unsigned char data[];
};

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_chunk *c = a->chunks;
	size_t size;

	if (n > SIZE_MAX / 2)
		return NULL;
	n = (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (!c || n > a->left) {
		size = n > ARENA_CHUNK ? n : ARENA_CHUNK;
		c = calloc(1, sizeof(*c) + size);
		if (!c)
			return NULL;
		c->size = size;
		c->next = a->chunks;
		a->chunks = c;
		a->left = size;
	}
	a->left -= n;
	return c->data + (c->size - a->left - n);
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return arena_alloc(a, bytes);
}

char *arena_strdup(struct arena *a, const char *s, size_t n)
{
	char *copy = arena_alloc(a, n + 1);

	if (copy && n)
		memcpy(copy, s, n);
	return copy;
}

void arena_done(struct arena *a)
{
	struct arena_chunk *c = a->chunks;

	while (c) {
		struct arena_chunk *next = c->next;

		free(c);
		c = next;
	}
	*a = (struct arena){0};
}
