/* Options of cove-init that say what a box may not: root in a strict one, more than its disk. */
#include "exec_client.h"
#include "small_disk.h"
#include "tap.h"

#include <fcntl.h>

static struct run *run_as(struct client *c, const char *user, const char *line)
{
	struct run *r = run_start(c, &(struct wire_exec){.line = line, .user = user});

	run_wait(c, r);
	return r;
}

TEST(a_strict_box_has_no_root)
{
	static const char *const args[] = {"--strict", "--cwd", "/", NULL};
	static const char *const roots[] = {"root", "0", "0:0", "0:1000", "00"};
	struct client *c;

	if (geteuid() != 0)
		SKIP("not root: there are no ids to choose from");
	c = client_start(false, args);
	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		struct run *r = run_as(c, roots[i], "id -u");

		CHECK_EQ(r->started, false);
		CHECK_EQ(r->code, EPERM);
	}
	/* Nobody is named: never root, whatever the image has. */
	CHECK_STR(run_out(run_as(c, NULL, "id -u")), "1000\n");
	CHECK_STR(run_out(run_as(c, "1234:1234", "id -u; id -g")), "1234\n1234\n");
	CHECK_EQ(client_stop(c), 0);
}

TEST(a_strict_box_whose_user_is_root_says_so)
{
	static const char *const args[] = {"--strict", "--user", "root", "--cwd", "/", NULL};
	struct client *c;
	struct run *r;

	if (geteuid() != 0)
		SKIP("not root: there are no ids to choose from");
	c = client_start(false, args);
	r = run_as(c, NULL, "id -u");
	CHECK_EQ(r->code, EPERM);
	CHECK_STR(run_out(run_as(c, "1000", "id -u")), "1000\n");
	CHECK_EQ(client_stop(c), 0);
}

TEST(a_full_disk_is_told)
{
	char path[SMALL_DISK_PATH];
	const char *args[] = {"--single", "--cwd",  path, "--disk-limit",
			      "1048576",  "--disk", path, NULL};
	struct client *c;
	struct run *r;

	small_disk_mount(path, 1);
	c = client_start(false, args);
	r = run_finished(c, "exit 3");
	CHECK_STR(r->cause, "exit");
	r = run_finished(c, "head -c 4M /dev/zero >big");
	CHECK(r->exit.exit_code != 0);
	CHECK_STR(r->cause, "disk");
	r = run_finished(c, ": it succeeds");
	CHECK_STR(r->cause, "exit");
	r = run_finished(c, "rm big; exit 3");
	CHECK_STR(r->cause, "exit");
	/* No place for names is no place, too. */
	r = run_finished(c, "i=0; while [ $i -lt 100 ]; do : >$i || exit 9; i=$((i+1)); done");
	CHECK(r->exit.exit_code != 0);
	CHECK_STR(r->cause, "disk");
	CHECK_EQ(client_stop(c), 0);
	small_disk_unmount(path);
}

/* Another's full disk is not the box's limit. */
TEST(a_full_disk_that_is_not_the_boxes_is_not_blamed)
{
	char path[SMALL_DISK_PATH];
	const char *small[] = {"--single", "--cwd",  path, "--disk-limit",
			       "1048576",  "--disk", path, NULL};
	const char *other[] = {"--single", "--cwd", path, "--disk-limit", "16777216", NULL};
	const char *none[] = {"--single", "--cwd", path, NULL};
	struct client *c;

	small_disk_mount(path, 16);
	c = client_start(false, small);
	CHECK_STR(run_finished(c, "head -c 20M /dev/zero >big")->cause, "exit");
	CHECK_EQ(client_stop(c), 0);
	c = client_start(false, none);
	CHECK_STR(run_finished(c, "head -c 20M /dev/zero >big")->cause, "exit");
	CHECK_EQ(client_stop(c), 0);
	/* As large as the limit, and full; but none that the limit was set for. */
	c = client_start(false, other);
	CHECK_STR(run_finished(c, "false")->cause, "exit");
	CHECK_STR(run_finished(c, "cd /proc && false")->cause, "exit");
	CHECK_EQ(client_stop(c), 0);
	small_disk_unmount(path);
}

static int start_alone(const char *const args[])
{
	const char *program = getenv("COVE_INIT");
	char *argv[16] = {(char[]){"cove-init"}};
	int status, null;
	pid_t pid;

	if (!program)
		SKIP("COVE_INIT is not set");
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		closefrom(3);
		for (int i = 0; args[i]; i++)
			argv[i + 1] = (char *)(uintptr_t)args[i];
		execv(program, argv);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(options_that_make_no_sense_end_it)
{
	static const char *const bad[][4] = {
		{"--disk-limit", NULL},
		{"--disk-limit", "-1", NULL},
		{"--disk-limit", "1G", NULL},
		{"--pids-limit", "", NULL},
		{"--pids-limit", "99999999999", NULL},
		{"--cgroup", "--cgroup", NULL}, /* it is one directory */
		{"--memory-v1", NULL},		/* there is no such descriptor */
		{"--strictly", NULL},
		{"", NULL},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_EQ(start_alone(bad[i]), 1);
}

TAP_MAIN
