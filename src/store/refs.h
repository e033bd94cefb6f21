/*
 * Which layers are in use: by images, by boxes, and by whatever else stands on layers. Read from
 * the records themselves, which are the truth; whoever adds a kind of thing that refers to layers
 * adds it to refs_collect.
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>

struct refs {
	char **ids; /* owned, sorted once collected; with repetitions: one per reference */
	size_t count, cap;
};

/* The caller holds the layers' lock. An error where a single reference cannot be read: the layer
 * behind it would look unused. Free with refs_done. */
int refs_collect(struct state *s, struct refs *ret, struct err *e);
void refs_done(struct refs *r);

/* For those who contribute. -ENOMEM, or -E2BIG beyond REFS_MAX. */
int refs_add(struct refs *r, const char *id);

bool refs_has(const struct refs *r, const char *id);
size_t refs_count(const struct refs *r, const char *id);
