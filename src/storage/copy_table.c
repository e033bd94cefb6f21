/* What a copy has already: a hash of inodes in a memory file; see copy_parts.h. */
#include "storage/copy_parts.h"

#include "base/limits_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST_CAP = 1024 };

static uint64_t slot_of(uint64_t ino, uint64_t cap)
{
	return (ino * 0x9e3779b97f4a7c15ull) >> 20 & (cap - 1);
}

static struct copy_entry *find_slot(const struct copy_table *t, uint64_t ino)
{
	uint64_t i = slot_of(ino, t->cap);

	while (t->slots[i].ino != 0 && t->slots[i].ino != ino)
		i = (i + 1) & (t->cap - 1);
	return &t->slots[i];
}

static int map_slots(struct copy_table *t, uint64_t cap)
{
	size_t bytes = cap * sizeof(struct copy_entry);
	void *p;

	if (ftruncate(t->fd, (off_t)bytes) < 0)
		return -errno;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	t->slots = p;
	t->cap = cap;
	return 0;
}

int copy_table_open(struct copy_table *t, int fd)
{
	off_t bytes = lseek(fd, 0, SEEK_END);
	uint64_t cap;
	int r;

	if (bytes < 0)
		return -errno;
	cap = (uint64_t)bytes / sizeof(struct copy_entry);
	*t = (struct copy_table){.fd = fd};
	r = map_slots(t, cap ? cap : FIRST_CAP);
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < t->cap; i++)
		t->count += t->slots[i].ino != 0;
	return 0;
}

void copy_table_close(struct copy_table *t)
{
	if (t->slots)
		munmap(t->slots, t->cap * sizeof(struct copy_entry));
	t->slots = NULL;
}

struct copy_entry *copy_table_find(const struct copy_table *t, uint64_t ino)
{
	struct copy_entry *e = find_slot(t, ino);

	return e->ino ? e : NULL;
}

static int grow(struct copy_table *t)
{
	uint64_t cap = t->cap;
	struct copy_entry *old = malloc(cap * sizeof(*old));
	int r;

	if (!old)
		return -ENOMEM;
	memcpy(old, t->slots, cap * sizeof(*old));
	copy_table_close(t);
	r = map_slots(t, cap * 2);
	if (r == 0) {
		memset(t->slots, 0, t->cap * sizeof(*t->slots));
		for (uint64_t i = 0; i < cap; i++)
			if (old[i].ino)
				*find_slot(t, old[i].ino) = old[i];
	}
	free(old);
	return r;
}

int copy_table_put(struct copy_table *t, const struct copy_entry *e)
{
	struct copy_entry *slot = find_slot(t, e->ino);
	int r;

	if (slot->ino == 0) {
		if (t->count >= COPY_NAMES_MAX)
			return -E2BIG;
		if ((t->count + 1) * 4 > t->cap * 3) {
			r = grow(t);
			if (r < 0)
				return r;
			slot = find_slot(t, e->ino);
		}
		t->count++;
	}
	*slot = *e;
	return 0;
}
