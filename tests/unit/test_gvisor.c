/* The gVisor wall without gVisor: what is known of a runsc, what is learned by running it, and the
 * bundle. */
#include "wall/gvisor/gvisor.h"

#include "base/fd.h"
#include "store_home.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char program[128];

/* A program that answers as runsc does, and counts how often it was asked for its flags. */
static struct wall_config with_program(const char *flags)
{
	const char *home = home_make();
	autoclose int fd = -1;

	snprintf(program, sizeof(program), "%s/runsc", home);
	fd = open(program, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	CHECK(dprintf(fd,
		      "#!/bin/sh\n"
		      "case $1 in --version) echo runsc version release-1;;\n"
		      "flags) echo asked >>%s/asked; printf '%%b' '%s';;\nesac\n",
		      home, flags) > 0);
	return (struct wall_config){.program = program, .state_dir = home};
}

static void know(const struct wall_config *c, struct gvisor_program *ret)
{
	autoclose int fd = fd_open(c->program, O_RDONLY), note = -1;
	struct err e = {0};

	*ret = (struct gvisor_program){0};
	if (gvisor_know(c, fd, ret, &note, &e) < 0)
		FAIL(e.msg);
}

static bool learn(const struct wall_config *c, bool came_up)
{
	autoclose int fd = fd_open(c->program, O_RDONLY), note = -1;
	struct gvisor_program p = {0};
	struct err e = {0};

	CHECK_EQ(gvisor_know(c, fd, &p, &note, &e), 0);
	return gvisor_learn(note, fd, &p, came_up);
}

static const char *platform(const struct wall_config *c)
{
	static struct gvisor_program p;

	know(c, &p);
	return gvisor_platform(&p);
}

static long times_asked(const struct wall_config *c)
{
	char path[160];
	struct stat st;

	snprintf(path, sizeof(path), "%s/asked", c->state_dir);
	return stat(path, &st) < 0 ? 0 : (long)st.st_size / (long)strlen("asked\n");
}

TEST(a_program_is_asked_once)
{
	struct wall_config c = with_program("\\n  -allow-suid\\n  -platform systrap");
	struct gvisor_program p;

	know(&c, &p);
	CHECK_EQ(p.has, GVISOR_SUID | GVISOR_SYSTRAP);
	CHECK_STR(p.version, "release-1");
	know(&c, &p);
	CHECK_EQ(p.has, GVISOR_SUID | GVISOR_SYSTRAP);
	CHECK_EQ(times_asked(&c), 1);
}

TEST(a_program_that_changed_is_asked_again)
{
	struct wall_config c = with_program("systrap");
	int fd;

	CHECK_STR(platform(&c), "systrap");
	fd = open(program, O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK(write(fd, "\n", 1) == 1);
	close(fd);
	CHECK_STR(platform(&c), "systrap");
	CHECK_EQ(times_asked(&c), 2);
}

/* Of another program, cut off, or no numbers: it is asked again. */
TEST(what_is_kept_may_be_anything)
{
	static const char *const rests[] = {"", " ", " zz v\n", " 8", "x 8 v\n"};
	struct wall_config c = with_program("systrap");
	char path[160], key[128] = "", text[160];
	int fd;

	CHECK_STR(platform(&c), "systrap");
	snprintf(path, sizeof(path), "%s/walls/gvisor/known", c.state_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(read(fd, key, sizeof(key) - 1) > 0);
	close(fd);
	key[strcspn(key, " ")] = 0;
	for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", key, rests[i]);
		fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
		close(fd);
		CHECK_STR(platform(&c), "systrap");
		CHECK_EQ(times_asked(&c), (long)i + 2);
	}
}

/* Until a box comes up each start tries the other platform, and from then on none does. */
TEST(the_platform_is_learned)
{
	struct wall_config c = with_program("systrap");

	CHECK_STR(platform(&c), "systrap");
	CHECK(learn(&c, false));
	CHECK_STR(platform(&c), "ptrace");
	CHECK(learn(&c, false));
	CHECK_STR(platform(&c), "systrap");
	CHECK(learn(&c, false));
	CHECK(!learn(&c, true));
	CHECK_STR(platform(&c), "ptrace");
	CHECK(!learn(&c, false));
	CHECK_STR(platform(&c), "ptrace");
	CHECK_EQ(times_asked(&c), 1);
}

TEST(a_program_without_systrap_has_no_other_platform)
{
	struct wall_config c = with_program("ptrace");

	CHECK(!learn(&c, false));
	CHECK_STR(platform(&c), "ptrace");
}

/* JSON is UTF-8: what cannot be said in it is refused, not changed. */
TEST(arguments_in_the_bundle)
{
	static const char *const odd[] = {"a\xff", "\xc0\x80", "\xed\xa0\x80"};
	struct wall_config c = {.name = "b"};
	struct gvisor_build g = {.config = &c, .runsc = {.has = GVISOR_SETTINGS}};
	struct buf text;

	for (size_t i = 0; i <= sizeof(odd) / sizeof(odd[0]); i++) {
		char *argv[] = {(char[]){"init"}, (char[]){"quote\" line\n"}, NULL, NULL};

		if (i > 0)
			argv[2] = (char *)(uintptr_t)odd[i - 1];
		c.init_argv = argv;
		buf_init(&text, GVISOR_BUNDLE_MAX);
		CHECK_EQ(gvisor_bundle_write(&g, &text), i ? -EILSEQ : 0);
		if (i == 0)
			CHECK(memmem(buf_data(&text), buf_len(&text), "quote\\\" line\\n", 14) !=
			      NULL);
		buf_done(&text);
	}
}

/* In a process of its own: a filter stays. Each is tried as the filter's reader would. */
static int try_modes(const char *dir)
{
	enum { BAD = 04755, WORSE = 02755, GOOD = 0755, STICKY = 01777, FCHMODAT2 = 452 };
	char file[160];
	int fd;

	snprintf(file, sizeof(file), "%s/f", dir);
	fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || gvisor_hold_modes() < 0)
		return 1;
	if (fchmod(fd, GOOD) < 0 || fchmodat(AT_FDCWD, file, 0640, 0) < 0 ||
	    fchmodat(AT_FDCWD, dir, STICKY, 0) < 0)
		return 2;
	if (fchmod(fd, BAD) == 0 || errno != EPERM || fchmod(fd, WORSE) == 0)
		return 3;
	if (syscall(SYS_fchmodat, AT_FDCWD, file, BAD) == 0 || errno != EPERM)
		return 4;
	if (syscall(FCHMODAT2, AT_FDCWD, file, BAD, 0) == 0 || (errno != EPERM && errno != ENOSYS))
		return 5;
	/* A mode that is not looked at is no mode. */
	if (syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC, BAD) < 0)
		return 6;
	snprintf(file, sizeof(file), "%s/g", dir);
	if (syscall(SYS_openat, AT_FDCWD, file, O_CREAT | O_WRONLY, BAD) >= 0 || errno != EPERM)
		return 7;
	if (syscall(SYS_openat, AT_FDCWD, dir, O_TMPFILE | O_WRONLY, WORSE) >= 0 || errno != EPERM)
		return 8;
	if (mknodat(AT_FDCWD, file, S_IFREG | BAD, 0) == 0 || errno != EPERM)
		return 9;
#ifdef SYS_chmod
	if (syscall(SYS_chmod, dir, BAD) == 0 || syscall(SYS_creat, file, BAD) >= 0 ||
	    syscall(SYS_open, file, O_CREAT | O_WRONLY, BAD) >= 0 ||
	    syscall(SYS_mknod, file, S_IFREG | BAD, 0) == 0)
		return 10;
#endif
	return access(file, F_OK) == 0 ? 11 : 0;
}

TEST(no_set_user_id_files)
{
	const char *dir = home_make();
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(try_modes(dir));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

TAP_MAIN
