/*
 * Memory for credentials; see locked.h.
 *
 * How it works
 *
 * A process may lock only so much memory (RLIMIT_MEMLOCK), and locking is by the page. So small
 * values share pools of POOL_BYTES, cut into units; a value takes as many units in a row as it
 * needs. A large one gets pages of its own. Every page is locked where the limit allows, left out
 * of core dumps, and empty in a child (MADV_WIPEONFORK): a command that provides one secret must
 * not see the others. A value is wiped when it is given back; a pool whose last value went is
 * unmapped, but for the last one.
 *
 * The pools are the process's. What a request brings comes in a thread of a loop, and its answer is
 * written in another: they take and give back under one lock.
 */
#include "base/locked.h"

#include "base/err.h"
#include "base/list.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POOL_BYTES = 16384, UNIT = 64, UNITS = POOL_BYTES / UNIT, SHARED_MAX = POOL_BYTES / 4 };
enum { UNIT_FREE, UNIT_FIRST, UNIT_NEXT }; /* of a value */

struct pool {
	uint8_t *pages; /* owned, mapped */
	size_t bytes;
	bool locked;
	bool alone;	     /* one large value */
	uint8_t used[UNITS]; /* by unit; not for a large one */
	unsigned count;	     /* values in it */
	struct pool *next;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;
static bool some_unlocked; /* ever */

static struct pool *pool_new(size_t bytes, bool alone)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->pages == MAP_FAILED) {
		free(p);
		return NULL;
	}
	p->bytes = bytes;
	p->alone = alone;
	p->locked = mlock(p->pages, bytes) == 0;
	some_unlocked = some_unlocked || !p->locked;
	madvise(p->pages, bytes, MADV_DONTDUMP);
	madvise(p->pages, bytes, MADV_WIPEONFORK);
	p->next = pools;
	pools = p;
	return p;
}

static struct pool *pool_find(const uint8_t *data)
{
	for (struct pool *p = pools; p; p = p->next)
		if (data >= p->pages && data < p->pages + p->bytes)
			return p;
	return NULL;
}

/* Units in a row, or NULL. */
static uint8_t *pool_take(struct pool *p, size_t want)
{
	size_t run = 0;

	for (size_t i = 0; i < UNITS; i++) {
		run = p->used[i] ? 0 : run + 1;
		if (run == want) {
			memset(&p->used[i + 1 - want], UNIT_NEXT, want);
			p->used[i + 1 - want] = UNIT_FIRST;
			p->count++;
			return p->pages + (i + 1 - want) * UNIT;
		}
	}
	return NULL;
}

static void *take(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), units = n ? (n + UNIT - 1) / UNIT : 1;
	uint8_t *data = NULL;
	struct pool *p;

	if (n > SHARED_MAX) {
		p = n > SIZE_MAX - page ? NULL : pool_new((n + page - 1) / page * page, true);
		if (!p)
			return NULL;
		p->count = 1;
		return p->pages;
	}
	for (p = pools; p && !data; p = p->next)
		data = p->alone ? NULL : pool_take(p, units);
	if (data)
		return data;
	p = pool_new(POOL_BYTES, false);
	return p ? pool_take(p, units) : NULL;
}

void *locked_alloc(size_t n)
{
	void *data;

	pthread_mutex_lock(&pools_lock);
	data = take(n);
	pthread_mutex_unlock(&pools_lock);
	return data;
}

static void give_back(uint8_t *data)
{
	struct pool *p = pool_find(data);
	bool is_last = true;
	size_t unit;

	ASSERT(p);
	unit = (size_t)(data - p->pages) / UNIT;
	/* The whole of the value that begins there: its owner may have made it shorter. */
	ASSERT(p->alone || p->used[unit] == UNIT_FIRST);
	if (!p->alone)
		do {
			explicit_bzero(p->pages + unit * UNIT, UNIT);
			p->used[unit++] = UNIT_FREE;
		} while (unit < UNITS && p->used[unit] == UNIT_NEXT);
	/* The only pool for small values stays: the next request takes and gives back as many
	 * again. */
	for (const struct pool *other = pools; other; other = other->next)
		is_last = is_last && (other == p || other->alone);
	if (--p->count > 0 || (!p->alone && is_last))
		return;
	list_remove(&pools, p);
	explicit_bzero(p->pages, p->bytes);
	munmap(p->pages, p->bytes);
	free(p);
}

void locked_free(void *data)
{
	if (!data)
		return;
	pthread_mutex_lock(&pools_lock);
	give_back(data);
	pthread_mutex_unlock(&pools_lock);
}

bool locked_is(const void *data)
{
	const struct pool *p;
	bool is;

	pthread_mutex_lock(&pools_lock);
	p = data ? pool_find(data) : NULL;
	is = p && p->locked;
	pthread_mutex_unlock(&pools_lock);
	return is;
}

bool locked_always(void)
{
	bool always;

	pthread_mutex_lock(&pools_lock);
	always = !some_unlocked;
	pthread_mutex_unlock(&pools_lock);
	return always;
}
