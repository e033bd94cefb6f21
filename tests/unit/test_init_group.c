/* cove-init with a cgroup of its own, as the wall hands it one. */
#include "exec_client.h"
#include "tap.h"

#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

static bool has_group(int fd, const struct run *r)
{
	char name[16];

	snprintf(name, sizeof(name), "e%u", (unsigned)r->id);
	return faccessat(fd, name, F_OK, 0) == 0;
}

TEST(groups_end_exactly_one_tree)
{
	static const char *const args[] = {"--single", "--cgroup", NULL};
	char path[64], line[32];
	int fd = group_make(path, sizeof(path));
	struct client *c = client_start_in(fd, false, args);
	struct run *r, *daemon;

	CHECK_STR(c->notes, "none");
	r = run_finished(c, "grep -c /e1$ /proc/self/cgroup; ls /proc/self/fd");
	CHECK_STR(run_out(r), "1\n0\n1\n2\n3\n");
	run_wait_eof(c, r);
	daemon = run_finished(c, "setsid sleep 1000 >/dev/null 2>&1 & echo $!");
	run_wait_eof(c, daemon);
	run_check_exit(daemon, 0);
	r = run_start(c, &(struct wire_exec){
				 .line = "(setsid sleep 1000 &); (setsid sleep 1000 >/dev/null "
					 "2>&1 &); sleep 1000",
				 .timeout_ms = 300,
			 });
	run_wait(c, r);
	CHECK_STR(r->cause, "timeout");
	run_wait_eof(c, r);
	CHECK(is_alive(atoi(run_out(daemon))));
	run_check_exit(run_finished(c, "true"), 0);
	CHECK(!has_group(fd, r));
	CHECK(has_group(fd, daemon));
	snprintf(line, sizeof(line), "kill -9 %d", atoi(run_out(daemon)));
	run_check_exit(run_finished(c, line), 0);
	while (has_group(fd, daemon))
		run_wait(c, run_line(c, "sleep 0.05"));
	CHECK_EQ(client_stop(c), 0);
	group_remove(fd, path);
}

TEST(a_group_that_does_not_work_is_told)
{
	static const char *const args[] = {"--single", "--cgroup", NULL};
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct client *c = client_start_in(fd, true, args);

	CHECK(strstr(c->notes, "cannot be used") != NULL);
	run_check_exit(run_finished(c, "true"), 0);
	CHECK_EQ(client_stop(c), 0);
	close(fd);
}

TAP_MAIN
