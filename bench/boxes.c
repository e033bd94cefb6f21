/*
 * Many boxes at once: `boxes COUNT PREFIX IMAGE [STORAGE]`. As many processes as boxes wait at a
 * gate; then each makes its box and runs one command in it. Prints the microseconds from the gate
 * to the last answer. The boxes stay.
 */
#include "cove.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static int make_and_ask(const char *name, const char *image, const char *storage)
{
	struct cove_box_options options = {
		.size = sizeof(options), .name = name, .image = image, .storage = storage};
	struct cove_command command = {
		.size = sizeof(command), .line = "echo ready", .shell = "default"};
	struct cove_result result = {0};
	struct cove_error err = {0};
	struct cove_box *box;
	struct cove *cove;
	int r = cove_new(&cove, NULL, &err);

	if (r >= 0)
		r = cove_create(cove, &options, &box, &err);
	if (r >= 0)
		r = cove_run(box, &command, &result, &err);
	if (r < 0)
		fprintf(stderr, "boxes: %s: %s\n", name, err.message);
	else if (result.out_len != 6 || memcmp(result.out, "ready\n", 6) != 0)
		r = -1;
	return r < 0 ? 1 : 0;
}

/* A child that waits until the gate's write end is closed. */
static void child(int gate, const char *prefix, int number, char **what)
{
	char name[64], byte;

	snprintf(name, sizeof(name), "%s-%d", prefix, number);
	if (read(gate, &byte, 1) != 0)
		_exit(1);
	_exit(make_and_ask(name, what[0], what[1]));
}

int main(int argc, char **argv)
{
	int gate[2], count, failed = 0, status;
	uint64_t start;

	if (argc < 4 || argc > 5 || (count = atoi(argv[1])) <= 0 || pipe(gate) < 0)
		return 2;
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			close(gate[1]);
			child(gate[0], argv[2], i, argv + 3);
		}
	}
	start = now_us();
	close(gate[1]);
	while (wait(&status) > 0)
		failed += status != 0;
	printf("%llu\n", (unsigned long long)(now_us() - start));
	return failed ? 1 : 0;
}
