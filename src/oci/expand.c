/*
 * Streams that may be compressed; see expand.h.
 *
 * How it works
 *
 * The first bytes are read here and given to the child in its copy of our memory. gzip is zlib's,
 * because libarchive does not look at its checksums; the others are libarchive's filters below its
 * raw format. The child says in shared memory how far it is and, as a number, what went wrong: no
 * text of it is shown to anyone.
 */
#include "oci/expand.h"

#include "base/caps.h"
#include "base/fd.h"
#include "base/limits.h"
#include "filter/filter.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <zlib.h>

enum { MAGIC_BYTES = 6, EXPAND_BLOCK = 256 << 10 };

enum expand_failure {
	FAILURE_NONE,
	FAILURE_CONFINE,
	FAILURE_READ,
	FAILURE_WRITE,
	FAILURE_DAMAGED,
	FAILURE_SHORT,
	FAILURE_BYTES,
	FAILURE_RATIO,
	FAILURE_MEMORY,
};

/* The child writes, the parent reads; it believes nothing but that these are numbers. */
struct expand_shared {
	_Atomic uint64_t in, out;
	_Atomic int failure;
	_Atomic int is_whole; /* all was written, and nothing was wrong */
};

struct expander {
	struct expand_shared *shared;
	enum expand_kind kind;
	int in_fd, out_fd;
	struct expand_how how;
	const uint8_t *head; /* bytes of the input that were read already */
	size_t head_len;
	bool head_given;
	uint8_t *in, *out; /* owned, EXPAND_BLOCK each */
};

/* ---- in the child ---- */

static int failed(struct expander *x, enum expand_failure why)
{
	atomic_store(&x->shared->failure, (int)why);
	return 1;
}

static int confine(struct expander *x)
{
	const struct rlimit memory = {EXPAND_MEMORY_MAX, EXPAND_MEMORY_MAX}, none = {0, 0};
	int keep[3] = {x->in_fd, x->out_fd, FILTER_IS_SANITIZED ? STDERR_FILENO : -1};
	int r = child_close_but(0, keep, 3);

	if (r < 0)
		return r;
	if (!FILTER_IS_SANITIZED && setrlimit(RLIMIT_AS, &memory) < 0)
		return -errno;
	if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	r = caps_bound(0);
	if (r == 0 || r == -EPERM)
		r = caps_keep(0, 0, NULL);
	return r < 0 ? r : filter_load(FILTER_EXPAND, NULL);
}

/* The next block of input: its length, 0 at the end, -1. */
static ssize_t next_in(struct expander *x, const void **ret)
{
	ssize_t n;

	if (!x->head_given) {
		x->head_given = true;
		*ret = x->head;
		atomic_fetch_add(&x->shared->in, x->head_len);
		if (x->head_len > 0)
			return (ssize_t)x->head_len;
	}
	do {
		n = read(x->in_fd, x->in, EXPAND_BLOCK);
	} while (n < 0 && errno == EINTR);
	*ret = x->in;
	if (n > 0)
		atomic_fetch_add(&x->shared->in, (uint64_t)n);
	if (n < 0)
		failed(x, FAILURE_READ);
	return n;
}

static bool put_out(struct expander *x, const void *p, size_t n)
{
	uint64_t out = atomic_fetch_add(&x->shared->out, n) + n;

	if (out > x->how.bytes_max)
		return failed(x, FAILURE_BYTES), false;
	if (!x->how.any_ratio && out > EXPAND_FREE_MAX &&
	    out / EXPAND_RATIO_MAX > atomic_load(&x->shared->in))
		return failed(x, FAILURE_RATIO), false;
	if (fd_write_full(x->out_fd, p, n) < 0)
		return failed(x, FAILURE_WRITE), false;
	return true;
}

/* All of one block of input. 1: a member has ended with it or before; -1: failed. */
static int inflate_block(struct expander *x, z_stream *z, bool in_member)
{
	while (z->avail_in > 0 || z->avail_out == 0) {
		int r;

		/* Between members: another one, or zeros that fill up a block of a tape. */
		if (!in_member && *z->next_in == 0) {
			z->next_in++;
			if (--z->avail_in == 0)
				return 1;
			continue;
		}
		in_member = true;
		z->next_out = x->out;
		z->avail_out = EXPAND_BLOCK;
		r = inflate(z, Z_NO_FLUSH);
		if (r == Z_MEM_ERROR)
			return failed(x, FAILURE_MEMORY), -1;
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return failed(x, FAILURE_DAMAGED), -1;
		if (!put_out(x, x->out, EXPAND_BLOCK - z->avail_out))
			return -1;
		if (r == Z_STREAM_END) {
			in_member = false;
			z->avail_out = 1;
			if (inflateReset(z) != Z_OK)
				return failed(x, FAILURE_MEMORY), -1;
		}
	}
	return in_member ? 0 : 1;
}

static int expand_gzip(struct expander *x)
{
	z_stream z = {0};
	const void *in;
	int ended = 1;
	ssize_t n;

	if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
		return failed(x, FAILURE_MEMORY);
	while ((n = next_in(x, &in)) > 0) {
		z.next_in = (Bytef *)(uintptr_t)in;
		z.avail_in = (uInt)n;
		z.avail_out = 1;
		ended = inflate_block(x, &z, !ended);
		if (ended < 0)
			return 1;
	}
	inflateEnd(&z);
	if (n < 0)
		return 1;
	return ended == 1 ? 0 : failed(x, FAILURE_SHORT);
}

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	ssize_t n = next_in(arg, ret);

	if (n < 0)
		archive_set_error(a, EIO, "read");
	return n;
}

static int expand_archive(struct expander *x)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	la_ssize_t n;
	int r;

	if (!a)
		return failed(x, FAILURE_MEMORY);
	if (x->kind == EXPAND_XZ)
		archive_read_support_filter_xz(a);
	else if (x->kind == EXPAND_ZSTD)
		archive_read_support_filter_zstd(a);
	else
		archive_read_support_filter_bzip2(a);
	archive_read_support_format_raw(a);
	r = archive_read_open(a, x, NULL, on_read, NULL);
	/* Raw content that is empty is none. */
	if (r == ARCHIVE_OK && archive_filter_count(a) < 2)
		return failed(x, FAILURE_DAMAGED);
	if (r == ARCHIVE_OK)
		r = archive_read_next_header(a, &entry);
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK)
		return failed(x, archive_errno(a) == ENOMEM ? FAILURE_MEMORY : FAILURE_DAMAGED);
	while ((n = archive_read_data(a, x->out, EXPAND_BLOCK)) > 0)
		if (!put_out(x, x->out, (size_t)n))
			return 1;
	if (n == 0)
		return 0;
	if (atomic_load(&x->shared->failure) != FAILURE_NONE)
		return 1;
	return failed(x, archive_errno(a) == ENOMEM ? FAILURE_MEMORY : FAILURE_DAMAGED);
}

static int copy_plain(struct expander *x)
{
	const void *in;
	ssize_t n;

	while ((n = next_in(x, &in)) > 0)
		if (!put_out(x, in, (size_t)n))
			return 1;
	return n < 0;
}

static int run_expander(void *arg)
{
	struct expander *x = arg;
	int r;

	x->in = malloc(EXPAND_BLOCK);
	x->out = malloc(EXPAND_BLOCK);
	if (!x->in || !x->out)
		return failed(x, FAILURE_MEMORY);
	if (confine(x) < 0)
		return failed(x, FAILURE_CONFINE);
	if (x->kind == EXPAND_PLAIN)
		r = copy_plain(x);
	else
		r = x->kind == EXPAND_GZIP ? expand_gzip(x) : expand_archive(x);
	/* Before the pipe is closed, which its reader waits for. */
	atomic_store(&x->shared->is_whole, r == 0);
	return r;
}

/* ---- outside ---- */

static enum expand_kind kind_of(const uint8_t *p, size_t n)
{
	static const struct {
		const char *magic;
		size_t n;
		enum expand_kind kind;
	} known[] = {{"\x1f\x8b\x08", 3, EXPAND_GZIP},
		     {"\xfd"
		      "7zXZ",
		      6, EXPAND_XZ},
		     {"\x28\xb5\x2f\xfd", 4, EXPAND_ZSTD},
		     {"BZh", 3, EXPAND_BZIP2}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (n >= known[i].n && memcmp(p, known[i].magic, known[i].n) == 0)
			return known[i].kind;
	/* A frame of zstd that is to be skipped may come first. */
	return n >= 4 && (p[0] & 0xf0) == 0x50 && memcmp(p + 1, "\x2a\x4d\x18", 3) == 0
		       ? EXPAND_ZSTD
		       : EXPAND_PLAIN;
}

static void release(struct expand *x)
{
	fd_close(&x->fd);
	free(take_ptr(x->head));
	if (x->shared)
		munmap(x->shared, sizeof(*x->shared));
	x->shared = NULL;
}

static int start(struct expand *x, int in_fd, const struct expand_how *how, struct err *e)
{
	struct expander child = {.kind = x->kind, .how = *how, .head = x->head};
	int ends[2], r;

	x->shared = mmap(NULL, sizeof(*x->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (x->shared == MAP_FAILED) {
		x->shared = NULL;
		return err_errno(e, errno, "start a decompressor");
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(e, errno, "start a decompressor");
	fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
	child.shared = x->shared;
	child.in_fd = in_fd;
	child.out_fd = ends[1];
	child.head_len = x->head_len;
	if (!child.how.bytes_max)
		child.how.bytes_max = EXPAND_BYTES_MAX;
	r = child_fork(run_expander, &child, &x->child);
	fd_close(&ends[1]);
	x->fd = ends[0];
	if (r < 0)
		return err_errno(e, -r, "start a decompressor");
	x->runs = true;
	x->bytes_max = child.how.bytes_max;
	x->cancel_fd = how->cancel_fd;
	/* They are the child's now: what comes is plain. */
	x->head_len = 0;
	return 0;
}

int expand_open(int in_fd, const struct expand_how *how, struct expand *ret, struct err *e)
{
	struct expand x = {.fd = -1};
	ssize_t n;
	int r = 0;

	x.head = malloc(EXPAND_PEEK_MAX);
	if (!x.head)
		return err_errno(e, ENOMEM, "read an archive");
	n = fd_read_full(in_fd, x.head, MAGIC_BYTES);
	if (n < 0)
		r = err_errno(e, (int)-n, "read an archive");
	x.head_len = n > 0 ? (size_t)n : 0;
	x.kind = kind_of(x.head, x.head_len);
	if (r == 0)
		r = start(&x, in_fd, how, e);
	if (r < 0) {
		release(&x);
		return r;
	}
	*ret = x;
	return 0;
}

int expand_peek(struct expand *x, size_t n, struct err *e)
{
	ssize_t got;

	ASSERT(n <= EXPAND_PEEK_MAX);
	if (n <= x->head_len)
		return 0;
	got = fd_read_full(x->fd, x->head + x->head_len, n - x->head_len);
	if (got < 0)
		return err_errno(e, (int)-got, "read an archive");
	x->head_len += (size_t)got;
	return 0;
}

ssize_t expand_read(struct expand *x, void *p, size_t n)
{
	size_t left = x->head_len - x->head_at;
	ssize_t got;

	if (left > 0) {
		n = n < left ? n : left;
		memcpy(p, x->head + x->head_at, n);
		x->head_at += n;
		return (ssize_t)n;
	}
	do {
		struct pollfd fds[] = {{.fd = x->fd, .events = POLLIN},
				       {.fd = x->cancel_fd, .events = POLLIN}};

		if (x->cancel_fd > 0 && poll(fds, 2, -1) > 0 && fds[1].revents)
			return -ECANCELED;
		got = read(x->fd, p, n);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

void expand_stop(struct expand *x)
{
	if (x->runs)
		kill(x->child.pid, SIGKILL);
}

uint64_t expand_taken(const struct expand *x)
{
	return x->shared ? atomic_load(&x->shared->in) : 0;
}

static int say_failure(int failure, uint64_t bytes_max, struct err *e)
{
	switch (failure) {
	case FAILURE_CONFINE:
		return err_set(e, ERR_UNSUPPORTED, EPERM,
			       "the decompressor could not be confined, so nothing was read");
	case FAILURE_READ:
		return err_set(e, ERR_INTERNAL, EIO, "read an archive");
	case FAILURE_BYTES:
		return err_set(e, ERR_LIMIT, EFBIG,
			       "the archive becomes more than %llu MiB; --max-size allows more",
			       (unsigned long long)(bytes_max >> 20));
	case FAILURE_RATIO:
		return err_set(e, ERR_LIMIT, EFBIG,
			       "the archive becomes more than %u times as large as it is; "
			       "--max-size says how much it may be",
			       EXPAND_RATIO_MAX);
	case FAILURE_MEMORY:
		return err_set(e, ERR_LIMIT, ENOMEM,
			       "decompressing the archive takes more than %u MiB of memory",
			       EXPAND_MEMORY_MAX >> 20);
	case FAILURE_SHORT:
		return err_set(e, ERR_INVALID, EBADMSG, "the archive ends too early");
	default:
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the archive is damaged: it cannot be decompressed");
	}
}

int expand_verdict(const struct expand *x, int r, struct err *e)
{
	int failure = atomic_load(&x->shared->failure);

	if (atomic_load(&x->shared->is_whole) || failure == FAILURE_WRITE ||
	    (failure == FAILURE_NONE && r < 0))
		return r;
	return say_failure(failure, x->bytes_max, e);
}

int expand_close(struct expand *x, int r, struct err *e)
{
	fd_close(&x->fd);
	if (!x->runs) { /* it was never opened, or is closed */
		release(x);
		return r;
	}
	/* It may wait for input that never comes. What it has to say it said before its end. */
	if (r < 0)
		expand_stop(x);
	child_forked_wait(&x->child);
	x->runs = false;
	r = expand_verdict(x, r, e);
	release(x);
	return r;
}
