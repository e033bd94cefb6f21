/*
 * Makes and removes boxes in one process, for tools/churn.
 *
 *	churn ROUNDS IMAGE
 *
 * Each round is a one-shot box that runs `true`, or every tenth a kept one that runs a shell line
 * and is removed. Prints its own open descriptors and resident memory after a first warm part and
 * at the end, so that what libcove itself leaks shows.
 */
#include "cove.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 50, KEPT_EVERY = 10 };

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -1; /* the directory's own */

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2; /* "." and ".." */
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static int one_box(struct cove *cove, const char *image, bool kept, struct cove_error *err)
{
	static const char *const argv[] = {"true", NULL};
	struct cove_box_options options = {
		.size = sizeof(options), .image = image, .one_shot = !kept};
	struct cove_command command = {.size = sizeof(command), .argv = argv};
	struct cove_result result;
	struct cove_box *box;
	char name[64];
	int r = cove_create(cove, &options, &box, err);

	if (r < 0)
		return r;
	if (kept)
		command = (struct cove_command){
			.size = sizeof(command), .line = "echo x > y", .shell = "default"};
	r = cove_run(box, &command, &result, err);
	if (r == 0)
		cove_result_free(&result);
	snprintf(name, sizeof(name), "%s", cove_box_name(box));
	cove_box_free(box);
	return r == 0 && kept ? cove_remove(cove, name, true, err) : r;
}

int main(int argc, char **argv)
{
	struct cove_error err = {0};
	struct cove *cove;
	int rounds = argc == 3 ? atoi(argv[1]) : 0, r;

	if (rounds <= WARM) {
		fprintf(stderr, "usage: churn ROUNDS IMAGE (more than %d rounds)\n", WARM);
		return 2;
	}
	r = cove_new(&cove, NULL, &err);
	for (int i = 0; i < rounds && r >= 0; i++) {
		if (i == WARM || i == rounds - 1)
			printf("files %d resident %ld\n", open_files(), resident_kib());
		r = one_box(cove, argv[2], i % KEPT_EVERY == KEPT_EVERY - 1, &err);
	}
	if (r < 0) {
		fprintf(stderr, "churn: %s\n", err.message);
		return 1;
	}
	cove_free(cove);
	return 0;
}
