/*
 * Names and their synthetic addresses; see net_parts.h.
 *
 * The addresses are those that are set aside for measuring networks (198.18.0.0/15), so no host of
 * any use has one. They are counted up from 198.18.0.1: the number of a name is its address. A
 * client that got one and comes much later still means the same name. The table of hashes is never
 * more than half full.
 */
#include "base/limits.h"
#include "init/net_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 0xc6120001u, NET_MASK = 0xfffe0000u, SLOTS_FIRST = 64 };

void names_init(struct names *n)
{
	*n = (struct names){0};
}

bool names_is_synthetic(uint32_t addr)
{
	return (addr & NET_MASK) == (FIRST & NET_MASK);
}

const char *names_find(const struct names *n, uint32_t addr)
{
	return names_is_synthetic(addr) && addr - FIRST < n->count ? n->texts[addr - FIRST] : NULL;
}

static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h ^ h >> 15;
}

/* Where the name is, or the free slot where it belongs. */
static uint16_t *find_slot(const struct names *n, const char *name)
{
	uint32_t at = hash(name) & (n->slot_count - 1);

	while (n->slots[at] && strcmp(n->texts[n->slots[at] - 1], name) != 0)
		at = (at + 1) & (n->slot_count - 1);
	return &n->slots[at];
}

/* Room for one more in both tables. */
static int make_room(struct names *n)
{
	uint32_t count = n->slot_count ? 2 * n->slot_count : SLOTS_FIRST;
	uint16_t *slots;
	char **texts;

	if (n->slot_count && 2 * (n->count + 1) <= n->slot_count)
		return 0;
	texts = realloc(n->texts, count / 2 * sizeof(*texts));
	if (!texts)
		return -ENOMEM;
	n->texts = texts;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(n->slots);
	n->slots = slots;
	n->slot_count = count;
	for (uint32_t i = 0; i < n->count; i++)
		*find_slot(n, n->texts[i]) = (uint16_t)(i + 1);
	return 0;
}

int names_give(struct names *n, const char *name, uint32_t *ret_addr)
{
	uint16_t *slot = n->slot_count ? find_slot(n, name) : NULL;
	int r;

	if (!slot || !*slot) {
		char *text;

		if (n->count >= INIT_NAMES_MAX)
			return -ENOSPC;
		r = make_room(n);
		if (r < 0)
			return r;
		text = strdup(name);
		if (!text)
			return -ENOMEM;
		slot = find_slot(n, name);
		n->texts[n->count++] = text;
		*slot = (uint16_t)n->count;
	}
	*ret_addr = FIRST + *slot - 1u;
	return 0;
}
