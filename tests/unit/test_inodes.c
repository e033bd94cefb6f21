/* Files with several names. */
#include "base/inodes.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

TEST(finds_what_was_added)
{
	struct inodes m = {0};
	char name[32];

	CHECK(!inodes_find(&m, 1, 1));
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		CHECK_EQ(inodes_add(&m, i % 3, i, name), 0);
	}
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		CHECK_STR(inodes_find(&m, i % 3, i), name);
		CHECK(!inodes_find(&m, i % 3 + 3, i));
	}
	inodes_done(&m);
	CHECK(!inodes_find(&m, 0, 0));
}

TEST(is_bounded)
{
	static char long_name[4000];
	struct inodes m = {0};
	unsigned i = 0;

	while (inodes_add(&m, 1, i, "x") == 0)
		i++;
	CHECK_EQ(i, INODES_MAX);
	CHECK_EQ(inodes_add(&m, 1, i, "x"), -ENOSPC);
	CHECK(inodes_find(&m, 1, 5));
	CHECK(!inodes_find(&m, 1, i)); /* a full one still ends its search */
	inodes_done(&m);
	memset(long_name, 'x', sizeof(long_name) - 1);
	for (i = 0; inodes_add(&m, 1, i, long_name) == 0;)
		i++;
	CHECK(i <= INODES_TEXT_MAX / sizeof(long_name) + 1);
	inodes_done(&m);
}

TAP_MAIN
