/* A box of its own: create it, run a command, put a file in, get one out, remove it.
 *	cc hello.c $(pkg-config --cflags --libs cove) -o hello && ./hello [IMAGE] */
#include <cove.h>
#include <stdio.h>
#include <stdlib.h>

static struct cove_error err;

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "hello: %s\n", err.message);
	exit(1);
}

int main(int argc, char **argv)
{
	struct cove_box_options with = {.size = sizeof(with), .image = argc > 1 ? argv[1] : NULL};
	struct cove_command sort = {.size = sizeof(sort), .line = "sort names.txt >sorted.txt"};
	struct cove_result result;
	struct cove_box *box;
	struct cove *cove;
	void *data;
	size_t len;

	check(cove_new(&cove, NULL, &err));
	check(cove_create(cove, &with, &box, &err));
	check(cove_put_data(box, "names.txt", "otter\nheron\nbee\n", 16, 0644, &err));
	check(cove_run(box, &sort, &result, &err));
	printf("exit %d in %s\n", result.exit_code, cove_box_name(box));
	check(cove_get_data(box, "sorted.txt", 1 << 20, &data, &len, &err));
	printf("%.*s", (int)len, (char *)data);
	check(cove_remove(cove, cove_box_name(box), true, &err));
	free(data);
	cove_result_free(&result);
	cove_box_free(box);
	cove_free(cove);
	return 0;
}
