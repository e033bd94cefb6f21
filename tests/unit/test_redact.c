/* Values are found in all their forms, wherever the text is cut, and nothing else is touched. */
#include "tap.h"

#include "base/base64.h"
#include "door/redact.h"

TAP_MAIN

static unsigned seed = 1;

static unsigned number(unsigned below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % below;
}

/* As injection_redact does it: parts of any size, a tail that is held back. Returns the length. */
static size_t pass(const struct redact *r, size_t longest, const uint8_t *in, size_t n,
		   uint8_t *out)
{
	uint8_t held[8192];
	size_t have = 0, at = 0, len = 0, forced = 0, count = 2;

	while (at < n || have > 0) {
		size_t part = at < n ? 1 + number(n - at < 40 ? (unsigned)(n - at) : 40) : 0,
		       hold = 0;
		struct redact_marks m;

		memcpy(held + have, in + at, part);
		at += part;
		have += part;
		if (at < n)
			hold = have < redact_hold(longest) ? have : redact_hold(longest);
		redact_marks_init(&m, have, have - hold, forced);
		for (size_t i = 0; i < count; i++)
			redact_mark(&r[i], held, &m);
		forced = redact_marks_apply(&m, held);
		memcpy(out + len, held, have - hold);
		len += have - hold;
		memmove(held, held + have - hold, hold);
		have = hold;
	}
	return len;
}

/* All of it at once, the plain way. */
static void expected(const struct redact *r, size_t count, const uint8_t *in, size_t n,
		     uint8_t *out)
{
	memcpy(out, in, n);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < r[i].count; k++)
			for (size_t at = 0; at + r[i].forms[k].len <= n; at++)
				if (memcmp(in + at, r[i].forms[k].data, r[i].forms[k].len) == 0)
					memset(out + at, '*', r[i].forms[k].len);
}

/* A text of pieces of the forms, whole ones, overlaps and noise. */
static size_t make_text(const struct redact *r, size_t count, uint8_t *to, size_t room)
{
	size_t n = 0;

	while (n + 600 < room) {
		const struct redact *one = &r[number((unsigned)count)];
		const struct secret *f = &one->forms[number((unsigned)one->count)];
		size_t len = number(3) ? f->len : number((unsigned)f->len + 1);

		for (unsigned i = number(4); i > 0; i--)
			to[n++] = (uint8_t) "abAB =/"[number(7)];
		memcpy(to + n, f->data, len);
		n += len;
		if (number(4) == 0 && n > 2)
			n -= number(3);
	}
	return n;
}

TEST(cuts_do_not_matter)
{
	for (unsigned round = 0; round < 400; round++) {
		uint8_t in[4096], out[4096], want[4096], value[64];
		struct redact r[2];
		size_t n, longest = 0;

		for (size_t i = 0; i < 2; i++) {
			size_t len = 1 + number(i ? 12 : 60);

			/* Few letters, so that values overlap themselves and each other. */
			for (size_t k = 0; k < len; k++)
				value[k] = (uint8_t)(number(5) ? (unsigned)"abA/"[number(4)]
							       : number(256));
			CHECK_EQ(redact_init(&r[i], value, len), 0);
			longest = len > longest ? len : longest;
		}
		n = make_text(r, 2, in, sizeof(in));
		expected(r, 2, in, n, want);
		CHECK_EQ(pass(r, longest, in, n, out), n);
		CHECK_MEM(out, want, n);
		redact_done(&r[0]);
		redact_done(&r[1]);
	}
}

static void check_gone(const char *value, const char *form)
{
	char text[512];
	struct redact r;
	struct redact_marks m;
	size_t n = (size_t)snprintf(text, sizeof(text), "<%s>", form);

	CHECK_EQ(redact_init(&r, value, strlen(value)), 0);
	redact_marks_init(&m, n, n, 0);
	redact_mark(&r, (uint8_t *)text, &m);
	CHECK_EQ(redact_marks_apply(&m, (uint8_t *)text), 0);
	for (size_t i = 1; i + 1 < n; i++)
		CHECK(text[i] == '*');
	CHECK(text[0] == '<' && text[n - 1] == '>');
	redact_done(&r);
}

TEST(forms)
{
	check_gone("s3cr3t/+=\"\\", "s3cr3t/+=\"\\");
	check_gone("s3cr3t/+=\"\\", "s3cr3t/+=\\\"\\\\");
	check_gone("s3cr3t/+=\"\\", "s3cr3t\\/+=\\\"\\\\");
	check_gone("s3cr3t/+=\"\\", "s3cr3t%2F%2B%3D%22%5C");
	check_gone("s3cr3t/+=\"\\", "s3cr3t%2f%2b%3d%22%5c");
	check_gone("s3cr3t/+", "s3cr3t/%2B");
	check_gone("a<b>&c", "a\\u003cb\\u003e\\u0026c");
	check_gone("line\none\ttwo", "line\\none\\ttwo");
	check_gone("sesame123", "c2VzYW1lMTIz");
}

/* Whatever stands before it in base64 text, no run of its own letters is left. */
TEST(base64_alignments)
{
	static const char value[] = "open-sesame-12345";
	struct redact r;

	CHECK_EQ(redact_init(&r, value, strlen(value)), 0);
	for (size_t before = 0; before < 9; before++)
		for (int url = 0; url < 2; url++) {
			uint8_t plain[64], text[128];
			struct redact_marks m;
			size_t n, stars = 0;

			memset(plain, 'u', before);
			memcpy(plain + before, value, strlen(value));
			memcpy(plain + before + strlen(value), "end", 3);
			n = base64_encode(plain, before + strlen(value) + 3, url, text);
			redact_marks_init(&m, n, n, 0);
			redact_mark(&r, text, &m);
			redact_marks_apply(&m, text);
			for (size_t i = 0; i < n; i++)
				stars += text[i] == '*';
			/* All but one letter at each end, which hold bits of its neighbours. */
			CHECK(stars >= strlen(value) * 8 / 6 - 2);
		}
	redact_done(&r);
}

TEST(nothing_and_much)
{
	uint8_t *big = malloc(65536);
	struct redact r;

	CHECK(big);
	CHECK_EQ(redact_init(&r, "", 0), 0);
	CHECK_EQ(r.count, 0);
	redact_done(&r);
	memset(big, 0xff, 65536);
	CHECK_EQ(redact_init(&r, big, 65536), 0);
	redact_done(&r);
	redact_done(&r);
	free(big);
}

/* What waits is the same for all values of about a length, and enough for every form of each. */
TEST(hold)
{
	uint8_t value[300];

	CHECK_EQ(redact_hold(0), 0);
	CHECK_EQ(redact_hold(1), redact_hold(64));
	CHECK_EQ(redact_hold(65), redact_hold(128));
	CHECK(redact_hold(64) < redact_hold(65));
	for (size_t n = 1; n <= sizeof(value); n++)
		for (unsigned c = 1; c < 256; c += n % 7 ? 51 : 1) {
			struct redact r;

			memset(value, (int)c, n);
			CHECK_EQ(redact_init(&r, value, n), 0);
			for (size_t i = 0; i < r.count; i++)
				CHECK(r.forms[i].len <= redact_hold(n));
			redact_done(&r);
		}
}
