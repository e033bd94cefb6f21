/* Text diffs: known ones, and random ones that patch back to the other text. */
#include "base/textdiff.h"

#include "tap.h"

static const char *unified(const char *a, const char *b)
{
	static struct buf out;
	const struct textdiff_text x = {a, strlen(a)}, y = {b, strlen(b)};

	buf_done(&out);
	buf_init(&out, 16 << 20);
	CHECK_EQ(textdiff_unified(&x, &y, &out), 0);
	return buf_cstr(&out);
}

TEST(small_ones)
{
	CHECK_STR(unified("a\n", "a\n"), "");
	CHECK_STR(unified("", ""), "");
	CHECK_STR(unified("", "a\n"), "@@ -0,0 +1 @@\n+a\n");
	CHECK_STR(unified("a\nb\n", ""), "@@ -1,2 +0,0 @@\n-a\n-b\n");
	CHECK_STR(unified("a\nb\nc\n", "a\nx\nc\n"), "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
	CHECK_STR(unified("a", "a\n"), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	CHECK_STR(unified("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nx\n"),
		  "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+x\n");
}

TEST(changes_that_are_far_apart_are_two_hunks)
{
	CHECK_STR(unified("x\n1\n2\n3\n4\n5\n6\ny\n", "1\n2\n3\n4\n5\n6\n"),
		  "@@ -1,8 +1,6 @@\n-x\n 1\n 2\n 3\n 4\n 5\n 6\n-y\n");
	CHECK_STR(unified("x\n1\n2\n3\n4\n5\n6\n7\ny\n", "1\n2\n3\n4\n5\n6\n7\n"),
		  "@@ -1,4 +1,3 @@\n-x\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n-y\n");
}

TEST(what_is_text)
{
	CHECK(textdiff_is_text(&(struct textdiff_text){NULL, 0}));
	CHECK(textdiff_is_text(&(struct textdiff_text){"\xff\x1b\n", 3}));
	CHECK(!textdiff_is_text(&(struct textdiff_text){"a\0b", 3}));
}

/* Applies hunks as patch(1) would, without any tolerance. */
static void patch(const char *a, const char *hunks, struct buf *out)
{
	size_t line = 1;

	while (*hunks) {
		unsigned long from, count = 1;
		const char *at;
		char *end;

		CHECK(strncmp(hunks, "@@ -", 4) == 0);
		from = strtoul(hunks + 4, &end, 10);
		if (*end == ',')
			count = strtoul(end + 1, &end, 10);
		for (size_t due = count ? from : from + 1; line < due; line++) {
			at = strchr(a, '\n');
			CHECK(at != NULL);
			CHECK_EQ(buf_append(out, a, (size_t)(at - a) + 1), 0);
			a = at + 1;
		}
		hunks = strchr(hunks, '\n') + 1;
		while (*hunks && *hunks != '@') {
			size_t n = strcspn(hunks, "\n") + 1, bare = n - 1;

			if (hunks[n] == '\\') {
				n--;
				bare--;
			}
			if (*hunks == ' ' || *hunks == '-') {
				CHECK(strncmp(a, hunks + 1, n - 1) == 0);
				a += n - 1;
				line++;
			}
			if (*hunks == ' ' || *hunks == '+')
				CHECK_EQ(buf_append(out, hunks + 1, bare), 0);
			hunks += n;
			if (hunks[0] == '\n' && hunks[1] == '\\')
				hunks += 1 + strcspn(hunks + 1, "\n") + 1;
		}
	}
	CHECK_EQ(buf_append_str(out, a), 0);
}

static uint32_t seed;

static uint32_t dice(uint32_t sides)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % sides;
}

static void random_text(struct buf *out, unsigned lines, unsigned kinds)
{
	for (unsigned i = 0; i < lines; i++)
		CHECK_EQ(buf_printf(out, "%u%s", dice(kinds),
				    i + 1 == lines && dice(3) == 0 ? "" : "\n"),
			 0);
}

static void check_pair(unsigned lines, unsigned kinds)
{
	struct buf a, b, got;

	buf_init(&a, 1 << 20);
	buf_init(&b, 1 << 20);
	buf_init(&got, 1 << 20);
	random_text(&a, dice(lines), kinds);
	random_text(&b, dice(lines), kinds);
	patch(buf_cstr(&a), unified(buf_cstr(&a), buf_cstr(&b)), &got);
	CHECK_STR(buf_cstr(&got), buf_cstr(&b));
	buf_done(&a);
	buf_done(&b);
	buf_done(&got);
}

TEST(random_ones_patch_back)
{
	for (seed = 1; seed < 3000; seed += 1) {
		uint32_t keep = seed;

		check_pair(30, 4);
		seed = keep;
	}
	for (unsigned i = 0; i < 10; i++)
		check_pair(6000, 1000); /* beyond what is searched */
}

TAP_MAIN
