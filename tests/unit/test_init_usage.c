/* What commands and lines used, and the box's limits where they are hit: with real cgroups, in
 * whichever layout this machine has. */
#include "group_rig.h"
#include "shell_client.h"
#include "tap.h"

#include <fcntl.h>

enum { MIB = 1 << 20 };

#define BUSY "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
/* tail keeps all of what has no newline. */
#define GROW(mib) "head -c " #mib "M /dev/zero | tail -n 1 >/dev/null"

static struct run *run_sh(struct client *c, const char *text)
{
	struct buf list;
	struct wire_exec m = {0};
	struct run *r;

	buf_init(&list, 65536);
	wire_list_add(&list, "/bin/sh");
	wire_list_add(&list, "-c");
	wire_list_add(&list, text);
	m.argv = wire_list_of(&list);
	r = run_start(c, &m);
	buf_done(&list);
	return r;
}

TEST(a_command_tells_what_it_used)
{
	struct rig rig;
	struct client *c;
	struct run *idle, *busy, *large, *io;

	rig_make(&rig, 512ull * MIB, 0);
	c = shells_begin_with(&rig.inherited, rig.args);
	CHECK_STR(c->notes, "none");
	idle = run_finished(c, "true");
	busy = run_finished(c, BUSY);
	large = run_finished(c, GROW(64));
	io = run_finished(c, "dd if=/dev/zero of=f bs=1M count=4 oflag=direct conv=fsync");
	run_check_exit(idle, 0);
	run_check_exit(busy, 0);
	run_check_exit(large, 0);
	printf("# cpu %llu %llu us, peak %llu %llu KiB, written %llu\n",
	       (unsigned long long)idle->exit.cpu_us, (unsigned long long)busy->exit.cpu_us,
	       (unsigned long long)idle->exit.mem_peak_bytes >> 10,
	       (unsigned long long)large->exit.mem_peak_bytes >> 10,
	       (unsigned long long)io->exit.io_write_bytes);
	CHECK(idle->exit.cpu_us > 0);
	CHECK(busy->exit.cpu_us > 2 * idle->exit.cpu_us);
	CHECK(idle->exit.mem_peak_bytes > 0);
	CHECK(idle->exit.mem_peak_bytes < 32 * MIB);
	CHECK(large->exit.mem_peak_bytes >= 64 * MIB);
	CHECK(large->exit.mem_peak_bytes <= 512ull * MIB);
	CHECK_EQ(idle->exit.oom_killed, 0);
	if (io->exit.exit_code == 0 && io->exit.io_write_bytes > 0)
		CHECK(io->exit.io_write_bytes >= 4 * MIB);
	else
		printf("# this file system does not tell direct writes\n");
	for (int i = 0; rig_count(&rig, io->id) > 0; i++) {
		CHECK(i < 4000); /* groups go after the answer */
		poll(NULL, 0, 5);
	}
	shells_end(c);
	rig_remove(&rig);
}

/* Lines that leave nobody share a group, and still each tells its own. */
TEST(a_line_tells_what_it_used_itself)
{
	struct rig rig;
	struct client *c;
	struct run *busy, *idle;

	rig_make(&rig, 512ull * MIB, 0);
	c = shells_begin_with(&rig.inherited, rig.args);
	kept(c, ":", 0, "");
	busy = kept(c, BUSY "; " GROW(64), 0, "");
	idle = kept(c, ":", 0, "");
	printf("# cpu %llu then %llu us, peak %llu then %llu KiB\n",
	       (unsigned long long)busy->exit.cpu_us, (unsigned long long)idle->exit.cpu_us,
	       (unsigned long long)busy->exit.mem_peak_bytes >> 10,
	       (unsigned long long)idle->exit.mem_peak_bytes >> 10);
	CHECK(busy->exit.cpu_us > 2 * idle->exit.cpu_us);
	CHECK(busy->exit.mem_peak_bytes >= 64 * MIB);
	CHECK(idle->exit.mem_peak_bytes < 64 * MIB);
	CHECK(rig_has_everywhere(&rig, "e2147483648"));
	shells_end(c);
	rig_remove(&rig);
}

TEST(out_of_memory_is_told_and_the_next_command_works)
{
	struct rig rig;
	struct client *c;
	struct run *r;

	rig_make(&rig, 64 * MIB, 0);
	c = shells_begin_with(&rig.inherited, rig.args);
	r = run_sh(c, "exec tail -n 1 /dev/zero");
	run_wait(c, r);
	CHECK_EQ(r->exit.signal, SIGKILL);
	CHECK_EQ(r->exit.oom_killed, 1);
	CHECK_STR(r->cause, "oom");
	r = run_sh(c, "tail -n 1 /dev/zero; exit 7");
	run_wait(c, r);
	CHECK_EQ(r->exit.exit_code, 7);
	CHECK_EQ(r->exit.oom_killed, 1);
	CHECK_STR(r->cause, "oom");
	/* One that went on and succeeded has had an out-of-memory, but did not fail of it. */
	r = run_sh(c, "tail -n 1 /dev/zero; exit 0");
	run_wait(c, r);
	CHECK_EQ(r->exit.oom_killed, 1);
	CHECK_STR(r->cause, "exit");
	r = run_finished(c, "exit 9");
	CHECK_EQ(r->exit.oom_killed, 0);
	run_check_exit(r, 9);
	shells_end(c);
	rig_remove(&rig);
}

TEST(a_shell_that_ran_out_of_memory_is_replaced)
{
	struct rig rig;
	struct client *c;
	struct run *r;

	rig_make(&rig, 64 * MIB, 0);
	c = shells_begin_with(&rig.inherited, rig.args);
	mark(c);
	r = line(c, "tail -n 1 /dev/zero");
	CHECK_EQ(r->exit.exit_code, 137);
	CHECK_EQ(r->exit.oom_killed, 1);
	CHECK_STR(r->cause, "oom");
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	r = kept(c, "false; :", 0, "");
	CHECK_EQ(r->exit.oom_killed, 0);
	check_mark(c);
	r = line(c, "a=xxxxxxxxxxxxxxxx; while :; do a=$a$a; done");
	CHECK_EQ(r->exit.oom_killed, 1);
	CHECK_STR(r->cause, "oom");
	CHECK_EQ(r->exit.signal, SIGKILL);
	CHECK_EQ(r->exit.shell_state, SHELL_RESTARTED);
	CHECK(r->exit.mem_peak_bytes > 32 * MIB);
	kept(c, "echo \"<$mark>\"", 0, "<>\n");
	shells_end(c);
	rig_remove(&rig);
}

TEST(refused_forks_are_told)
{
	struct rig rig;
	struct client *c;
	struct run *r, *hold, *refused;
	char text[160];
	int fd;

	rig_make(&rig, 0, 24);
	c = shells_begin_with(&rig.inherited, rig.args);
	r = run_sh(c, "exit 3");
	run_wait(c, r);
	run_check_exit(r, 3);
	r = run_sh(c, "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done");
	run_wait(c, r);
	CHECK(!r->exit.has_exit || r->exit.exit_code != 0);
	CHECK_STR(r->cause, "pids");
	CHECK_EQ(r->exit.oom_killed, 0);
	/* Those it left have every place but its own. */
	hold = run_sh(c, "exec sleep 1000");
	run_wait_started(c, hold);
	refused = run_sh(c, "true");
	run_wait(c, refused);
	CHECK_EQ(refused->code, EAGAIN);
	CHECK_STR(refused->msg, "the box is at its limit of 24 processes (--pids)");
	run_signal(c, hold, SIGKILL, true);
	run_wait(c, hold);
	CHECK_STR(hold->cause, "killed");
	snprintf(text, sizeof(text), "e%u", (unsigned)r->id);
	CHECK(rig_has_everywhere(&rig, text));
	snprintf(text, sizeof(text), "%s/work/e%u/cgroup.kill", rig.path[RIG_TREE],
		 (unsigned)r->id);
	fd = open(text, O_WRONLY | O_CLOEXEC);
	CHECK_EQ(write(fd, "1", 1), 1);
	close(fd);
	snprintf(text, sizeof(text), "e%u", (unsigned)r->id);
	for (int i = 0; rig_has(&rig, text); i++) {
		CHECK(i < 4000);
		client_pump(c, false);
		poll(NULL, 0, 5);
	}
	r = run_sh(c, "exit 4");
	run_wait(c, r);
	run_check_exit(r, 4); /* an earlier command's trouble is not its own */
	shells_end(c);
	rig_remove(&rig);
}

static const char *group_of_shell(struct client *c, char *ret, size_t size)
{
	struct run *r = line(c, "while IFS= read -r l; do echo \"${l##*/}\"; done "
				"</proc/$$/cgroup | grep '^e2' | sort | uniq -c");
	unsigned n = 0;

	CHECK_EQ(sscanf(run_out(r), "%u %31s", &n, ret), 2);
	printf("# %u %s\n", n, ret);
	CHECK(n == 1 || n == 3);
	(void)size;
	return ret;
}

/* A line that leaves a job behind leaves its group to it, in every hierarchy. */
TEST(a_job_keeps_its_groups_and_the_shell_moves_on)
{
	struct rig rig;
	struct client *c;
	char before[32], after[32], kill_it[64];
	struct run *job;

	rig_make(&rig, 512ull * MIB, 0);
	c = shells_begin_with(&rig.inherited, rig.args);
	mark(c);
	group_of_shell(c, before, sizeof(before));
	job = line(c, "setsid sleep 1000 >/dev/null 2>&1 & echo $!");
	CHECK_EQ(job->exit.shell_state, SHELL_KEPT);
	group_of_shell(c, after, sizeof(after));
	CHECK(strcmp(before, after) != 0);
	CHECK(rig_has_everywhere(&rig, before));
	CHECK(rig_has_everywhere(&rig, after));
	timed(c, "setsid sleep 1000 & sleep 1000", 200);
	CHECK(is_alive(atoi(run_out(job))));
	check_mark(c);
	snprintf(kill_it, sizeof(kill_it), "kill -9 %d", atoi(run_out(job)));
	kept(c, kill_it, 0, "");
	for (int i = 0; rig_has(&rig, before); i++) {
		CHECK(i < 4000);
		check_mark(c);
		poll(NULL, 0, 5);
	}
	shells_end(c);
	rig_remove(&rig);
}

TAP_MAIN
