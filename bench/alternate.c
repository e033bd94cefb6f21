/*
 * Times commands side by side: every round runs each of them once, so that a change of the
 * machine's mood hits all alike. With shuffle the order differs from round to round: what one
 * leaves to the kernel to clean up is then not always paid by the same other. Prints one line of
 * microseconds per command.
 *
 *	alternate in-order|shuffle ROUNDS -- CMD ARGS... -- CMD ARGS... [-- ...]
 *
 * \-- stands for a -- of CMD's own. Output of the commands is dropped. A command that fails ends
 * the run with its number.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMANDS_MAX = 16 };

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static int run_once(char **argv, uint64_t *ret_us)
{
	posix_spawn_file_actions_t actions;
	uint64_t start;
	int status = 0, r;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	start = now_us();
	r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	if (r == 0 && waitpid(pid, &status, 0) < 0)
		r = errno;
	*ret_us = now_us() - start;
	posix_spawn_file_actions_destroy(&actions);
	return r != 0 ? -r : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* Cuts argv at each "--". Returns how many commands there are. */
static int split(char **argv, char **ret_commands[COMMANDS_MAX])
{
	int count = 0;

	for (char **a = argv; *a; a++) {
		if (strcmp(*a, "--") == 0) {
			*a = NULL;
			if (count == COMMANDS_MAX)
				return -E2BIG;
			ret_commands[count++] = a + 1;
		} else if (strcmp(*a, "\\--") == 0) {
			*a = (*a) + 1;
		}
	}
	return count;
}

/* The same sequence in every run. */
static void shuffle(int *order, int count)
{
	static uint64_t state = 88172645463325252u;

	for (int i = count - 1; i > 0; i--) {
		int j, other;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		j = (int)(state % (uint64_t)(i + 1));
		other = order[i];
		order[i] = order[j];
		order[j] = other;
	}
}

int main(int argc, char **argv)
{
	char **commands[COMMANDS_MAX];
	int order[COMMANDS_MAX], rounds, count;
	uint64_t *times;
	bool shuffled;

	if (argc < 5) {
		fputs("usage: alternate in-order|shuffle ROUNDS -- CMD ARGS... [-- CMD ARGS...]\n",
		      stderr);
		return 2;
	}
	shuffled = strcmp(argv[1], "shuffle") == 0;
	rounds = atoi(argv[2]);
	count = split(argv + 3, commands);
	times = rounds > 0 && count > 0 ? calloc((size_t)rounds * (size_t)count, sizeof(*times))
					: NULL;
	if (!times)
		return 2;
	for (int c = 0; c < count; c++)
		order[c] = c;
	for (int i = -1; i < rounds; i++) { /* the first round warms up */
		if (shuffled)
			shuffle(order, count);
		for (int k = 0; k < count; k++) {
			uint64_t us;
			int c = order[k], r = run_once(commands[c], &us);

			if (r < 0) {
				fprintf(stderr, "command %d (%s): %s\n", c, commands[c][0],
					strerror(-r));
				return 1;
			}
			if (i >= 0)
				times[c * rounds + i] = us;
		}
	}
	for (int c = 0; c < count; c++) {
		for (int i = 0; i < rounds; i++)
			printf("%llu%c", (unsigned long long)times[c * rounds + i],
			       i + 1 < rounds ? ' ' : '\n');
	}
	free(times);
	return 0;
}
