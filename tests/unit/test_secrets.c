/* Secrets on disk: whole, private, listed without their values. */
#include "store_home.h"
#include "tap.h"

#include "base/limits.h"
#include "base/locked.h"
#include "store/secret.h"

#include <sys/stat.h>

static struct state st;
static struct err e;

static int set(const char *name, const char *value)
{
	return secret_set(&st, name, SECRET_VALUE, value, strlen(value), &e);
}

TEST(a_value_comes_back_as_it_was)
{
	static const char bytes[] = "a\0b\nc\n";
	struct secret_stamp first;
	struct secret_text t;

	home_open(&st);
	CHECK_EQ(secret_set(&st, "KEY", SECRET_VALUE, bytes, sizeof(bytes) - 1, &e), 0);
	CHECK_EQ(secret_read(&st, "KEY", &t, &e), 0);
	CHECK_EQ(t.source, SECRET_VALUE);
	CHECK_EQ(t.len, sizeof(bytes) - 1);
	CHECK_MEM(t.data, bytes, t.len);
	first = t.stamp;
	locked_free(t.data);
	CHECK_EQ(secret_read(&st, "KEY", &t, &e), 0);
	CHECK_MEM(&t.stamp, &first, sizeof(first));
	locked_free(t.data);
	CHECK_EQ(set("KEY", "two"), 0);
	CHECK_EQ(secret_read(&st, "KEY", &t, &e), 0);
	CHECK_STR(t.data, "two");
	CHECK(memcmp(&t.stamp, &first, sizeof(first)) != 0);
	locked_free(t.data);
}

/* What is for the boxes of an API key is a file of its own beside the operator's. */
TEST(one_of_a_key_is_another)
{
	static const char *const bad[] = {"deadbeef.",	"deadbee.KEY",	 "deadbeef0.KEY",
					  ".KEY",	"deadbeef/KEY",	 "DEADBEEF.KEY",
					  "deadbeef.1", "deadbeef..KEY", "deadbeef.a.b"};
	struct secret_info *list;
	struct secret_text t;
	size_t count;

	home_open(&st);
	CHECK_EQ(set("KEY", "mine"), 0);
	CHECK_EQ(set("deadbeef.KEY", "theirs"), 0);
	CHECK_EQ(secret_read(&st, "deadbeef.KEY", &t, &e), 0);
	CHECK_STR(t.data, "theirs");
	locked_free(t.data);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(set(bad[i], "x"), -EINVAL);
	CHECK_EQ(secret_list(&st, &list, &count, &e), 0);
	CHECK_EQ(count, 2);
	free(list);
	CHECK_EQ(secret_remove(&st, "KEY", &e), 0);
	CHECK_EQ(secret_read(&st, "KEY", &t, &e), -ENOENT);
	CHECK_EQ(secret_read(&st, "deadbeef.KEY", &t, &e), 0);
	locked_free(t.data);
}

TEST(a_command_says_how_long_its_output_is_kept)
{
	struct secret_text t;

	home_open(&st);
	CHECK_EQ(secret_set_command(&st, "KEY", "pass show 1", 900000, &e), 0);
	CHECK_EQ(secret_read(&st, "KEY", &t, &e), 0);
	CHECK_EQ(t.cache_ms, 900000);
	CHECK_EQ(t.source, SECRET_COMMAND);
	CHECK_STR(t.data, "pass show 1");
	locked_free(t.data);
	CHECK_EQ(secret_set_command(&st, "KEY", "x", 0, &e), 0);
	CHECK_EQ(secret_read(&st, "KEY", &t, &e), 0);
	CHECK_EQ(t.cache_ms, 0);
	locked_free(t.data);
	CHECK_EQ(secret_set_command(&st, "KEY", "x", SECRET_CACHE_MAX_MS + 1ull, &e), -ERANGE);
	CHECK_EQ(secret_set_command(&st, "KEY", "", 1, &e), -EINVAL);
}

TEST(only_the_owner_can_read_it)
{
	struct stat s;

	home_open(&st);
	umask(0);
	CHECK_EQ(set("KEY", "x"), 0);
	CHECK_EQ(fstatat(st.home_fd, "secrets", &s, 0), 0);
	CHECK_EQ(s.st_mode & 07777, 0700);
	CHECK_EQ(fstatat(st.home_fd, "secrets/KEY", &s, 0), 0);
	CHECK_EQ(s.st_mode & 07777, 0600);
}

TEST(names_that_are_none)
{
	static const char *const bad[] = {"", "1A", "a-b", "a/b", "..", ".x", "a b", "ä"};
	char *long_name =
		strdup("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	struct secret_info info;

	home_open(&st);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(set(bad[i], "x"), -EINVAL);
		CHECK_EQ(secret_remove(&st, bad[i], &e), -EINVAL);
		CHECK_EQ(secret_find(&st, bad[i], &info, &e), -EINVAL);
	}
	CHECK_EQ(set(long_name, "x"), -EINVAL);
	long_name[SECRET_NAME_MAX] = 0;
	CHECK_EQ(set(long_name, "x"), 0);
	free(long_name);
}

TEST(values_and_places_that_are_none)
{
	char *big = calloc(1, DOOR_SECRET_MAX + 1);

	home_open(&st);
	memset(big, 'x', DOOR_SECRET_MAX + 1);
	CHECK_EQ(set("KEY", ""), -EINVAL);
	CHECK_EQ(secret_set(&st, "KEY", SECRET_VALUE, big, DOOR_SECRET_MAX + 1, &e), -EFBIG);
	CHECK(strstr(e.msg, "xxx") == NULL);
	CHECK_EQ(secret_set(&st, "KEY", SECRET_VALUE, big, DOOR_SECRET_MAX, &e), 0);
	CHECK_EQ(secret_set(&st, "KEY", SECRET_FILE, "relative", 8, &e), -EINVAL);
	CHECK_EQ(secret_set(&st, "KEY", SECRET_FILE, "/a\nb", 4, &e), -EINVAL);
	CHECK_EQ(secret_set(&st, "KEY", SECRET_COMMAND, "a\0b", 3, &e), -EINVAL);
	CHECK_EQ(secret_set(&st, "KEY", SECRET_COMMAND, "", 0, &e), -EINVAL);
	free(big);
}

TEST(the_list_has_names_and_places_but_no_values)
{
	struct secret_info *list;
	size_t count;

	home_open(&st);
	CHECK_EQ(secret_list(&st, &list, &count, &e), 0);
	CHECK_EQ(count, 0);
	free(list);
	CHECK_EQ(set("B_KEY", "hidden"), 0);
	CHECK_EQ(secret_set(&st, "A_KEY", SECRET_COMMAND, "pass show a", 11, &e), 0);
	CHECK_EQ(secret_set(&st, "C_KEY", SECRET_FILE, "/run/c", 6, &e), 0);
	CHECK_EQ(secret_list(&st, &list, &count, &e), 0);
	CHECK_EQ(count, 3);
	CHECK_STR(list[0].name, "A_KEY");
	CHECK_STR(list[0].where, "pass show a");
	CHECK_EQ(list[0].source, SECRET_COMMAND);
	CHECK_STR(list[1].where, "");
	CHECK(list[1].changed_ms > 0);
	CHECK_EQ(list[2].source, SECRET_FILE);
	free(list);
}

TEST(removing)
{
	struct secret_info info;

	home_open(&st);
	CHECK_EQ(secret_remove(&st, "KEY", &e), -ENOENT);
	CHECK_EQ(set("KEY", "x"), 0);
	CHECK_EQ(secret_remove(&st, "KEY", &e), 0);
	CHECK_EQ(secret_remove(&st, "KEY", &e), -ENOENT);
	CHECK_EQ(secret_find(&st, "KEY", &info, &e), -ENOENT);
	CHECK(strstr(e.msg, "cove secret set KEY") != NULL);
}

TEST(a_damaged_file_or_a_link_is_an_error)
{
	struct secret_info info;

	home_open(&st);
	CHECK_EQ(set("KEY", "x"), 0);
	autoclose int dir = openat(st.home_fd, "secrets", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(fd_write_file(dir, "KEY", "valu", 4, 0600, false), 0);
	CHECK_EQ(secret_find(&st, "KEY", &info, &e), -EBADMSG);
	CHECK_EQ(fd_write_file(dir, "KEY", "", 0, 0600, false), 0);
	CHECK_EQ(secret_find(&st, "KEY", &info, &e), -EBADMSG);
	static const char *const bad[] = {"value 5\nx",
					  "command \nx",
					  "command -1\nx",
					  "command 5 6\nx",
					  "command 99999999999999999999\nx",
					  " \nx",
					  "file 1\n/x"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(fd_write_file(dir, "KEY", bad[i], strlen(bad[i]), 0600, false), 0);
		CHECK_EQ(secret_find(&st, "KEY", &info, &e), -EBADMSG);
	}
	CHECK_EQ(symlinkat("/etc/passwd", dir, "LINK"), 0);
	CHECK(secret_find(&st, "LINK", &info, &e) < 0);
}

TAP_MAIN
