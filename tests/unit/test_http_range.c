/* One stretch of bytes of a file. */
#include "tap.h"

#include "http/range.h"

#include <errno.h>

static const struct {
	const char *value;
	uint64_t size;
	int verdict;
	uint64_t from, count;
} cases[] = {
	{"bytes=0-0", 10, 1, 0, 1},
	{"bytes=5-12", 100, 1, 5, 8},
	{"Bytes=5-", 10, 1, 5, 5},
	{"bytes=5-99", 10, 1, 5, 5},
	{"bytes=-3", 10, 1, 7, 3},
	{"bytes=-30", 10, 1, 0, 10},
	{"bytes=0-99999999999999999999999", 10, 1, 0, 10},
	{"bytes=10-", 10, -ERANGE, 0, 0},
	{"bytes=-0", 10, -ERANGE, 0, 0},
	{"bytes=0-", 0, -ERANGE, 0, 0},
	{"bytes=-1", 0, -ERANGE, 0, 0},
	{"bytes=99999999999999999999999-", 10, -ERANGE, 0, 0},
	{NULL, 10, 0, 0, 0},
	{"lines=0-1", 10, 0, 0, 0},
	{"bytes=", 10, 0, 0, 0},
	{"bytes=-", 10, 0, 0, 0},
	{"bytes=1", 10, 0, 0, 0},
	{"bytes=2-1", 10, 0, 0, 0},
	{"bytes=0-1,4-5", 10, 0, 0, 0},
	{"bytes=+1-2", 10, 0, 0, 0},
	{"bytes= 1-2", 10, 0, 0, 0},
	{"bytes=1-2x", 10, 0, 0, 0},
};

TEST(range_is_what_there_is_of_it_or_none_or_the_whole)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t from = 0, count = 0;

		CHECK_EQ(http_range_parse(cases[i].value, cases[i].size, &from, &count),
			 cases[i].verdict);
		CHECK_EQ(from, cases[i].from);
		CHECK_EQ(count, cases[i].count);
	}
}
