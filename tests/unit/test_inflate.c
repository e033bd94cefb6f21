/* Compressed answers, made plain as they come. */
#include "tap.h"

#include "base/limits.h"
#include "door/inflate.h"

#define ZLIB_CONST
#include <zlib.h>

TAP_MAIN

enum { FORM_GZIP = MAX_WBITS + 16, FORM_ZLIB = MAX_WBITS, FORM_RAW = -MAX_WBITS };
enum { ROOM = 1 << 20 };

static uint8_t text[200000], packed[ROOM], got[ROOM];

static size_t pack(int form, const uint8_t *p, size_t n, uint8_t *to)
{
	z_stream s = {.next_in = p, .avail_in = (unsigned)n, .next_out = to, .avail_out = ROOM / 2};

	CHECK_EQ(deflateInit2(&s, 6, Z_DEFLATED, form, 8, Z_DEFAULT_STRATEGY), Z_OK);
	CHECK_EQ(deflate(&s, Z_FINISH), Z_STREAM_END);
	CHECK_EQ(deflateEnd(&s), Z_OK);
	return s.total_out;
}

static void write_text(void)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)("a secret is here "[i % 17] ^ (i / 700 % 5));
}

/* In pieces of that many bytes, into that much room. Bytes that came out, or negative. */
static ssize_t run(const char *coding, const uint8_t *p, size_t n, size_t piece, size_t room)
{
	struct inflater *z = NULL;
	size_t at = 0, len = 0;
	struct err e = {0};
	int r = inflater_new(&z, coding);

	while (r >= 0 && (at < n || r == 1)) {
		size_t part = piece < n - at ? piece : n - at, used = 0, more = 0;

		CHECK(len + room <= sizeof(got));
		r = inflater_feed(z, p + at, part, &used, got + len, room, &more, &e);
		if (r >= 0) {
			CHECK(used <= part && more <= room && (used > 0 || more > 0 || r == 0));
			at += used;
			len += more;
		}
	}
	if (r >= 0)
		r = inflater_close(z, &e);
	inflater_free(z);
	return r < 0 ? r : (ssize_t)len;
}

TEST(each_form_in_every_piece)
{
	static const struct {
		const char *coding;
		int form;
	} forms[] = {{"gzip", FORM_GZIP},
		     {"X-GZIP", FORM_GZIP},
		     {"deflate", FORM_ZLIB},
		     {"Deflate", FORM_RAW}};
	static const size_t pieces[] = {1, 2, 3, 100, ROOM}, rooms[] = {1, 7, 4096, 250000};

	write_text();
	for (size_t f = 0; f < 4; f++) {
		size_t n = pack(forms[f].form, text, sizeof(text), packed);

		for (size_t i = 0; i < 20; i++) {
			CHECK_EQ(run(forms[f].coding, packed, n, pieces[i / 4], rooms[i % 4]),
				 sizeof(text));
			CHECK_MEM(got, text, sizeof(text));
		}
		/* Every end that comes too early, and one byte more than there is. */
		for (size_t cut = 1; cut < n; cut += cut < 40 || cut + 20 > n ? 1 : 97)
			CHECK_EQ(run(forms[f].coding, packed, cut, ROOM, 250000), -EBADMSG);
		packed[n] = 'x';
		CHECK_EQ(run(forms[f].coding, packed, n + 1, ROOM, 250000), -EBADMSG);
		CHECK_EQ(run(forms[f].coding, packed, n + 1, 1, 250000), -EBADMSG);
	}
}

TEST(nothing_at_all)
{
	CHECK_EQ(run("gzip", packed, 0, 1, 10), 0);
	CHECK_EQ(run("deflate", packed, 0, 1, 10), 0);
}

TEST(other_codings)
{
	static const char *const codings[] = {"br",	  "zstd",	"compress",
					      "identity", "gzip, gzip", ""};
	struct inflater *z;

	for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++)
		CHECK_EQ(inflater_new(&z, codings[i]), -EOPNOTSUPP);
}

/* One gzip file after the other is one text; an empty one among them is nothing. */
TEST(several_members)
{
	size_t n;

	write_text();
	n = pack(FORM_GZIP, text, 1000, packed);
	n += pack(FORM_GZIP, text, 0, packed + n);
	n += pack(FORM_GZIP, text + 1000, 1000, packed + n);
	for (size_t piece = 1; piece < 2 * n; piece += 13) {
		CHECK_EQ(run("gzip", packed, n, piece, 300), 2000);
		CHECK_MEM(got, text, 2000);
	}
	CHECK_EQ(run("deflate", packed, n, ROOM, 5000), -EBADMSG);
}

TEST(a_bomb)
{
	static uint8_t zeros[ROOM], small[ROOM], out[1 << 16];
	z_stream s = {.next_out = small, .avail_out = sizeof(small)};
	struct inflater *z;
	struct err e = {0};
	size_t at = 0, used, len, total = 0;
	int r = 0;

	CHECK_EQ(deflateInit2(&s, 9, Z_DEFLATED, FORM_GZIP, 9, Z_DEFAULT_STRATEGY), Z_OK);
	for (int i = 0; i < 64; i++) {
		s.next_in = zeros;
		s.avail_in = sizeof(zeros);
		CHECK_EQ(deflate(&s, i < 63 ? Z_NO_FLUSH : Z_FINISH), i < 63 ? Z_OK : Z_STREAM_END);
	}
	deflateEnd(&s);
	CHECK_EQ(inflater_new(&z, "gzip"), 0);
	while (r >= 0 && at < s.total_out) {
		r = inflater_feed(z, small + at, s.total_out - at, &used, out, sizeof(out), &len,
				  &e);
		at += r >= 0 ? used : 0;
		total += r >= 0 ? len : 0;
	}
	CHECK_EQ(r, -EFBIG);
	CHECK_EQ(e.kind, ERR_LIMIT);
	CHECK(total <= INFLATE_FREE_MAX + sizeof(out));
	inflater_free(z);
}
