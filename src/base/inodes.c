/* Files with several names: a hash table with open addressing; see inodes.h. */
#include "base/inodes.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct inode_slot {
	dev_t dev;
	ino_t ino;
	char *name; /* owned; NULL: free */
};

void inodes_done(struct inodes *m)
{
	for (size_t i = 0; i < m->cap; i++)
		free(m->slots[i].name);
	free(m->slots);
	*m = (struct inodes){0};
}

/* Its slot, or the free one where it would be. There is always a free one. */
static struct inode_slot *find_slot(const struct inodes *m, dev_t dev, ino_t ino)
{
	size_t at = (size_t)(((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15u >> 32);

	for (;; at++) {
		struct inode_slot *s = &m->slots[at & (m->cap - 1)];

		if (!s->name || (s->ino == ino && s->dev == dev))
			return s;
	}
}

const char *inodes_find(const struct inodes *m, dev_t dev, ino_t ino)
{
	return m->cap ? find_slot(m, dev, ino)->name : NULL;
}

static int grow(struct inodes *m)
{
	struct inodes bigger = {.cap = m->cap ? m->cap * 2 : 64};

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].name)
			*find_slot(&bigger, m->slots[i].dev, m->slots[i].ino) = m->slots[i];
	free(m->slots);
	m->slots = bigger.slots;
	m->cap = bigger.cap;
	return 0;
}

int inodes_add(struct inodes *m, dev_t dev, ino_t ino, const char *name)
{
	size_t len = strlen(name) + 1;
	char *copy;

	if (m->count >= INODES_MAX || m->text + len > INODES_TEXT_MAX)
		return -ENOSPC;
	if (2 * (m->count + 1) > m->cap && grow(m) < 0)
		return -ENOMEM;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	*find_slot(m, dev, ino) = (struct inode_slot){.dev = dev, .ino = ino, .name = copy};
	m->count++;
	m->text += len;
	return 0;
}
