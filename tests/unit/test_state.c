/* The state directory: where it is, how it is made, and what is said when it cannot be. */
#include "base/limits.h"
#include "base/str.h"
#include "store_home.h"

#include <sys/file.h>
#include <sys/stat.h>

TEST(makes_private_directories)
{
	struct state s;
	struct stat st;

	home_open(&s);
	CHECK_STR(s.home, home_path);
	CHECK_EQ(strlen(s.tag), 8);
	CHECK(fstat(s.boxes_fd, &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(fstat(s.images_fd, &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(fstat(s.layers_fd, &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(fstat(s.workspaces_fd, &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(fstat(s.run_fd, &st) == 0 && (st.st_mode & 0777) == 0700);
	CHECK(fcntl(s.boxes_fd, F_GETFD) == FD_CLOEXEC);
	state_close(&s);
	state_close(&s);
	memset(&s, 0, sizeof(s));
	state_close(&s);
	CHECK(fcntl(0, F_GETFD) >= 0);
}

TEST(an_argument_wins_over_the_environment)
{
	struct state s;
	struct err e = {0};
	char given[96], want[96];

	home_make();
	snprintf(given, sizeof(given), "%s/./deep//er/", home_path);
	CHECK_EQ(state_open(&s, given, true, &e), 0);
	snprintf(want, sizeof(want), "%s/deep/er", home_path);
	CHECK_STR(s.home, want);
	snprintf(want, sizeof(want), "%s/deep/er/run", home_path);
	CHECK_STR(s.run, want);
	state_close(&s);
}

TEST(a_relative_home_is_refused)
{
	struct state s;
	struct err e = {0};

	home_make();
	CHECK(chdir(home_path) == 0);
	CHECK_EQ(state_open(&s, "deep/er", true, &e), -EINVAL);
	CHECK(strstr(e.msg, "'deep/er'") && strstr(e.msg, "absolute") &&
	      strstr(e.msg, "COVE_HOME"));
	CHECK(access("deep", F_OK) < 0);
	setenv("COVE_HOME", ".", 1);
	CHECK_EQ(state_open(&s, NULL, false, &e), -EINVAL);
}

TEST(two_homes_have_two_tags)
{
	struct state a, b;
	char other[96];

	home_open(&a);
	snprintf(other, sizeof(other), "%s/other", home_path);
	CHECK_EQ(state_open(&b, other, true, NULL), 0);
	CHECK(strcmp(a.tag, b.tag) != 0);
	state_close(&a);
	state_close(&b);
}

TEST(without_make_nothing_is_made)
{
	struct state s;
	struct err e = {0};
	char missing[96], **names;
	size_t count;

	home_make();
	snprintf(missing, sizeof(missing), "%s/missing", home_path);
	CHECK_EQ(state_open(&s, missing, false, &e), 0);
	CHECK(access(missing, F_OK) < 0);
	CHECK_STR(s.home, missing);
	CHECK_EQ(s.home_fd, -1);
	CHECK_EQ(s.boxes_fd, -1);
	CHECK_EQ(state_names(s.boxes_fd, &names, &count), 0);
	CHECK_EQ(count, 0u);
	state_names_free(names, count);
	CHECK_EQ(state_make(&s, &e), 0);
	CHECK(s.home_fd >= 0 && s.boxes_fd >= 0 && s.run_fd >= 0 && s.layers_fd >= 0);
	state_close(&s);
}

HOME_TEST(what_is_there_is_opened_and_what_is_missing_is_made_later)
{
	struct err e = {0};
	char run[96];
	int boxes;

	state_close(s);
	snprintf(run, sizeof(run), "%s/run", home_path);
	CHECK(rmdir(run) == 0);
	CHECK_EQ(state_open(s, NULL, false, &e), 0);
	CHECK(s->boxes_fd >= 0 && s->run_fd == -1);
	CHECK(access(run, F_OK) < 0);
	boxes = s->boxes_fd;
	CHECK_EQ(state_make(s, &e), 0);
	CHECK(s->boxes_fd == boxes && s->run_fd >= 0);
}

TEST(a_file_in_the_way_names_the_remedy)
{
	struct state s;
	struct err e = {0};
	char file[96];

	home_make();
	snprintf(file, sizeof(file), "%s/file", home_path);
	CHECK(close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
	CHECK(state_open(&s, file, true, &e) < 0);
	CHECK(strstr(e.msg, "not a directory") && strstr(e.msg, "COVE_HOME"));
	strcat(file, "/below");
	CHECK(state_open(&s, file, true, &e) < 0);
	CHECK(strstr(e.msg, "not a directory") && strstr(e.msg, "COVE_HOME"));
}

TEST(a_link_below_the_home_is_refused)
{
	struct state s;
	struct err e = {0};
	char boxes[96];

	home_make();
	snprintf(boxes, sizeof(boxes), "%s/boxes", home_path);
	CHECK(symlink("/tmp", boxes) == 0);
	CHECK(state_open(&s, NULL, true, &e) < 0);
}

TEST(a_directory_everybody_can_write_to_is_refused)
{
	struct state s;
	struct err e = {0};

	home_make();
	CHECK(chmod(home_path, 0777) == 0);
	CHECK_EQ(state_open(&s, NULL, true, &e), -EPERM);
	CHECK(strstr(e.msg, "COVE_HOME") != NULL);
}

TEST(an_unwritable_place_names_the_remedy)
{
	struct state s;
	struct err e = {0};

	CHECK(state_open(&s, "/proc/cove", true, &e) < 0);
}

/* As nobody, in a process of its own: the test has to clean up as who it is. */
static void check_as_nobody(void)
{
	char below[96];
	struct state s;
	struct err e = {0};

	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	CHECK_EQ(state_open(&s, NULL, true, &e), -EPERM);
	CHECK(strstr(e.msg, "another user") && strstr(e.msg, "COVE_HOME"));
	snprintf(below, sizeof(below), "%s/below", home_path);
	CHECK_EQ(state_open(&s, below, true, &e), -EACCES);
	CHECK(strstr(e.msg, "permission denied") && strstr(e.msg, "COVE_HOME"));
	_exit(0);
}

TEST(somebody_elses_directory_names_the_remedy)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		SKIP("needs root to become somebody else");
	home_make();
	CHECK(chmod(home_path, 0755) == 0);
	pid = fork();
	if (pid == 0)
		check_as_nobody();
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(without_home_it_says_so)
{
	struct state s;
	struct err e = {0};

	if (geteuid() == 0)
		CHECK(setuid(65534) == 0);
	unsetenv("HOME");
	unsetenv("COVE_HOME");
	unsetenv("XDG_DATA_HOME");
	CHECK_EQ(state_open(&s, NULL, true, &e), -EINVAL);
	CHECK(strstr(e.msg, "HOME is not set") && strstr(e.msg, "COVE_HOME"));
}

TEST(a_path_that_is_too_long_is_refused)
{
	char path[4000];
	struct state s;
	struct err e = {0};

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	CHECK_EQ(state_open(&s, path, true, &e), -ENAMETOOLONG);
}

TEST(a_full_disk_names_the_remedy)
{
	struct state s = {0};
	struct err e = {0};

	str_copy(s.home, sizeof(s.home), "/somewhere");
	CHECK_EQ(state_error(&s, ENOSPC, "make the box in", &e), -ENOSPC);
	CHECK_EQ(e.kind, ERR_FULL);
	CHECK(strstr(e.msg, "disk is full") && strstr(e.msg, "COVE_HOME"));
}

HOME_TEST(leftovers_are_those_whose_maker_is_gone)
{
	char mine[32], dead[32], **names;
	int mine_fd, dead_fd;
	size_t count;

	CHECK_EQ(state_new_dir(s->layers_fd, mine, &mine_fd), 0);
	CHECK_EQ(state_new_dir(s->layers_fd, dead, &dead_fd), 0);
	close(dead_fd);
	CHECK(mkdirat(s->layers_fd, ".gone-1", 0700) == 0 &&
	      mkdirat(s->layers_fd, "thing", 0700) == 0);
	CHECK_EQ(state_leftovers(s->layers_fd, &names, &count), 0);
	CHECK(count >= 2 && count <= 3); /* a renamed one may be read twice */
	for (size_t i = 0; i < count; i++)
		CHECK(str_starts(names[i], ".gone-"));
	CHECK(faccessat(s->layers_fd, mine, F_OK, 0) == 0);
	CHECK(faccessat(s->layers_fd, dead, F_OK, 0) < 0);
	state_names_free(names, count);
	close(mine_fd);
}

/* Makers and a sweep at the same time: what a maker was given stays its own. */
HOME_TEST(a_sweep_never_takes_what_is_being_made)
{
	pid_t sweeper;

	sweeper = fork();
	if (sweeper == 0) {
		for (;;) {
			char **names;
			size_t count;

			if (state_leftovers(s->layers_fd, &names, &count) < 0)
				_exit(1);
			for (size_t i = 0; i < count; i++)
				tree_remove(s->layers_fd, names[i], NULL);
			state_names_free(names, count);
		}
	}
	for (int i = 0; i < 300; i++) {
		char name[32];
		int fd, r = state_new_dir(s->layers_fd, name, &fd);

		CHECK_EQ(r, 0);
		CHECK(mkdirat(fd, "rootfs", 0700) == 0);
		CHECK(faccessat(s->layers_fd, name, F_OK, 0) == 0);
		close(fd);
	}
	kill(sweeper, SIGKILL);
	waitpid(sweeper, NULL, 0);
}

HOME_TEST(names_are_sorted_and_skip_what_is_none)
{
	static const char *const made[] = {"b", "a-1", ".hidden", "Upper", "c_d", "z"};
	char **names;
	size_t count;

	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		CHECK(mkdirat(s->boxes_fd, made[i], 0700) == 0);
	CHECK_EQ(state_names(s->boxes_fd, &names, &count), 0);
	CHECK_EQ(count, 3);
	CHECK_STR(names[0], "a-1");
	CHECK_STR(names[1], "b");
	CHECK_STR(names[2], "z");
	state_names_free(names, count);
}

TAP_MAIN
