/* Looking up users: with passwd and group files of our own, mounted over the real ones in a mount
 * namespace of the test. */
#include "init/user.h"
#include "tap.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	close(fd);
}

/* An ordinary user needs to be root somewhere, to mount and to own what is made there. */
static void enter_user_namespace(void)
{
	char map[32];
	gid_t gid = getegid();

	snprintf(map, sizeof(map), "0 %u 1", (unsigned)geteuid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		SKIP("no mount namespace of its own");
	write_text("/proc/self/setgroups", "deny");
	write_text("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
	write_text("/proc/self/gid_map", map);
}

/* A private /etc with these two files. */
static void use_files(const char *passwd, const char *group)
{
	if (unshare(CLONE_NEWNS) < 0)
		enter_user_namespace();
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mount("none", "/etc", "tmpfs", 0, NULL), 0);
	if (passwd)
		write_text("/etc/passwd", passwd);
	if (group)
		write_text("/etc/group", group);
}

static const char passwd_text[] = "root:x:0:0:root:/root:/bin/bash\n"
				  "\n"
				  "broken:x:12\n"
				  "alsobroken:x:twelve:0:::\n"
				  "user:x:1000:1000:A User,,,:/home/user:/bin/zsh\n"
				  "user:x:1:1:second:/second:/bin/second\n"
				  "1234:x:77:78::/digits:/bin/sh\n"
				  "nohome:x:5:5:::\n";
static const char group_text[] = "root:x:0:\n"
				 "wheel:x:10:root,user\n"
				 "user:x:1000:user\n"
				 "users:x:100:userx,xuser\n"
				 "audio:x:29:nohome,user\n"
				 "broken:x:\n";

TEST(by_name)
{
	struct err e = {0};
	struct user u;

	use_files(passwd_text, group_text);
	CHECK_EQ(user_find("user", &u, &e), 0);
	CHECK_EQ(u.uid, 1000);
	CHECK_EQ(u.gid, 1000);
	CHECK_STR(u.name, "user");
	CHECK_STR(u.home, "/home/user");
	CHECK_STR(u.shell, "/bin/zsh");
	CHECK_EQ(u.group_count, 3);
	CHECK_EQ(u.groups[0], 1000);
	CHECK_EQ(u.groups[1], 10);
	CHECK_EQ(u.groups[2], 29);
	CHECK_EQ(user_find("nohome", &u, &e), 0);
	CHECK_STR(u.home, "/");
	CHECK_STR(u.shell, "/bin/sh");
}

TEST(by_number)
{
	struct err e = {0};
	struct user u;

	use_files(passwd_text, group_text);
	CHECK_EQ(user_find("1000", &u, &e), 0);
	CHECK_STR(u.name, "user");
	CHECK_EQ(u.group_count, 3);
	CHECK_EQ(user_find("1000:10", &u, &e), 0);
	CHECK_EQ(u.gid, 10);
	CHECK_EQ(u.group_count, 1);
	CHECK_EQ(u.groups[0], 10);
	CHECK_EQ(user_find("4321", &u, &e), 0);
	CHECK_EQ(u.uid, 4321);
	CHECK_EQ(u.gid, 4321);
	CHECK_STR(u.home, "/");
	CHECK_STR(u.name, "4321");
	CHECK_EQ(user_find("1234", &u, &e), 0); /* a name of digits is a name first */
	CHECK_EQ(u.uid, 77);
}

TEST(with_a_group)
{
	struct err e = {0};
	struct user u;

	use_files(passwd_text, group_text);
	CHECK_EQ(user_find("user:audio", &u, &e), 0);
	CHECK_EQ(u.uid, 1000);
	CHECK_EQ(u.gid, 29);
	CHECK_EQ(u.group_count, 1);
	CHECK_STR(u.home, "/home/user");
	CHECK_EQ(user_find("user:7", &u, &e), 0);
	CHECK_EQ(u.gid, 7);
	CHECK_EQ(user_find("4321:wheel", &u, &e), 0);
	CHECK_EQ(u.gid, 10);
	CHECK_EQ(user_find("user:none", &u, &e), -ESRCH);
	CHECK_EQ(user_find("none:wheel", &u, &e), -ESRCH);
}

TEST(unknown_is_not_found)
{
	static const char *const names[] = {
		"",	  "nobody", "-1",  "1000:",    ":5",
		"1000:x", "broken", "12x", "1000:1:1", "99999999999999999999"};
	struct user u;

	use_files(passwd_text, group_text);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct err e = {0};

		CHECK_EQ(user_find(names[i], &u, &e), -ESRCH);
		CHECK_EQ(e.kind, ERR_NOT_FOUND);
	}
}

TEST(default_is_1000_or_root)
{
	struct err e = {0};
	struct user u;

	use_files(passwd_text, group_text);
	CHECK_EQ(user_find(NULL, &u, &e), 0);
	CHECK_STR(u.name, "user");
	write_text("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n");
	CHECK_EQ(user_find(NULL, &u, &e), 0);
	CHECK_EQ(u.uid, 0);
	CHECK_STR(u.home, "/root");
}

TEST(without_files)
{
	struct err e = {0};
	struct user u;

	use_files(NULL, NULL);
	CHECK_EQ(user_find(NULL, &u, &e), 0);
	CHECK_EQ(u.uid, 0);
	CHECK_STR(u.name, "root");
	CHECK_EQ(user_find("7", &u, &e), 0);
	CHECK_EQ(user_find("user", &u, &e), -ESRCH);
}

TEST(too_much_is_an_error)
{
	char long_line[9000] = "", groups[4096] = "";
	struct err e = {0};
	struct user u;

	memset(long_line, 'x', sizeof(long_line) - 1);
	memcpy(long_line, "u:x:5:5::/", 10);
	memcpy(long_line + 8000, ":/bin/sh\n", 9);
	long_line[8009] = '\0';
	for (int i = 0; i < USER_GROUPS_MAX + 1; i++)
		snprintf(groups + strlen(groups), 32, "g%d:x:%d:u\n", i, 200 + i);
	use_files(long_line, groups);
	CHECK_EQ(user_find("u", &u, &e), -E2BIG);
	CHECK_STR(u.home, "/"); /* a cut home would be another directory */
	CHECK_EQ(e.kind, ERR_LIMIT);
}

/* This machine's own files, which nothing changes meanwhile; a false answer shows what was read. */
TEST(an_answer_is_kept_while_the_files_are_what_they_were)
{
	struct user_cache c = {0};
	struct err e = {0};
	struct user u;

	CHECK_EQ(user_find_cached(&c, "root", &u, &e), 0);
	CHECK_EQ(u.uid, 0);
	if (!c.valid)
		SKIP("/etc/passwd or /etc/group has just changed");
	c.user.uid = 4242;
	CHECK_EQ(user_find_cached(&c, "root", &u, &e), 0);
	CHECK_EQ(u.uid, 4242);
	CHECK_EQ(user_find_cached(&c, "0", &u, &e), 0);
	CHECK_EQ(u.uid, 0);
	c.user.uid = 4242;
	c.file[1].changed.tv_nsec ^= 1;
	CHECK_EQ(user_find_cached(&c, "0", &u, &e), 0);
	CHECK_EQ(u.uid, 0);
	CHECK(user_find_cached(&c, "no-such-user", &u, &e) < 0);
	CHECK(!c.valid);
}

/* Both changes may have one time. */
TEST(what_has_just_changed_is_read_again)
{
	struct user_cache c = {0};
	struct err e = {0};
	struct user u;

	use_files("user:x:1000:1000::/a:/bin/sh\n", "");
	CHECK_EQ(user_find_cached(&c, "user", &u, &e), 0);
	CHECK_STR(u.home, "/a");
	use_files("user:x:1000:1000::/b:/bin/sh\n", "");
	CHECK_EQ(user_find_cached(&c, "user", &u, &e), 0);
	CHECK_STR(u.home, "/b");
	CHECK(!c.valid);
}

TAP_MAIN
