/* The event loop: order, removal while running, children, signals, a clock of our own. */
#include "tap.h"

#include "ev/ev.h"

#include "base/buf.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stddef.h>

static struct ev *ev;
static char seen[256];

static void note(const char *what)
{
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s ", what);
}

static uint64_t fake_now;

static uint64_t fake_clock(void *arg)
{
	return fake_now++;
}

struct named_timer {
	struct ev_timer t;
	const char *name;
	bool last;
};

static void on_timer(struct ev_timer *t)
{
	struct named_timer *n = (struct named_timer *)t;

	note(n->name);
	if (n->last)
		ev_quit(ev);
}

TEST(timers_run_in_order)
{
	struct named_timer a = {{.on_timer = on_timer}, "a", false};
	struct named_timer b = {{.on_timer = on_timer}, "b", false};
	struct named_timer c = {{.on_timer = on_timer}, "c", true};
	struct named_timer d = {{.on_timer = on_timer}, "d", false};

	CHECK_EQ(ev_new(&ev), 0);
	ev_set_clock(ev, fake_clock, NULL);
	ev_timer_set(ev, &c.t, 30);
	ev_timer_set(ev, &a.t, 10);
	ev_timer_set(ev, &d.t, 15);
	ev_timer_set(ev, &b.t, 50);
	ev_timer_set(ev, &b.t, 20); /* armed again: only the last counts */
	ev_timer_stop(ev, &d.t);
	ev_timer_stop(ev, &d.t);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_STR(seen, "a b c ");
	ev_free(ev);
	ev_free(NULL);
}

struct counter {
	struct ev_defer d;
	struct ev_defer *other;
	int left;
	const char *name;
};

static void on_defer(struct ev_defer *d)
{
	struct counter *c = (struct counter *)d;

	note(c->name);
	if (c->other)
		ev_defer_cancel(ev, c->other);
	if (--c->left > 0)
		ev_defer(ev, d);
	else if (!c->other)
		ev_quit(ev);
}

/* Many timers, set, set again and stopped in no order: each that is left comes once, in order. */
enum { CROWD = 500 };

static struct ev_timer crowd[CROWD];
static const struct ev_timer *crowd_before;
static unsigned crowd_armed, crowd_ran;

/* All of them are due at once. */
static uint64_t leaping_clock(void *arg)
{
	return fake_now += 3000;
}

static void on_crowd(struct ev_timer *t)
{
	if (crowd_before)
		CHECK(crowd_before->at_ms < t->at_ms ||
		      (crowd_before->at_ms == t->at_ms && crowd_before->order < t->order));
	CHECK(!t->armed);
	crowd_before = t;
	crowd_ran++;
	/* One that runs may stop others and set others. */
	if (crowd_ran % 7 == 0 && crowd[crowd_ran % CROWD].armed) {
		ev_timer_stop(ev, &crowd[crowd_ran % CROWD]);
		ev_timer_set(ev, &crowd[crowd_ran % CROWD], 1);
	}
	if (crowd_ran == crowd_armed)
		ev_quit(ev);
}

TEST(many_timers_run_in_order)
{
	uint32_t random = 1;

	CHECK_EQ(ev_new(&ev), 0);
	ev_set_clock(ev, leaping_clock, NULL);
	for (unsigned i = 0; i < 20 * CROWD; i++) {
		struct ev_timer *t;

		random = random * 1664525 + 1013904223;
		t = &crowd[(random >> 8) % CROWD];
		t->on_timer = on_crowd;
		if (random >> 30 == 0)
			ev_timer_stop(ev, t);
		else
			ev_timer_set(ev, t, (random >> 16) % 1000);
	}
	for (unsigned i = 0; i < CROWD; i++)
		crowd_armed += crowd[i].armed;
	CHECK(crowd_armed > CROWD / 2 && crowd_armed < CROWD);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(crowd_ran, crowd_armed);
	for (unsigned i = 0; i < CROWD; i++)
		CHECK(!crowd[i].armed);
	ev_free(ev);
}

/* A process stands still just after it looked at its descriptors: meanwhile an hour passes, and a
 * message comes that says so. */
static int message_fds[2];
static uint64_t still_ms;
static unsigned clock_reads;

static uint64_t stopping_clock(void *arg)
{
	if (++clock_reads == 3) {
		fake_now += 3600000;
		CHECK_EQ(write(message_fds[1], "x", 1), 1);
	}
	return fake_now - still_ms;
}

static void on_message(struct ev_io *io, uint32_t events)
{
	note("message");
	ev_io_remove(ev, io);
	still_ms = 3600000;
	ev_set_clock(ev, stopping_clock, NULL);
	fake_now += 1000;
}

TEST(a_timer_waits_for_what_came_while_the_process_stood_still)
{
	struct named_timer soon = {{.on_timer = on_timer}, "soon", false};
	struct named_timer late = {{.on_timer = on_timer}, "late", true};
	struct ev_io io = {.on_event = on_message};

	CHECK_EQ(pipe2(message_fds, O_CLOEXEC), 0);
	io.fd = message_fds[0];
	CHECK_EQ(ev_new(&ev), 0);
	ev_set_clock(ev, stopping_clock, NULL);
	CHECK_EQ(ev_io_add(ev, &io, EPOLLIN), 0);
	ev_timer_set(ev, &soon.t, 0);
	ev_timer_set(ev, &late.t, 1000);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_STR(seen, "soon message late ");
	ev_free(ev);
	fd_close(&message_fds[0]);
	fd_close(&message_fds[1]);
}

TEST(deferred_calls_share_the_loop)
{
	struct counter a = {{.on_defer = on_defer}, NULL, 3, "a"};
	struct counter c = {{.on_defer = on_defer}, NULL, 9, "never"};
	struct counter b = {{.on_defer = on_defer}, &c.d, 2, "b"};

	CHECK_EQ(ev_new(&ev), 0);
	ev_defer(ev, &a.d);
	ev_defer(ev, &a.d); /* twice is once */
	ev_defer(ev, &b.d);
	ev_defer(ev, &c.d);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_STR(seen, "a b a b a ");
	ev_free(ev);
}

struct pipe_end {
	struct ev_io io;
	struct pipe_end *victim;
};

static void on_pipe(struct ev_io *io, uint32_t events)
{
	struct pipe_end *p = (struct pipe_end *)io;

	note("io");
	/* The other one is in the same batch and must not be called; ours may be freed. */
	ev_io_remove(ev, &p->victim->io);
	ev_io_remove(ev, io);
	free(p->victim);
	free(p);
	ev_quit(ev);
}

TEST(a_callback_may_remove_and_free_any_source)
{
	struct pipe_end *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	int pa[2], pb[2];

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(pipe2(pa, O_CLOEXEC), 0);
	CHECK_EQ(pipe2(pb, O_CLOEXEC), 0);
	*a = (struct pipe_end){.io = {.on_event = on_pipe, .fd = pa[0]}, .victim = b};
	*b = (struct pipe_end){.io = {.on_event = on_pipe, .fd = pb[0]}, .victim = a};
	CHECK_EQ(ev_io_add(ev, &a->io, EPOLLIN), 0);
	CHECK_EQ(ev_io_add(ev, &b->io, EPOLLIN), 0);
	CHECK_EQ(write(pa[1], "x", 1), 1);
	CHECK_EQ(write(pb[1], "x", 1), 1);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_STR(seen, "io ");
	ev_free(ev);
}

TEST(regular_files_cannot_be_watched)
{
	struct ev_io io = {.on_event = on_pipe};

	CHECK_EQ(ev_new(&ev), 0);
	io.fd = sys_memfd_create("m", 1);
	CHECK_EQ(ev_io_add(ev, &io, EPOLLIN), -EPERM);
	ev_io_remove(ev, &io);
	ev_free(ev);
	close(io.fd);
}

static void on_exit_status(struct ev_child *c, int status)
{
	CHECK(WIFEXITED(status));
	snprintf(seen, sizeof(seen), "%d", WEXITSTATUS(status));
	CHECK_EQ(c->io.fd, -1);
	ev_quit(ev);
}

TEST(children_are_reaped)
{
	struct ev_child c = {.on_exit = on_exit_status};
	pid_t pid = fork();

	if (pid == 0)
		_exit(7);
	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(ev_child_add(ev, &c, pid, -1), 0);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_STR(seen, "7");
	CHECK_EQ(waitpid(pid, NULL, WNOHANG), -1);
	ev_child_remove(ev, &c);
	ev_free(ev);
}

static void on_signal(struct ev_signals *s, int sig)
{
	snprintf(seen, sizeof(seen), "%d", sig);
	ev_quit(ev);
}

TEST(signals_are_events)
{
	struct ev_signals s = {.on_signal = on_signal};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(ev_signals_add(ev, &s, &set), 0);
	raise(SIGUSR1);
	CHECK_EQ(ev_run(ev), 0);
	CHECK_EQ(atoi(seen), SIGUSR1);
	ev_signals_remove(ev, &s);
	ev_signals_remove(ev, &s);
	ev_free(ev);
}

TAP_MAIN
