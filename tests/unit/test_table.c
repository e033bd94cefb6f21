/* Tables: widths, alignment, cuts, and text that tries to break out of its cell. */
#include "base/buf.h"
#include "cli/table.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>

static const char *const titles[] = {"NAME", "SIZE", "WHAT", NULL};

static const char *print(struct table *t, struct buf *out, size_t line_max)
{
	CHECK_EQ(table_print(t, line_max, out), 0);
	table_done(t);
	return buf_cstr(out);
}

TEST(columns_are_as_wide_as_their_widest_cell)
{
	struct table t;
	struct buf out;

	buf_init(&out, 4096);
	table_init(&t, titles, 1 << 1);
	table_cell(&t, "a");
	table_cell(&t, "5");
	table_cell(&t, "x");
	table_cell(&t, "longer");
	table_cellf(&t, "%d", 1234567);
	table_cell(&t, "");
	CHECK_STR(print(&t, &out, 0), "NAME       SIZE  WHAT\n"
				      "a             5  x\n"
				      "longer  1234567  -\n");
	buf_done(&out);
}

TEST(a_column_of_any_width_is_filled_up)
{
	static const size_t widths[] = {31, 32, 33, 64, 65, 200};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		char wide[256], want[1024];
		int width = (int)widths[i];
		struct table t;
		struct buf out;

		memset(wide, 'w', widths[i]);
		wide[widths[i]] = 0;
		buf_init(&out, 4096);
		table_init(&t, titles, 1 << 1);
		table_cell(&t, wide);
		table_cell(&t, wide);
		table_cell(&t, "x");
		snprintf(want, sizeof(want), "%-*s  %*s  WHAT\n%s  %s  x\n", width, "NAME", width,
			 "SIZE", wide, wide);
		CHECK_STR(print(&t, &out, 0), want);
		buf_done(&out);
	}
}

TEST(no_text_can_break_a_line)
{
	struct table t;
	struct buf out;
	const char *text;
	size_t lines = 0;

	buf_init(&out, 4096);
	table_init(&t, titles, 0);
	table_cell(&t, "a\nb");
	table_cell(&t, "\033[2Jx\r");
	table_cell(&t, "\xff\xfe\tz");
	text = print(&t, &out, 0);
	for (const char *p = text; *p; p++) {
		lines += *p == '\n';
		CHECK(*p == '\n' || (unsigned char)*p >= 0x20);
		CHECK((unsigned char)*p < 0x7f);
	}
	CHECK_EQ(lines, 2);
	CHECK(strstr(text, "a\\nb") && strstr(text, "\\x1b[2Jx\\r"));
	buf_done(&out);
}

TEST(the_last_column_is_cut_to_the_terminal)
{
	struct table t;
	struct buf out;

	buf_init(&out, 4096);
	table_init(&t, titles, 0);
	table_cell(&t, "a");
	table_cell(&t, "b");
	table_cell(&t, "a very long command line");
	CHECK_STR(print(&t, &out, 20), "NAME  SIZE  WHAT\n"
				       "a     b     a very …\n");
	buf_done(&out);
}

/* Names of 63 letters in every column of text, numbers that must stay whole. */
TEST(a_table_fits_any_terminal_that_has_room_for_its_numbers)
{
	static const char *const many[] = {"NAME", "SIZE", "MEM/LIMIT", "IO", "WHAT", NULL};
	static const char name[] =
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";

	for (size_t columns = 40; columns <= 200; columns++) {
		struct table t;
		struct buf out;
		const char *text;

		buf_init(&out, 4096);
		table_init(&t, many, 1 << 1);
		t.whole = 1 << 2 | 1 << 3;
		t.optional = 1 << 3;
		table_cell(&t, name);
		table_cell(&t, "1234");
		table_cell(&t, "1 / 2");
		table_cell(&t, "10 MiB / 20 MiB");
		table_cell(&t, name);
		text = print(&t, &out, columns);
		CHECK(strstr(text, " 1234  1 / 2 "));
		CHECK((columns >= 56) == (strstr(text, "10 MiB / 20 MiB") != NULL));
		for (const char *p = text, *end; *p; p = end + 1) {
			end = strchr(p, '\n');
			CHECK(text_width(p, (size_t)(end - p)) <= columns);
		}
		buf_done(&out);
	}
}

TEST(text_goes_on_in_the_next_line_at_a_space)
{
	CHECK_EQ(text_wrap("one two three", 13, 0), 13);
	CHECK_EQ(text_wrap("one two three", 13, 13), 13);
	CHECK_EQ(text_wrap("one two three", 13, 12), 7);
	CHECK_EQ(text_wrap("one two three", 13, 7), 7);
	CHECK_EQ(text_wrap("one two three", 13, 6), 3);
	CHECK_EQ(text_wrap("unbroken", 8, 5), 5);
	CHECK_EQ(text_wrap("日本", 6, 1), 1);
	CHECK_EQ(text_wrap("", 0, 5), 0);
}

TEST(width_of_text)
{
	CHECK_EQ(text_width("abc", 3), 3);
	CHECK_EQ(text_width("é", 2), 1);
	CHECK_EQ(text_width("日本", 6), 4);
	CHECK_EQ(text_width("e\xcc\x81", 3), 1);
	CHECK_EQ(text_width("\xff", 1), 1);
	CHECK_EQ(text_width("", 0), 0);
}

TEST(only_titles)
{
	struct table t;
	struct buf out;

	buf_init(&out, 4096);
	table_init(&t, titles, 0);
	CHECK_STR(print(&t, &out, 0), "NAME  SIZE  WHAT\n");
	buf_done(&out);
}

TEST(durations_for_people)
{
	char s[16];

	CHECK_STR(text_duration(s, 0), "0 ms");
	CHECK_STR(text_duration(s, 1234), "1.2 s");
	CHECK_STR(text_duration(s, 59000), "59 s");
	CHECK_STR(text_duration(s, 600000), "10 min");
	CHECK_STR(text_duration(s, 10ull * 3600000), "10 h");
	CHECK_STR(text_duration(s, 3ull * 86400000), "3 days");
	CHECK(strlen(text_duration(s, UINT64_MAX)) < 16);
}

TEST(quotes_and_backslashes_stay_as_they_are)
{
	static const char *const one[] = {"A", NULL};
	struct table t;
	struct buf out;

	buf_init(&out, 1 << 10);
	table_init(&t, one, 0);
	table_cell(&t, "\"\\a\"\n\\");
	CHECK_EQ(table_print(&t, 0, &out), 0);
	CHECK_STR(buf_cstr(&out), "A\n\"\\a\"\\n\\\n");
	table_done(&t);
	buf_done(&out);
}

TAP_MAIN
