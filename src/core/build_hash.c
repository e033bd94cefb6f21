/* The content of a context as a hash; see build.h. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_image.h"
#include "base/sha.h"
#include "core/build.h"
#include "core/build_source.h"
#include "store/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct hash_job {
	struct inside_job job;
	const struct build *b;
	const struct build_words *words;
	uint8_t sum[SHA256_BYTES];
};

struct hashing {
	struct sha sha;
	char *block;	 /* owned */
	const char *top; /* borrowed: what is being read, as COPY names it */
	uint64_t bytes;	 /* of all files */
	int cancel_fd;	 /* none: 0 or less */
};

enum { HASH_BLOCK = 1 << 18 };

static void add_text(struct sha *sha, const char *text)
{
	sha_add(sha, text, strlen(text) + 1);
}

/* A path that was found is below what COPY names, or "" for that itself. */
static const char *show(const struct hashing *h, const char *path, char ret[120])
{
	snprintf(ret, 120, "%.59s%s%.59s", h->top, path[0] ? "/" : "", path);
	return ret;
}

/* A file without blocks may say that it is as large as it likes: no layer would hold it. */
static int count_bytes(struct hashing *h, const char *path, uint64_t more, struct err *e)
{
	char shown[120];

	if (more > LAYER_BYTES_MAX || h->bytes > LAYER_BYTES_MAX - more)
		return err_set(e, ERR_LIMIT, EFBIG, "'%s': what is copied holds more than %llu GiB",
			       show(h, path, shown), LAYER_BYTES_MAX >> 30);
	h->bytes += more;
	return 0;
}

static int add_bytes(struct hashing *h, const struct build_found *found, struct err *e)
{
	autoclose int fd = build_source_open(found);
	uint64_t bytes = 0;
	char shown[120];
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0)
		return err_errno(e, -fd, "read '%s'", show(h, found->path, shown));
	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "read '%s'", show(h, found->path, shown));
	r = count_bytes(h, found->path, (uint64_t)st.st_size, e);
	if (r < 0)
		return r;
	while ((n = read(fd, h->block, HASH_BLOCK)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, errno, "read '%s'", show(h, found->path, shown));
		if (fd_is_cancelled(h->cancel_fd))
			return err_set(e, ERR_INTERRUPTED, ECANCELED, "interrupted");
		sha_add(&h->sha, h->block, (size_t)n);
		bytes += (uint64_t)n;
		/* It grows while it is read. */
		if (bytes > LAYER_BYTES_MAX)
			return count_bytes(h, found->path, bytes, e);
	}
	sha_add(&h->sha, &bytes, sizeof(bytes));
	return 0;
}

static int on_found(void *arg, const struct build_found *found, struct err *e)
{
	struct hashing *h = arg;
	char head[32], target[BOX_PATH_MAX];
	ssize_t n;

	add_text(&h->sha, found->path);
	snprintf(head, sizeof(head), "%o", (unsigned)found->st->st_mode);
	add_text(&h->sha, head);
	if (S_ISREG(found->st->st_mode))
		return add_bytes(h, found, e);
	if (!S_ISLNK(found->st->st_mode))
		return 0;
	n = readlinkat(found->dir_fd, found->name, target, sizeof(target) - 1);
	if (n < 0)
		return err_errno(e, errno, "read the link '%.120s'", found->path);
	target[n] = 0;
	add_text(&h->sha, target);
	return 0;
}

static int hash_inside(struct inside_job *job)
{
	struct hash_job *j = (struct hash_job *)(void *)job;
	struct build_source s = {.root_fd = j->b->context_fd,
				 .ignore = &j->b->ignore,
				 .cancel_fd = j->b->o.cancel_fd};
	struct hashing h = {.block = malloc(HASH_BLOCK), .cancel_fd = j->b->o.cancel_fd};
	int r = h.block ? 0 : err_errno(&job->err, ENOMEM, "read the context");

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	sha256_init(&h.sha);
	for (size_t i = 0; i < j->words->count && r == 0; i++) {
		struct build_words found = {0};

		r = build_source_find(&s, j->words->list[i], &found, &job->err);
		for (size_t k = 0; k < found.count && r == 0; k++) {
			h.top = found.list[k];
			add_text(&h.sha, found.list[k]);
			r = build_source_walk(&s, found.list[k], on_found, &h, &job->err);
		}
		build_words_done(&found);
	}
	sha_end(&h.sha, j->sum);
	free(h.block);
	return r;
}

int build_context_hash(const struct build *b, const struct build_words *words, char ret[65],
		       struct err *e)
{
	/* As the caller: the files are the caller's. */
	const struct ids as_caller = {.kind = IDS_RANGE};
	struct hash_job j = {.job.run = hash_inside, .b = b, .words = words};
	int r;

	if (b->context_fd < 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "there is no context to copy from: name a directory");
	r = inside_run(&as_caller, &j.job, sizeof(j), e);
	if (r == 0)
		sha256_hex(j.sum, sizeof(j.sum), ret);
	return r;
}
