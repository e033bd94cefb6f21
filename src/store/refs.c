/* Collecting references to layers; see refs.h. */
#include "store/refs.h"

#include "base/limits.h"
#include "store/image.h"
#include "store/pins.h"
#include "store/record.h"
#include "store/rollback.h"
#include "store/snapshot.h"
#include "store/workspace_stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int refs_add(struct refs *r, const char *id)
{
	if (r->count == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 64;
		char **ids = cap > REFS_MAX ? NULL : realloc(r->ids, cap * sizeof(*ids));

		if (!ids)
			return cap > REFS_MAX ? -E2BIG : -ENOMEM;
		r->ids = ids;
		r->cap = cap;
	}
	r->ids[r->count] = strdup(id);
	return r->ids[r->count] ? (r->count++, 0) : -ENOMEM;
}

void refs_done(struct refs *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->ids[i]);
	free(r->ids);
	*r = (struct refs){0};
}

int refs_collect(struct state *s, struct refs *ret, struct err *e)
{
	int r;

	*ret = (struct refs){0};
	r = image_refs(s, ret, e);
	if (r == 0)
		r = record_refs(s, ret, e);
	if (r == 0)
		r = snapshot_refs(s, ret, e);
	if (r == 0)
		r = layer_pins_refs(s, ret, e);
	if (r == 0)
		r = workspace_refs(s, ret, e);
	if (r == 0)
		r = rollback_refs(s, ret, e);
	if (r < 0) {
		refs_done(ret);
		return r;
	}
	if (ret->count)
		qsort(ret->ids, ret->count, sizeof(*ret->ids), compare);
	return 0;
}

/* The first that is not less. */
static size_t first_of(const struct refs *r, const char *id)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(r->ids[mid], id) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

size_t refs_count(const struct refs *r, const char *id)
{
	size_t first = first_of(r, id), i = first;

	while (i < r->count && strcmp(r->ids[i], id) == 0)
		i++;
	return i - first;
}

bool refs_has(const struct refs *r, const char *id)
{
	size_t i = first_of(r, id);

	return i < r->count && strcmp(r->ids[i], id) == 0;
}
