/*
 * Trees as streams. Nothing is made outside the directory, an attribute that overlay would believe
 * is never set, what was unpacked packs again, and that unpacks to the same.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "storage/tree.h"
#include "storage/tree_pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

struct bytes {
	const uint8_t *p;
	size_t n;
};

static int get(void *arg, void *p, size_t n, struct err *e)
{
	struct bytes *b = arg;

	if (b->n < n)
		return err_set(e, ERR_PROTOCOL, EBADMSG, "cut short");
	memcpy(p, b->p, n);
	b->p += n;
	b->n -= n;
	return 0;
}

static int put(void *arg, const void *p, size_t n, struct err *e)
{
	return buf_append(arg, p, n);
}

/* Only what the target itself made is beside the trees. */
static void check_beside(const char *base)
{
	DIR *dir = opendir(base);
	struct dirent *d;

	MUST(dir);
	while ((d = readdir(dir)))
		MUST(strlen(d->d_name) == 1 ? strchr(".ab", d->d_name[0]) != NULL
					    : strcmp(d->d_name, "..") == 0);
	closedir(dir);
}

/* Into a new directory `to`; what it holds is packed again into out. */
static int round_trip(const char *base, const char *to, const uint8_t *p, size_t n, struct buf *out,
		      struct tree_packed *sum)
{
	autoclose int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC), root = -1;
	struct bytes b = {p, n};
	struct err e = {0};
	int r;

	MUST(dir >= 0 && mkdirat(dir, to, 0700) == 0);
	root = openat(dir, to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(root >= 0);
	r = tree_unpack(root, &(struct tree_source){get, &b}, true, sum, &e);
	MUST(r == 0 || (r < 0 && e.msg[0]));
	/* It can be looked through again, whatever modes it has. */
	if (r == 0 && tree_pack(root, &(struct tree_sink){put, out, 0}, NULL, &e) < 0)
		r = -EACCES;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char base[] = "/tmp/cove-fuzz-XXXXXX";
	struct tree_packed first = {0}, second = {0};
	struct buf one, two;
	int tmp;

	MUST(mkdtemp(base));
	buf_init(&one, 64 << 20);
	buf_init(&two, 64 << 20);
	if (n < 4096 && round_trip(base, "a", p, n, &one, &first) == 0 &&
	    round_trip(base, "b", buf_data(&one), buf_len(&one), &two, &second) == 0)
		MUST(first.files == second.files);
	check_beside(base);
	tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(tmp >= 0 && tree_remove(tmp, base + strlen("/tmp/"), NULL) == 0);
	close(tmp);
	buf_done(&one);
	buf_done(&two);
	return 0;
}
