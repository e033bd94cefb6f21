/* The error value. */
#include "tap.h"

#include "base/err.h"

TEST(set_and_prefix)
{
	struct err e;

	CHECK_EQ(err_set(&e, ERR_NOT_FOUND, ENOENT, "no box '%s'", "a"), -ENOENT);
	CHECK_EQ(e.kind, ERR_NOT_FOUND);
	CHECK_EQ(e.code, ENOENT);
	CHECK_STR(e.msg, "no box 'a'");
	err_prefix(&e, "open %s", "session");
	CHECK_STR(e.msg, "open session: no box 'a'");
	CHECK_EQ(err_set(NULL, ERR_INVALID, EINVAL, "dropped"), -EINVAL);
	CHECK_EQ(err_set(&e, ERR_INVALID, 0, "x"), -EIO);
	err_prefix(NULL, "dropped");
}

TEST(errno_words_are_appended)
{
	struct err e;

	CHECK_EQ(err_set(&e, ERR_INTERNAL, EIO, "read"), -EIO);
	CHECK_STR(e.msg, "read: Input/output error");
	CHECK_EQ(err_errno(&e, ENOSPC, "write '%s'", "f"), -ENOSPC);
	CHECK_EQ(e.kind, ERR_FULL);
	CHECK_STR(e.msg, "write 'f': No space left on device");
}

TEST(long_sentences_are_cut_not_overrun)
{
	char longer[600];
	struct err e;

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	err_errno(&e, EACCES, "%s", longer);
	CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
	err_prefix(&e, "%s", longer);
	CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
	err_set(&e, ERR_INVALID, EINVAL, "short");
	err_prefix(&e, "%.*s", 225, longer);
	CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
}

TEST(every_kind_has_a_name_and_a_status)
{
	for (int k = 0; k < ERR_KIND_COUNT; k++) {
		CHECK(err_kind_name((enum err_kind)k) != NULL);
		CHECK((err_kind_exit((enum err_kind)k) == 0) == (k == ERR_NONE));
	}
	for (int k = 1; k < ERR_KIND_COUNT; k++)
		CHECK_EQ(err_kind_find(err_kind_name((enum err_kind)k)), k);
	CHECK_EQ(err_kind_find("nothing"), ERR_INTERNAL);
	CHECK_STR(err_kind_name((enum err_kind)99), "internal");
	CHECK_EQ(err_kind_exit((enum err_kind)99), 125);
	CHECK_EQ(err_kind_exit(ERR_TIMEOUT), 124);
}

TEST(every_errno_has_a_kind)
{
	for (int code = 1; code < 134; code++)
		CHECK(err_kind_of(code) != ERR_NONE);
	CHECK_EQ(err_kind_of(ENOENT), ERR_NOT_FOUND);
	CHECK_EQ(err_kind_of(EDQUOT), ERR_FULL);
	CHECK_EQ(err_kind_of(EROFS), ERR_DENIED);
}

TAP_MAIN
