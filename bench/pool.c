/*
 * What the pool itself costs: `pool HOME ROUNDS`, as root, with a pool in that state directory.
 * Prints lines of a name and microseconds per operation, median and 99th percentile.
 */
#include "storage/pool.h"
#include "base/fd.h"
#include "base/rand.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { ROUNDS_MAX = 10000, DIRTY = 8 << 20 };

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print(const char *what, uint64_t *times, int count)
{
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("%s\t%llu\t%llu\n", what, (unsigned long long)times[count / 2],
	       (unsigned long long)times[count * 99 / 100]);
}

static void fail(const struct err *e)
{
	fprintf(stderr, "pool: %s\n", e->msg);
	exit(1);
}

static void write_much(int dir_fd)
{
	static char bytes[1 << 20];
	autoclose int fd =
		openat(dir_fd, "upper/f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	rand_bytes(bytes, sizeof(bytes));
	for (size_t n = 0; n < DIRTY && fd >= 0; n += sizeof(bytes))
		if (write(fd, bytes, sizeof(bytes)) < 0)
			return;
}

int main(int argc, char **argv)
{
	static uint64_t made[ROUNDS_MAX], gone[ROUNDS_MAX], clean[ROUNDS_MAX], dirty[ROUNDS_MAX],
		synced[ROUNDS_MAX], dropped[ROUNDS_MAX];
	const struct ids ids = {.kind = IDS_RANGE};
	int rounds = argc == 3 ? atoi(argv[2]) : 0,
	    home = argc == 3 ? fd_open(argv[1], O_RDONLY) : -1;
	struct err e = {0};

	if (home < 0 || rounds <= 0 || rounds > ROUNDS_MAX)
		return 2;
	for (int i = 0; i < rounds; i++) {
		char dir[32] = "bench-", layer[3][33];
		struct volume v = VOLUME_NONE;
		struct storage_place p = {.home_fd = home};
		uint64_t t;

		rand_hex(dir + 6, 8);
		for (int k = 0; k < 3; k++)
			rand_hex(layer[k], 16);
		if (mkdirat(home, dir, 0700) < 0)
			return 1;
		p.dir_fd = openat(home, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		t = now_us();
		if (storage_pool.open(&p, &ids,
				      &(struct storage_size){.bytes = 1 << 30, .throw_away = true},
				      &v, &e) < 0)
			fail(&e);
		made[i] = now_us() - t;
		t = now_us();
		if (pool_snapshot(home, &p, layer[0], &e) < 0)
			fail(&e);
		clean[i] = now_us() - t;
		write_much(v.stat_fd);
		t = now_us();
		if (pool_snapshot(home, &p, layer[1], &e) < 0)
			fail(&e);
		dirty[i] = now_us() - t;
		write_much(v.stat_fd);
		if (pool_sync(home, &e) < 0)
			fail(&e);
		t = now_us();
		if (pool_snapshot(home, &p, layer[2], &e) < 0)
			fail(&e);
		synced[i] = now_us() - t;
		t = now_us();
		for (int k = 0; k < 3; k++)
			if (pool_layer_remove(home, layer[k], &e) < 0)
				fail(&e);
		dropped[i] = (now_us() - t) / 3;
		volume_done(&v);
		t = now_us();
		if (storage_delete(home, home, dir, &ids, &e) < 0)
			fail(&e);
		gone[i] = now_us() - t;
		close(p.dir_fd);
	}
	print("make a volume with its limit", made, rounds);
	print("snapshot, nothing written", clean, rounds);
	print("snapshot, 8 MiB written just before", dirty, rounds);
	print("snapshot, 8 MiB written and synced before", synced, rounds);
	print("remove a snapshot", dropped, rounds);
	print("remove a volume", gone, rounds);
	return 0;
}
