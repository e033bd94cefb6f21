/* What is kept of a command's output: the first bytes, or both ends. */
#include "base/collect.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static const char *both_ends(size_t max, const char *text, size_t piece)
{
	static char shown[256];
	struct collect c;
	size_t len = strlen(text), n = 0;
	char *all;

	collect_init_ends(&c, max);
	for (size_t at = 0; at < len; at += piece)
		CHECK_EQ(collect_add(&c, 1, text + at, piece < len - at ? piece : len - at), 0);
	all = collect_copy(&c, 1, &n);
	CHECK_EQ(n, strlen(all));
	CHECK(collect_is_cut(&c) == (strstr(all, "[cove]") != NULL));
	snprintf(shown, sizeof(shown), "%s", all);
	free(all);
	all = collect_copy(&c, 0, &n);
	CHECK_STR(all, "");
	free(all);
	collect_done(&c);
	return shown;
}

/* However the bytes come. */
TEST(both_ends_are_kept)
{
	for (size_t piece = 1; piece < 30; piece++) {
		CHECK_STR(both_ends(10, "", piece), "");
		CHECK_STR(both_ends(10, "0123456789", piece), "0123456789");
		CHECK_STR(both_ends(10, "0123456789a", piece),
			  "01234\n[cove] 1 bytes were left out here\n6789a");
		CHECK_STR(both_ends(11, "0123456789abcdefghijklmnopqrstuvwxyz", piece),
			  "012345\n[cove] 25 bytes were left out here\nvwxyz");
		CHECK_STR(both_ends(6, "ab\ncdefgh\nij\n", piece),
			  "ab\n[cove] 7 bytes were left out here\nij\n");
		CHECK_STR(both_ends(1, "abc", piece), "a\n[cove] 2 bytes were left out here\n");
	}
}

TEST(no_character_is_cut_in_two)
{
	/* Two bytes each: five of them are two and a half. */
	CHECK_STR(both_ends(10, "ääääääää", 3), "ää\n[cove] 8 bytes were left out here\nää");
	CHECK_STR(both_ends(8, "€€€€€", 1), "€\n[cove] 9 bytes were left out here\n€");
	/* What is no text stays as it is. */
	CHECK_STR(both_ends(8, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", 4),
		  "\x80\x80\x80\x80\n[cove] 2 bytes were left out here\n\x80\x80\x80\x80");
}

TEST(the_rest_follows_the_first_bytes)
{
	struct collect c;
	size_t n = 0;
	char *rest;

	collect_init_ends(&c, 4);
	CHECK_EQ(collect_room(&c, 0), 2);
	CHECK_EQ(collect_add(&c, 0, "abc", 3), 0);
	CHECK_EQ(collect_room(&c, 0), 0);
	rest = collect_copy_rest(&c, 0, &n);
	CHECK_STR(rest, "c");
	free(rest);
	CHECK_EQ(collect_add(&c, 0, "defg", 4), 0);
	rest = collect_copy_rest(&c, 0, &n);
	CHECK_STR(rest, "\n[cove] 3 bytes were left out here\nfg");
	CHECK_EQ(c.seen[0], 7);
	free(rest);
	collect_done(&c);
}

TEST(the_first_bytes_alone)
{
	struct collect c;
	size_t n = 0;
	char *all;

	collect_init(&c, 3);
	CHECK_EQ(collect_add(&c, 0, "abcdef", 6), 0);
	CHECK(collect_is_cut(&c));
	all = collect_copy(&c, 0, &n);
	CHECK_STR(all, "abc");
	free(all);
	collect_done(&c);
}
