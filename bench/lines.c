/*
 * How long a line takes in a live box's shell, through libcove: `lines BOX COUNT LINE [GAP_US]`.
 * Prints one line of nanoseconds, unsorted. With a gap it waits that long before each: a box that
 * answers now and then, not one that is always awake.
 */
#include "cove.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int one(struct cove_box *box, const char *line, uint64_t *ret_ns, struct cove_error *err)
{
	struct cove_command command = {.size = sizeof(command), .line = line, .shell = "bench"};
	struct cove_result result;
	uint64_t start = now_ns();
	int r = cove_run(box, &command, &result, err);

	*ret_ns = now_ns() - start;
	if (r >= 0)
		cove_result_free(&result);
	return r;
}

int main(int argc, char **argv)
{
	struct cove_error err = {0};
	struct cove_box *box;
	struct cove *cove;
	uint64_t *times;
	int count, r;

	if (argc < 4 || argc > 5 || (count = atoi(argv[2])) <= 0)
		return 2;
	times = calloc((size_t)count, sizeof(*times));
	if (!times)
		return 1;
	r = cove_new(&cove, NULL, &err);
	if (r >= 0)
		r = cove_find(cove, argv[1], &box, &err);
	for (int i = -10; r >= 0 && i < count; i++) { /* the first ten warm up */
		if (argc == 5)
			usleep((useconds_t)atoi(argv[4]));
		r = one(box, argv[3], &times[i < 0 ? 0 : i], &err);
	}
	if (r < 0) {
		fprintf(stderr, "lines: %s\n", err.message);
		return 1;
	}
	for (int i = 0; i < count; i++)
		printf("%llu%c", (unsigned long long)times[i], i + 1 < count ? ' ' : '\n');
	free(times);
	cove_box_free(box);
	cove_free(cove);
	return 0;
}
