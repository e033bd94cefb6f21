/*
 * Tar streams. How the bytes are cut changes neither the verdict nor the entries nor their data,
 * and no entry has a path that could leave the directory it is unpacked into.
 */
#include "fuzz.h"

#include "base/path.h"
#include "store/tar.h"

static int on_entry(void *arg, const struct tar_entry *t, struct err *e)
{
	struct buf *log = arg;

	MUST(!*t->path || path_is_safe_relative(t->path));
	MUST((t->mode & ~07777u) == 0 && t->uid < 65536 && t->gid < 65536 &&
	     t->mtime_ns < 1000000000);
	if (t->type == TAR_HARDLINK)
		MUST(t->target && path_is_safe_relative(t->target));
	if (t->type == TAR_SYMLINK)
		MUST(t->target);
	MUST(buf_printf(log, "[%d %s %s %o %u %u %llu %llu]", t->type, t->path,
			t->target ? t->target : "-", t->mode, t->uid, t->gid,
			(unsigned long long)t->size, (unsigned long long)t->mtime_s) == 0);
	return 0;
}

static int on_data(void *arg, const void *p, size_t n, struct err *e)
{
	MUST(n > 0);
	MUST(buf_append(arg, p, n) == 0);
	return 0;
}

static int on_entry_end(void *arg, struct err *e)
{
	MUST(buf_append_str(arg, ";") == 0);
	return 0;
}

static const struct tar_ops ops = {on_entry, on_data, on_entry_end};

static int read_tar(const uint8_t *p, size_t n, size_t piece, struct buf *log)
{
	struct err e = {0};
	struct tar t;
	int r = 0;

	tar_init(&t, &ops, log);
	while (n > 0 && r == 0) {
		size_t now = n < piece ? n : piece;

		r = tar_feed(&t, p, now, &e);
		p += now;
		n -= now;
	}
	if (r == 0)
		r = tar_finish(&t, &e);
	MUST(r <= 0 && (r == 0 || e.msg[0]));
	tar_done(&t);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	size_t piece = n > 0 ? 1u + p[n - 1] * 3u : 1;
	struct buf whole, cut;
	int r;

	buf_init(&whole, 64 << 20);
	buf_init(&cut, 64 << 20);
	r = read_tar(p, n, SIZE_MAX, &whole);
	MUST(r == read_tar(p, n, piece, &cut));
	must_equal(&whole, &cut);
	buf_done(&whole);
	buf_done(&cut);
	return 0;
}
