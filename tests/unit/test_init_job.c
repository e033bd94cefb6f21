/*
 * The life of a job: what one waits for delays no other. A start is held by the kernel (fanotify)
 * for as long as the test likes; memory that does not come back is a file of the test's; time is
 * the test's own where it matters. Everything is asserted by order, nothing by duration.
 */
#include "exec_client.h"
#include "shell_client.h"
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "init/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* --- starts that hang --- */

static int watch_fd;
static char program[96];

/* A copy of sleep whose execution waits until it is let go. */
static void make_slow_program(void)
{
	char line[256];

	watch_fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY);
	if (watch_fd < 0)
		SKIP("holding an execve needs fanotify, which is for root");
	snprintf(program, sizeof(program), "%s/slow", shell_work);
	snprintf(line, sizeof(line), "cp /bin/sleep %s", program);
	CHECK_EQ(system(line), 0);
	CHECK_EQ(fanotify_mark(watch_fd, FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD, program), 0);
}

/* The next execve of it; returns the event's descriptor, which lets it go. */
static int wait_for_execve(void)
{
	struct fanotify_event_metadata m;
	struct pollfd p = {.fd = watch_fd, .events = POLLIN};

	CHECK(poll(&p, 1, 60000) > 0);
	CHECK_EQ(read(watch_fd, &m, sizeof(m)), sizeof(m));
	CHECK(m.mask & FAN_OPEN_EXEC_PERM);
	return m.fd;
}

static void let_go(int fd)
{
	struct fanotify_response r = {.fd = fd, .response = FAN_ALLOW};

	CHECK_EQ(write(watch_fd, &r, sizeof(r)), sizeof(r));
	close(fd);
}

static struct run *run_slow(struct client *c, const char *arg, uint64_t timeout_ms)
{
	struct wire_exec m = {.timeout_ms = timeout_ms};
	struct run *r;
	struct buf b;

	buf_init(&b, WIRE_CONTROL_MAX);
	CHECK_EQ(wire_list_add(&b, program), 0);
	CHECK_EQ(wire_list_add(&b, arg), 0);
	m.argv = wire_list_of(&b);
	r = run_start(c, &m);
	buf_done(&b);
	return r;
}

SHELL_TEST(a_start_that_hangs_delays_nobody)
{
	struct run *slow, *second;
	int held[2];

	make_slow_program();
	slow = run_slow(c, "0", 0);
	held[0] = wait_for_execve();
	second = run_slow(c, "0", 0);
	held[1] = wait_for_execve();
	run_check_exit(run_finished(c, "exit 3"), 3);
	expect(c, "echo here", 0, "here\n"); /* a shell starts and runs a line meanwhile */
	expect(c, "echo there", 0, "there\n");
	CHECK(!slow->started && !slow->over && !second->started && !second->over);
	let_go(held[1]);
	run_wait(c, second);
	run_check_exit(second, 0);
	CHECK(!slow->started);
	let_go(held[0]);
	run_wait(c, slow);
	run_check_exit(slow, 0);
}

SHELL_TEST(a_start_that_hangs_can_be_ended)
{
	struct run *late, *killed;
	int held[2];

	make_slow_program();
	killed = run_slow(c, "1000", 0);
	held[0] = wait_for_execve();
	run_signal(c, killed, SIGKILL, true);
	run_wait(c, killed);
	CHECK_STR(killed->cause, "killed");
	CHECK_EQ(killed->exit.signal, SIGKILL);
	late = run_slow(c, "1000", 50);
	held[1] = wait_for_execve();
	run_wait(c, late);
	CHECK_STR(late->cause, "timeout");
	CHECK(late->exit.timed_out);
	run_check_exit(run_finished(c, "exit 4"), 4);
	close(held[0]);
	close(held[1]);
}

SHELL_TEST(signals_and_input_wait_for_the_start)
{
	struct run *r;
	int held;

	make_slow_program();
	r = run_slow(c, "1000", 0);
	held = wait_for_execve();
	run_signal(c, r, SIGUSR1, false);
	run_signal(c, r, SIGTERM, false);
	run_check_exit(run_finished(c, "exit 5"), 5);
	CHECK(!r->started && !r->over);
	let_go(held);
	run_wait(c, r);
	CHECK(r->started);
	CHECK_EQ(r->exit.signal, SIGUSR1); /* in the order of their numbers, each once */
	CHECK_STR(r->cause, "signal");
}

TEST(what_hangs_while_it_starts_ends_with_the_link)
{
	struct client *c = shells_begin();
	int held;

	make_slow_program();
	run_slow(c, "1000", 0);
	held = wait_for_execve();
	shells_end(c);
	close(held);
}

/* --- memory that is not back --- */

static struct init in;
static char memory_dir[] = "/tmp/cove-job-XXXXXX";
static int memory_fd, peer_fd;
static uint64_t now_ms = 1000;
static unsigned ended, freed;

static uint64_t test_clock(void *arg)
{
	return now_ms;
}

static void no_stop(struct init_job *j, int sig, bool tree)
{
}

static void count_ended(struct init_job *j)
{
	ended++;
}

static void count_freed(struct init_job *j)
{
	freed++;
	free(j);
}

static const struct init_job_kind test_kind = {
	.number = JOB_EXEC,
	.stop = no_stop,
	.on_ended = count_ended,
	.free = count_freed,
};

static void put_number(const char *name, const char *text)
{
	CHECK_EQ(fd_write_file(memory_fd, name, text, strlen(text), 0644, false), 0);
}

static void begin_jobs(void)
{
	int fds[2];

	CHECK(mkdtemp(memory_dir) != NULL);
	memory_fd = open(memory_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	in.groups = TREE_GROUPS_NONE;
	in.groups.fd[TREE_MEMORY] = memory_fd;
	in.late_max = 4;
	CHECK_EQ(ev_new(&in.ev), 0);
	ev_set_clock(in.ev, test_clock, NULL);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	peer_fd = fds[1];
	CHECK_EQ(wire_link_init(&in.link, in.ev, fds[0], fds[0]), 0);
	CHECK_EQ(init_job_table_new(&in.jobs), 0);
	put_number("memory.limit_in_bytes", "1000\n");
	put_number("memory.usage_in_bytes", "990\n");
}

static void end_jobs(void)
{
	char line[64];

	snprintf(line, sizeof(line), "rm -r %s", memory_dir);
	CHECK_EQ(system(line), 0);
	wire_link_done(&in.link);
	ev_free(in.ev);
	free(in.jobs);
}

static void quit(struct ev_timer *t)
{
	ev_quit(in.ev);
}

/* That time passes: timers that are due, and what they put off to the end of a turn. */
static void pass(uint64_t ms)
{
	struct ev_timer t = {.on_timer = quit};

	for (int i = 0; i < 2; i++) {
		now_ms += i == 0 ? ms : 0;
		ev_timer_set(in.ev, &t, 0);
		CHECK_EQ(ev_run(in.ev), 0);
		ev_timer_stop(in.ev, &t);
	}
}

static struct init_job *new_job(uint32_t id)
{
	struct init_job *j = calloc(1, sizeof(*j));

	*j = (struct init_job){.kind = &test_kind, .in = &in, .id = id};
	init_job_add(j);
	init_job_start(j);
	init_job_run(j, 1);
	return j;
}

TEST(a_job_that_waits_for_memory_delays_nobody)
{
	struct init_job *a, *b;

	begin_jobs();
	a = new_job(1);
	a->used.oom_kills = 1;
	init_job_end(a, "oom");
	pass(2);
	pass(2);
	CHECK_EQ(ended, 0);
	CHECK_EQ(a->state, JOB_ENDED);
	b = new_job(2);
	init_job_end(b, "exit");
	CHECK_EQ(ended, 1);
	pass(0);
	CHECK_EQ(freed, 1);
	CHECK(!init_job_find(&in, 2));
	CHECK_EQ(init_job_find(&in, 1), a);
	put_number("memory.usage_in_bytes", "100\n");
	pass(2);
	CHECK_EQ(ended, 2);
	pass(0);
	CHECK_EQ(freed, 2);
	end_jobs();
}

TEST(a_job_does_not_wait_for_memory_for_ever)
{
	struct init_job *a;

	begin_jobs();
	a = new_job(1);
	a->used.oom_kills = 1;
	init_job_end(a, "oom");
	for (int i = 0; i < 1000 && ended == 0; i++)
		pass(2);
	CHECK_EQ(ended, 1);
	pass(0);
	CHECK_EQ(freed, 1);
	end_jobs();
}

/* --- states --- */

static int steps_of(void (*steps)(struct init_job *j))
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
		steps(new_job(9));
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void stop_and_resume(struct init_job *j)
{
	init_job_stop(j);
	init_job_resume(j);
	init_job_end(j, "exit");
}

static void end_twice(struct init_job *j)
{
	init_job_end(j, "exit");
	init_job_end(j, "exit");
}

static void refuse_what_began(struct init_job *j)
{
	struct err e = {0};

	init_job_refuse(j, &e);
}

static void queue_what_runs(struct init_job *j)
{
	init_job_queue(j);
}

TEST(a_state_follows_only_where_the_table_says_so)
{
	begin_jobs();
	CHECK_EQ(steps_of(stop_and_resume), 0);
	CHECK(steps_of(end_twice) != 0);
	CHECK(steps_of(refuse_what_began) != 0);
	CHECK(steps_of(queue_what_runs) != 0);
	end_jobs();
}

TAP_MAIN
