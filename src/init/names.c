/*
 * Names and their synthetic addresses; see net_parts.h.
 *
 * The addresses are those that are set aside for measuring networks (198.18.0.0/15), so no host of
 * any use has one. They are counted up from 198.18.0.1: the number of a name is its address. A
 * client that got one and comes much later still means the same name, unless so many others were
 * asked for meanwhile that the table was full: then the name that was used least recently gives its
 * address away, if nobody can rightly have it in use: no connection to it is open, and
 * INIT_NAME_MS passed, which is more than the answer may be remembered.
 *
 *	slots   a hash of the names; those of one slot are a chain
 *	used    a list through all names without a connection, the oldest use first
 *
 * The hash has at least as many slots as there are names.
 */
#include "base/limits.h"
#include "init/net_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 0xc6120001u, NET_MASK = 0xfffe0000u, SLOTS_FIRST = 64 };

/* Numbers are stored as number + 1 everywhere; 0 is none. */
struct names_entry {
	char *text; /* owned */
	uint64_t used_ms;
	uint16_t next;	       /* of its chain */
	uint16_t older, newer; /* in the list */
	uint16_t conns;	       /* open; then it is not in the list */
};

void names_init(struct names *n, uint32_t max)
{
	*n = (struct names){.max = max};
}

void names_done(struct names *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		free(n->entries[i].text);
	free(n->entries);
	free(n->slots);
	*n = (struct names){0};
}

bool names_is_synthetic(uint32_t addr)
{
	return (addr & NET_MASK) == (FIRST & NET_MASK);
}

const char *names_find(const struct names *n, uint32_t addr)
{
	return names_is_synthetic(addr) && addr - FIRST < n->count ? n->entries[addr - FIRST].text
								   : NULL;
}

/* ---- the list ---- */

static struct names_entry *entry_of(const struct names *n, uint16_t at)
{
	return &n->entries[at - 1];
}

static void list_remove(struct names *n, uint16_t at)
{
	struct names_entry *e = entry_of(n, at);

	*(e->older ? &entry_of(n, e->older)->newer : &n->oldest) = e->newer;
	*(e->newer ? &entry_of(n, e->newer)->older : &n->newest) = e->older;
	e->older = e->newer = 0;
}

static void list_add(struct names *n, uint16_t at, uint64_t now_ms)
{
	struct names_entry *e = entry_of(n, at);

	e->used_ms = now_ms;
	e->older = n->newest;
	*(n->newest ? &entry_of(n, n->newest)->newer : &n->oldest) = at;
	n->newest = at;
}

void names_hold(struct names *n, uint32_t addr)
{
	uint16_t at = (uint16_t)(addr - FIRST + 1);

	if (entry_of(n, at)->conns++ == 0)
		list_remove(n, at);
}

void names_release(struct names *n, uint32_t addr, uint64_t now_ms)
{
	uint16_t at = (uint16_t)(addr - FIRST + 1);

	if (--entry_of(n, at)->conns == 0)
		list_add(n, at, now_ms);
}

/* ---- the hash ---- */

static uint16_t *slot_of(const struct names *n, const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return &n->slots[(h ^ h >> 15) & (n->slot_count - 1)];
}

static void chain_add(struct names *n, uint16_t at)
{
	uint16_t *slot = slot_of(n, entry_of(n, at)->text);

	entry_of(n, at)->next = *slot;
	*slot = at;
}

static void chain_remove(struct names *n, uint16_t at)
{
	uint16_t *link = slot_of(n, entry_of(n, at)->text);

	while (*link != at)
		link = &entry_of(n, *link)->next;
	*link = entry_of(n, at)->next;
}

/* Room for one more in both tables. */
static int make_room(struct names *n)
{
	uint32_t count = n->slot_count ? 2 * n->slot_count : SLOTS_FIRST;
	struct names_entry *entries;
	uint16_t *slots;

	if (n->count < n->slot_count)
		return 0;
	entries = realloc(n->entries, count * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	n->entries = entries;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(n->slots);
	n->slots = slots;
	n->slot_count = count;
	for (uint32_t i = 0; i < n->count; i++)
		chain_add(n, (uint16_t)(i + 1));
	return 0;
}

/* ---- a name's address ---- */

/* Where a new name goes: a number of its own, or that of the oldest, which is taken out. */
static int take_number(struct names *n, uint64_t now_ms, uint16_t *ret)
{
	int r;

	if (n->count < n->max) {
		r = make_room(n);
		if (r < 0)
			return r;
		n->entries[n->count] = (struct names_entry){0};
		*ret = (uint16_t)++n->count;
		return 0;
	}
	if (!n->oldest || now_ms - entry_of(n, n->oldest)->used_ms < INIT_NAME_MS)
		return -ENOSPC;
	*ret = n->oldest;
	chain_remove(n, *ret);
	list_remove(n, *ret);
	free(entry_of(n, *ret)->text);
	return 0;
}

int names_give(struct names *n, const char *name, uint64_t now_ms, uint32_t *ret_addr)
{
	uint16_t at = n->slot_count ? *slot_of(n, name) : 0;
	char *text;
	int r;

	while (at && strcmp(entry_of(n, at)->text, name) != 0)
		at = entry_of(n, at)->next;
	if (!at) {
		text = strdup(name);
		r = text ? take_number(n, now_ms, &at) : -ENOMEM;
		if (r < 0) {
			free(text);
			return r;
		}
		entry_of(n, at)->text = text;
		chain_add(n, at);
		list_add(n, at, now_ms);
	} else if (entry_of(n, at)->conns == 0) {
		list_remove(n, at);
		list_add(n, at, now_ms);
	}
	*ret_addr = FIRST + at - 1u;
	return 0;
}
