/*
 * Maps of host directories; see share.h.
 *
 * A map is one to one in both directions, so the stored id that would be the box user's (the
 * directory's owner takes its place) is shown as the last box id, which nothing else uses: it may
 * have been written through a mount of a directory that itself belongs to an id of the range. There
 * the two change places.
 */
#include "storage/share.h"

#include <stdio.h>
#include <string.h>

enum { LAST_ID = IDS_COUNT - 1 };

struct map_text {
	char *text;
	size_t len;
};

static void map_add(struct map_text *m, uint32_t stored, uint32_t shown, uint32_t count)
{
	int n;

	if (count == 0)
		return;
	n = snprintf(m->text + m->len, SHARE_MAP_TEXT - m->len, "%u %u %u\n", stored, shown, count);
	m->len += (size_t)n;
}

static void map_outside_owner(struct map_text *m, uint32_t base, uint32_t owner)
{
	map_add(m, SHARE_FIRST, base, IDS_USER);
	map_add(m, owner, base + IDS_USER, 1);
	map_add(m, SHARE_FIRST + IDS_USER + 1, base + IDS_USER + 1, LAST_ID - IDS_USER - 1);
	map_add(m, SHARE_FIRST + IDS_USER, base + LAST_ID, 1);
}

/* The owner is the box's user, and the box id that it was stands for the user's place. */
static void map_inside_owner(struct map_text *m, uint32_t base, uint32_t owner)
{
	uint32_t id = owner - SHARE_FIRST;
	uint32_t low = id < IDS_USER ? id : IDS_USER, high = id < IDS_USER ? IDS_USER : id;

	map_add(m, SHARE_FIRST, base, low);
	map_add(m, owner, base + IDS_USER, 1);
	if (id != IDS_USER) {
		map_add(m, SHARE_FIRST + IDS_USER, base + id, 1);
		map_add(m, SHARE_FIRST + low + 1, base + low + 1, high - low - 1);
	}
	map_add(m, SHARE_FIRST + high + 1, base + high + 1, LAST_ID - high);
}

/* All ids that are neither stored nor shown by the lines above, as themselves. */
static void map_others(struct map_text *m, uint32_t base, uint32_t owner)
{
	const struct {
		uint32_t first, count;
	} taken[] = {{owner, 1}, {base, IDS_COUNT}, {SHARE_FIRST, IDS_COUNT}};
	const size_t n = sizeof(taken) / sizeof(taken[0]);
	uint32_t next = 0, end;

	while (next < UINT32_MAX) { /* the very last id means none */
		uint32_t after = next;

		end = UINT32_MAX;
		for (size_t i = 0; i < n; i++) {
			if (next - taken[i].first < taken[i].count)
				after = taken[i].first + taken[i].count;
			else if (taken[i].first > next && taken[i].first < end)
				end = taken[i].first;
		}
		if (after == next) {
			map_add(m, next, next, end - next);
			after = end;
		}
		next = after;
	}
}

void share_map_format(enum share_kind kind, uint32_t base, uint32_t owner, char ret[SHARE_MAP_TEXT])
{
	struct map_text m = {.text = ret};

	ret[0] = 0;
	if (owner - SHARE_FIRST < IDS_COUNT)
		map_inside_owner(&m, base, owner);
	else
		map_outside_owner(&m, base, owner);
	if (kind == SHARE_GIDS)
		map_others(&m, base, owner);
}

bool share_is_box_id(uint32_t id)
{
	uint32_t slot = id >> 16;

	return (slot >= IDS_SLOT_FIRST && slot <= IDS_SLOT_LAST) || slot == SHARE_FIRST >> 16;
}
