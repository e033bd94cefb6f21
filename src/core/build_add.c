/* ADD's archives; see build_add.h. */
#include "core/build_add.h"

#include "base/fd.h"
#include "core/build_copy.h"
#include "core/core.h"
#include "core/helper.h"
#include "store/tar.h"
#include "store/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_compressed(const uint8_t *head, size_t n)
{
	static const struct {
		uint8_t magic[6];
		size_t len;
	} known[] = {{{0x1f, 0x8b}, 2},
		     {{'B', 'Z', 'h'}, 3},
		     {{0xfd, '7', 'z', 'X', 'Z', 0}, 6},
		     {{0x28, 0xb5, 0x2f, 0xfd}, 4}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (n >= known[i].len && memcmp(head, known[i].magic, known[i].len) == 0)
			return true;
	return false;
}

/* The sum of the header's bytes, its own place taken as spaces, stands in it in octal. */
static bool is_tar(const uint8_t *head)
{
	unsigned sum = 0;
	char text[9] = "";

	for (unsigned i = 0; i < TAR_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : head[i];
	memcpy(text, head + 148, 8);
	return sum > 8 * ' ' && strtoul(text, NULL, 8) == sum;
}

enum build_archive build_archive_kind(int fd)
{
	uint8_t head[TAR_BLOCK] = {0};
	ssize_t n = pread(fd, head, sizeof(head), 0);

	if (n > 0 && is_compressed(head, (size_t)n))
		return ARCHIVE_COMPRESSED;
	return n == TAR_BLOCK && is_tar(head) ? ARCHIVE_TAR : ARCHIVE_NONE;
}

static int expand_one(struct cove *cove, int in, uint64_t bytes_max, int *ret, struct err *e)
{
	autoclose int out = openat(cove->state.home_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct helper_fd fds[] = {{"in", in}, {"out", out}};
	char args[48];
	struct helper_call call = {.verb = "expand", .args = args, .fds = fds, .fd_count = 2};
	int r;

	if (out < 0)
		return err_errno(e, errno, "make room for an archive");
	snprintf(args, sizeof(args), "{\"bytes_max\":%" PRIu64 "}", bytes_max);
	r = helper_run(cove, &call, NULL, e);
	if (r == 0)
		*ret = take_fd(out);
	return r;
}

/* What is compressed and no tar inside is copied as it is. */
static int expand_source(struct cove *cove, struct build_source *source, const char *path,
			 struct build_expansions *x, struct err *e)
{
	autoclose int in = fd_openat2(source->root_fd, path, O_RDONLY | O_NONBLOCK, 0,
				      FD_IN_ROOT | FD_NO_MAGICLINKS);
	autoclose int plain = -1;
	struct build_expanded *list;
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) ||
	    build_archive_kind(in) != ARCHIVE_COMPRESSED)
		return 0;
	for (size_t i = 0; i < x->count; i++)
		if (strcmp(x->list[i].source, path) == 0)
			return 0;
	if (x->bytes >= x->bytes_max)
		return err_set(e, ERR_LIMIT, EFBIG,
			       "the archives of one ADD hold too much: use several ADDs");
	r = expand_one(cove, in, x->bytes_max - x->bytes, &plain, e);
	if (r < 0 || build_archive_kind(plain) != ARCHIVE_TAR)
		return r;
	x->bytes += fstat(plain, &st) < 0 ? 0 : (uint64_t)st.st_size;
	list = realloc(x->list, (x->count + 1) * sizeof(*list));
	if (!list)
		return err_errno(e, ENOMEM, "expand an archive");
	x->list = list;
	r = build_words_add(&x->sources, path);
	if (r < 0)
		return err_errno(e, -r, "expand an archive");
	list[x->count] =
		(struct build_expanded){.source = x->sources.list[x->count], .fd = take_fd(plain)};
	x->count++;
	return 0;
}

int build_expand_sources(struct cove *cove, struct build_source *source,
			 const struct build_step *step, struct build_expansions *ret, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < step->sources.count && r == 0; i++) {
		struct build_words found = {0};

		r = build_source_find(source, step->sources.list[i], &found, e);
		for (size_t k = 0; k < found.count && r == 0; k++)
			r = expand_source(cove, source, found.list[k], ret, e);
		build_words_done(&found);
	}
	if (r < 0)
		build_expand_done(ret);
	return r;
}

void build_expand_done(struct build_expansions *x)
{
	for (size_t i = 0; i < x->count; i++)
		fd_close(&x->list[i].fd);
	free(x->list);
	build_words_done(&x->sources);
	*x = (struct build_expansions){0};
}

/* A compressed one was expanded before: its bytes are in another file then. */
static int open_archive(const struct build_copy *c, const char *source)
{
	for (size_t i = 0; i < c->expanded_count; i++)
		if (strcmp(c->expanded[i].source, source) == 0)
			return fd_copy(c->expanded[i].fd, 3);
	return fd_openat2(c->source.root_fd, source, O_RDONLY | O_NONBLOCK, 0,
			  FD_IN_ROOT | FD_NO_MAGICLINKS);
}

int build_add_archive(struct build_copy *c, const char *source, struct err *e)
{
	autoclose int fd = open_archive(c, source), dir = -1;
	uint64_t room = c->bytes < c->bytes_max ? c->bytes_max - c->bytes : 1;
	struct unpack_how how = {.kind = UNPACK_ROOT, .single = c->single, .bytes_max = room};
	struct unpack_result result;
	int r;

	if (fd < 0)
		return err_errno(e, -fd, "open '%.120s'", source);
	if (build_archive_kind(fd) != ARCHIVE_TAR)
		return 0;
	if (c->step->chown || c->step->mode >= 0)
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "'%.80s' is an archive, which says itself whose its files are; "
			       "leave out --chown and --chmod, or change them in a RUN",
			       source);
	dir = build_copy_dirs(c, c->step->dest);
	if (dir < 0)
		return err_errno(e, -dir, "make '%.120s'", c->step->dest);
	r = lseek(fd, 0, SEEK_SET) < 0 ? err_errno(e, errno, "read '%.120s'", source)
				       : unpack_stream(fd, dir, &how, &result, e);
	if (r < 0)
		err_prefix(e, "'%.80s'", source);
	else
		c->bytes += result.bytes;
	return r < 0 ? r : 1;
}
