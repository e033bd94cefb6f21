/*
 * Compressed content: the first byte chooses the coding and the pieces. How it was cut changes
 * neither what comes out nor whether it is good; and what was packed here comes out as it was.
 */
#include "fuzz.h"

#include "base/limits.h"
#include "door/inflate.h"

#include <errno.h>
#define ZLIB_CONST
#include <zlib.h>

enum { OUT_MAX = 1 << 20 };

static const char *const codings[] = {"gzip", "deflate"};

/* 0, or negative as soon as it is broken; out keeps at most OUT_MAX. */
static int run(const char *coding, const uint8_t *p, size_t n, size_t piece, struct buf *out)
{
	struct inflater *z;
	uint8_t part[5000];
	struct err e = {0};
	size_t at = 0;
	int r = inflater_new(&z, coding);

	MUST(r == 0);
	while (r >= 0 && (at < n || r == 1)) {
		size_t have = piece < n - at ? piece : n - at, used = 0, len = 0;

		r = inflater_feed(z, p + at, have, &used, part, 1 + piece % sizeof(part), &len, &e);
		if (r < 0)
			break;
		MUST(used <= have && len <= sizeof(part));
		at += used;
		if (buf_append(out, part, len) < 0)
			r = -ENOBUFS;
	}
	if (r >= 0)
		r = inflater_close(z, &e);
	inflater_free(z);
	return r;
}

static void check_packed(const uint8_t *p, size_t n, struct buf *out)
{
	uLongf len = compressBound(n);
	uint8_t *packed = malloc(len);

	MUST(packed && compress(packed, &len, p, n) == Z_OK);
	buf_clear(out);
	MUST(run("deflate", packed, len, 1 + n % 7, out) == 0);
	MUST(buf_len(out) == n && (n == 0 || memcmp(buf_data(out), p, n) == 0));
	free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint8_t how = input_byte(&in);
	struct buf whole, cut;
	int a, b;

	if (n > 65536)
		return 0;
	buf_init(&whole, OUT_MAX);
	buf_init(&cut, OUT_MAX);
	a = run(codings[how & 1], in.p, in.n, 4999, &whole);
	b = run(codings[how & 1], in.p, in.n, 1 + how / 2, &cut);
	if (a != -ENOBUFS && b != -ENOBUFS)
		MUST((a < 0) == (b < 0));
	if (a == 0 && b == 0)
		must_equal(&whole, &cut);
	check_packed(in.p, in.n, &cut);
	buf_done(&whole);
	buf_done(&cut);
	return 0;
}
