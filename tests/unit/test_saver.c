/* The saver: what it runs, what it passes on, how often, and how it ends. */
#include "base/fd.h"
#include "keeper/saver.h"
#include "keeper_rig.h"
#include "tap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char top[] = "/tmp/cove-saver.XXXXXX", program[64], seen[64];

/* A stand-in for cove-save, which notes its arguments. */
static int begin(const char *script)
{
	const struct saver_config c = {
		.program = program, .home = "/h", .run = "/r", .box = "rig", .keep = 3};
	struct err e = {0};
	char text[512];
	int fd;

	CHECK(mkdtemp(top));
	snprintf(program, sizeof(program), "%s/cove-save", top);
	snprintf(seen, sizeof(seen), "%s/seen", top);
	snprintf(text, sizeof(text), "#!/bin/sh\necho \"$*\" >>%s\n%s\n", seen, script);
	fd = open(program, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	close(fd);
	if (saver_start(&c, &fd, &e) < 0)
		FAIL(e.msg);
	return fd;
}

static void end(int fd)
{
	close(fd);
	while (wait(NULL) > 0)
		;
	remove_temporary(top);
}

static struct saver_answer hear(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct saver_answer a;

	CHECK_EQ(poll(&p, 1, 60000), 1);
	CHECK_EQ(saver_receive(fd, &a), 1);
	return a;
}

TEST(it_runs_one_program_on_one_box)
{
	int fd = begin("printf 'name rig-before\\nfrozen_us 1500\\ntotal_us 9000\\nleft 2\\n'");
	struct saver_answer a;
	char *text = NULL;

	CHECK_EQ(saver_ask(fd, "before"), 0);
	a = hear(fd);
	CHECK_EQ(a.error.kind, ERR_NONE);
	CHECK_STR(a.name, "rig-before");
	CHECK(a.frozen_us == 1500 && a.total_us == 9000 && a.left == 2);
	CHECK_EQ(fd_read_file(AT_FDCWD, seen, 4096, &text, NULL), 0);
	CHECK_STR(text, "/h /r rig before 3\n");
	free(text);
	/* Not again so soon, whatever the keeper has become. */
	CHECK_EQ(saver_ask(fd, "again"), 0);
	CHECK_EQ(hear(fd).error.kind, ERR_LIMIT);
	end(fd);
}

TEST(what_is_no_name_is_never_an_argument)
{
	int fd = begin("printf 'name x\\n'");

	CHECK_EQ(saver_ask(fd, "../x"), 0);
	CHECK_EQ(hear(fd).error.kind, ERR_INVALID);
	CHECK_EQ(saver_ask(fd, "--help"), 0);
	CHECK_EQ(hear(fd).error.kind, ERR_INVALID);
	CHECK(access(seen, F_OK) < 0);
	end(fd);
}

TEST(its_refusal_is_passed_on)
{
	int fd = begin("printf 'error_kind 3\\nerror_code 17\\nerror there is one\\n'; exit 1");
	struct saver_answer a;

	CHECK_EQ(saver_ask(fd, "x"), 0);
	a = hear(fd);
	CHECK(a.error.kind == ERR_EXISTS && a.error.code == 17);
	CHECK_STR(a.error.msg, "there is one");
	end(fd);
}

TEST(one_that_ends_without_a_word_failed)
{
	int fd = begin("kill -9 $$");

	CHECK_EQ(saver_ask(fd, "x"), 0);
	CHECK_EQ(hear(fd).error.kind, ERR_INTERRUPTED);
	end(fd);
}

TEST(one_that_is_missing_failed)
{
	int fd = begin("true");

	CHECK_EQ(unlink(program), 0);
	CHECK_EQ(saver_ask(fd, "x"), 0);
	CHECK_EQ(hear(fd).error.kind, ERR_INTERRUPTED);
	end(fd);
}

/* The end of the keeper is that of all below it. */
TEST(nothing_outlives_its_keeper)
{
	int fd = begin("sleep 1000 & exec sleep 1000");
	struct pollfd none = {.fd = -1};

	CHECK_EQ(saver_ask(fd, "x"), 0);
	while (access(seen, F_OK) < 0)
		poll(&none, 1, 10);
	CHECK_EQ(saver_ask(fd, "y"), 0); /* one at a time */
	CHECK_EQ(hear(fd).error.kind, ERR_CONFLICT);
	end(fd);
}

TAP_MAIN
