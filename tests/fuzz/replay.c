/*
 * Fuzzing without libFuzzer: every file of a corpus, then mutations of them that are the same on
 * every machine.
 *
 *	replay DIR [COUNT]	the corpus as it is, then COUNT mutations of each file (TAP)
 *	replay FILE K		mutation K of that file alone; 0 is the file itself
 *
 * The runs are in a child; when it dies the parent names the input, and the second form gives it to
 * a debugger. Mutations are few and blind: they keep the corpus honest in `make test`, while
 * `make fuzz` searches.
 */
#include "fuzz.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SEED_MAX = 1 << 20, GROWTH = 4096, FILES_MAX = 4096 };

struct at_work {
	char file[512];
	unsigned mutation, runs;
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t seed_of(const uint8_t *p, size_t n, unsigned k)
{
	uint64_t h = 0xcbf29ce484222325u ^ k;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h ? h : 1;
}

static size_t pick(uint64_t *state, size_t below)
{
	return below ? (size_t)(next_random(state) % below) : 0;
}

/* Copies a stretch of the input to another place, which lengthens it. */
static size_t copy_stretch(uint8_t *p, size_t n, uint64_t *state)
{
	size_t from = pick(state, n), to = pick(state, n + 1);
	size_t len = 1 + pick(state, n - from < 64 ? n - from : 64);
	uint8_t stretch[65];

	memcpy(stretch, p + from, len);
	memmove(p + to + len, p + to, n - to);
	memcpy(p + to, stretch, len);
	return n + len;
}

static size_t drop_stretch(uint8_t *p, size_t n, uint64_t *state)
{
	size_t from = pick(state, n), len = 1 + pick(state, n - from);

	memmove(p + from, p + from + len, n - from - len);
	return n - len;
}

static void set_bytes(uint8_t *p, size_t n, uint64_t *state)
{
	static const uint8_t odd[] = {0,   1,	0x7f, 0x80, 0xff, '\n', ':',
				      '/', '.', '-',  ' ',  13,	  12};
	size_t at = pick(state, n);

	switch (pick(state, 3)) {
	case 0:
		p[at] ^= (uint8_t)(1u << pick(state, 8));
		break;
	case 1:
		p[at] = odd[pick(state, sizeof(odd))];
		break;
	default:
		p[at] = (uint8_t)next_random(state);
	}
}

/* p has room for n + GROWTH bytes. Mutation 0 changes nothing. */
static size_t mutate(uint8_t *p, size_t n, unsigned k)
{
	uint64_t state = seed_of(p, n, k);
	size_t start = n, steps = k ? 1 + pick(&state, 6) : 0;

	while (steps-- > 0 && n > 0) {
		size_t what = pick(&state, 8);

		if (what == 0 && n + 65 < start + GROWTH)
			n = copy_stretch(p, n, &state);
		else if (what == 1)
			n = drop_stretch(p, n, &state);
		else
			set_bytes(p, n, &state);
	}
	return n;
}

/* In a buffer of exactly its size, so that a sanitizer sees a read beyond the end. */
static void run_one(const uint8_t *seed, size_t n, unsigned k)
{
	uint8_t *room = malloc(n + GROWTH), *exact;

	MUST(room);
	memcpy(room, seed, n);
	n = mutate(room, n, k);
	exact = malloc(n ? n : 1);
	MUST(exact);
	memcpy(exact, room, n);
	free(room);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
}

static int run_file(int dir_fd, const char *name, unsigned first, unsigned last, struct at_work *w)
{
	char *seed = NULL;
	size_t n = 0;
	int r = fd_read_file(dir_fd, name, SEED_MAX, &seed, &n);

	if (r < 0) {
		fprintf(stderr, "%s: %s\n", name, strerror(-r));
		return r;
	}
	snprintf(w->file, sizeof(w->file), "%s", name);
	for (unsigned k = first; k <= last; k++) {
		w->mutation = k;
		w->runs++;
		run_one((const uint8_t *)seed, n, k);
	}
	free(seed);
	return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_seed(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static int run_dir(const char *dir, unsigned count, struct at_work *w)
{
	autoclose int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **names;
	int n = scandir(dir, &names, is_seed, by_name), r = 0;

	if (dir_fd < 0 || n < 0) {
		fprintf(stderr, "%s: %s\n", dir, strerror(errno));
		return -ENOENT;
	}
	for (int i = 0; i < n && i < FILES_MAX && r == 0; i++)
		r = run_file(dir_fd, names[i]->d_name, 0, count, w);
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return n > 0 ? r : -ENOENT;
}

static int run_in_child(const char *dir, unsigned count)
{
	struct at_work *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	if (w == MAP_FAILED)
		return 1;
	pid = fork();
	if (pid == 0)
		exit(run_dir(dir, count, w) < 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	if (status != 0)
		printf("# %s, mutation %u\n", w->file, w->mutation);
	printf("%s 1 - %u inputs\n1..1\n", status ? "not ok" : "ok", w->runs);
	return status != 0;
}

int main(int argc, char **argv)
{
	unsigned number = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct at_work w = {0};
	struct stat st;

	if (argc < 2 || stat(argv[1], &st) < 0) {
		fprintf(stderr, "usage: %s DIR [COUNT] | FILE K\n", argv[0]);
		return 2;
	}
	if (S_ISDIR(st.st_mode))
		return run_in_child(argv[1], number);
	return run_file(AT_FDCWD, argv[1], number, number, &w) < 0;
}
