/*
 * The event loop; see ev.h.
 *
 * epoll hands back the address of an ev_io. A source removed during a turn may still be in the
 * batch of events already fetched, so removal blanks its entries there.
 *
 * Timers are a pairing heap: a box has a handful, but a door one for each of a thousand connections
 * and sets it with every request. A timer has its first child and its siblings; `before` is the
 * sibling to the left, or the parent of a first child. Setting one costs a comparison, ending one
 * the logarithm of their number over time, and neither needs memory.
 *
 * A deferred call queued by a deferred call runs in the next turn, which then
 * does not sleep: work cut in pieces this way shares the loop with everything else.
 */
#include "ev/ev.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { EV_BATCH = 32 };

struct ev {
	int epoll_fd; /* owned */
	bool quit;
	uint64_t now_ms;
	uint64_t (*clock)(void *arg);
	void *clock_arg;
	struct ev_timer *timers; /* the heap's top */
	uint64_t timer_order;
	struct ev_defer *defer_first, *defer_last;
	unsigned defer_count;
	struct epoll_event batch[EV_BATCH];
	int batch_len;
};

static uint64_t real_clock(void *arg)
{
	return clock_mono_ms();
}

int ev_new(struct ev **ret)
{
	autofree struct ev *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return -ENOMEM;
	ev->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (ev->epoll_fd < 0)
		return -errno;
	ev_set_clock(ev, real_clock, NULL);
	*ret = take_ptr(ev);
	return 0;
}

void ev_free(struct ev *ev)
{
	if (!ev)
		return;
	close(ev->epoll_fd);
	free(ev);
}

uint64_t ev_now(const struct ev *ev)
{
	return ev->now_ms;
}

void ev_look(struct ev *ev)
{
	ev->now_ms = ev->clock(ev->clock_arg);
}

int ev_fd(const struct ev *ev)
{
	return ev->epoll_fd;
}

void ev_set_clock(struct ev *ev, uint64_t (*now_ms)(void *arg), void *arg)
{
	ev->clock = now_ms;
	ev->clock_arg = arg;
	ev->now_ms = now_ms(arg);
}

void ev_quit(struct ev *ev)
{
	ev->quit = true;
}

static int control(struct ev *ev, int op, struct ev_io *io, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = io};

	if (epoll_ctl(ev->epoll_fd, op, io->fd, &e) < 0)
		return -errno;
	io->events = events;
	return 0;
}

int ev_io_add(struct ev *ev, struct ev_io *io, uint32_t events)
{
	int r = control(ev, EPOLL_CTL_ADD, io, events);

	io->added = r == 0;
	return r;
}

int ev_io_set(struct ev *ev, struct ev_io *io, uint32_t events)
{
	if (io->events == events)
		return 0;
	return control(ev, EPOLL_CTL_MOD, io, events);
}

void ev_io_remove(struct ev *ev, struct ev_io *io)
{
	if (!io->added)
		return;
	control(ev, EPOLL_CTL_DEL, io, 0);
	io->added = false;
	for (int i = 0; i < ev->batch_len; i++)
		if (ev->batch[i].data.ptr == io)
			ev->batch[i].data.ptr = NULL;
}

static bool is_earlier(const struct ev_timer *a, const struct ev_timer *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

/* Two heaps become one; either may be empty. Their tops have no siblings. */
static struct ev_timer *meld(struct ev_timer *a, struct ev_timer *b)
{
	struct ev_timer *top = a, *below = b;

	if (!a || !b)
		return a ? a : b;
	if (is_earlier(b, a)) {
		top = b;
		below = a;
	}
	below->before = top;
	below->next = top->child;
	if (below->next)
		below->next->before = below;
	top->child = below;
	return top;
}

/* Siblings become one heap: in pairs from the left, then the pairs from the right. */
static struct ev_timer *meld_all(struct ev_timer *first)
{
	struct ev_timer *pairs = NULL, *all = NULL, *next;

	for (struct ev_timer *a = first; a; a = next) {
		struct ev_timer *b = a->next;

		next = b ? b->next : NULL;
		a->next = a->before = NULL;
		if (b)
			b->next = b->before = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	for (; pairs; pairs = next) {
		next = pairs->next;
		pairs->next = NULL;
		all = meld(all, pairs);
	}
	return all;
}

static void take_out(struct ev *ev, struct ev_timer *t)
{
	struct ev_timer *children = meld_all(t->child);

	if (t->before && t->before->child == t)
		t->before->child = t->next;
	else if (t->before)
		t->before->next = t->next;
	if (t->next)
		t->next->before = t->before;
	ev->timers = t == ev->timers ? children : meld(ev->timers, children);
	t->child = t->next = t->before = NULL;
	t->armed = false;
}

void ev_timer_set(struct ev *ev, struct ev_timer *t, uint64_t in_ms)
{
	ev_timer_stop(ev, t);
	t->at_ms = ev->now_ms + in_ms;
	t->order = ev->timer_order++;
	t->child = t->next = t->before = NULL;
	t->armed = true;
	ev->timers = meld(ev->timers, t);
}

void ev_timer_stop(struct ev *ev, struct ev_timer *t)
{
	if (t->armed)
		take_out(ev, t);
}

void ev_defer(struct ev *ev, struct ev_defer *d)
{
	if (d->queued)
		return;
	d->queued = true;
	d->next = NULL;
	if (ev->defer_last)
		ev->defer_last->next = d;
	else
		ev->defer_first = d;
	ev->defer_last = d;
	ev->defer_count++;
}

void ev_defer_cancel(struct ev *ev, struct ev_defer *d)
{
	struct ev_defer *before = NULL;

	if (!d->queued)
		return;
	for (struct ev_defer *at = ev->defer_first; at != d; at = at->next)
		before = at;
	if (before)
		before->next = d->next;
	else
		ev->defer_first = d->next;
	if (ev->defer_last == d)
		ev->defer_last = before;
	d->queued = false;
	ev->defer_count--;
}

static void on_child_event(struct ev_io *io, uint32_t events)
{
	struct ev_child *c = container(io, struct ev_child, io);
	int status = 0;
	pid_t r;

	do {
		r = waitpid(c->pid, &status, __WALL | WNOHANG);
	} while (r < 0 && errno == EINTR);
	if (r == 0)
		return;
	ev_child_remove(c->ev, c);
	c->on_exit(c, status);
}

int ev_child_add(struct ev *ev, struct ev_child *c, pid_t pid, int pidfd)
{
	int r;

	if (pidfd < 0)
		pidfd = sys_pidfd_open(pid);
	if (pidfd < 0)
		return pidfd;
	c->pid = pid;
	c->ev = ev;
	c->io = (struct ev_io){.on_event = on_child_event, .fd = pidfd};
	r = ev_io_add(ev, &c->io, EPOLLIN);
	if (r < 0)
		fd_close(&c->io.fd);
	return r;
}

void ev_child_remove(struct ev *ev, struct ev_child *c)
{
	if (!c->io.added)
		return;
	ev_io_remove(ev, &c->io);
	fd_close(&c->io.fd);
}

static void on_signal_event(struct ev_io *io, uint32_t events)
{
	struct ev_signals *s = container(io, struct ev_signals, io);
	struct signalfd_siginfo info;

	if (read(io->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		s->on_signal(s, (int)info.ssi_signo);
}

int ev_signals_add(struct ev *ev, struct ev_signals *s, const sigset_t *set)
{
	int fd, r;

	if (sigprocmask(SIG_BLOCK, set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	s->io = (struct ev_io){.on_event = on_signal_event, .fd = fd};
	r = ev_io_add(ev, &s->io, EPOLLIN);
	if (r < 0)
		fd_close(&s->io.fd);
	return r;
}

void ev_signals_remove(struct ev *ev, struct ev_signals *s)
{
	if (!s->io.added)
		return;
	ev_io_remove(ev, &s->io);
	fd_close(&s->io.fd);
}

/* What was due before the descriptors were looked at: a process that stood still between the two
 * hears first what came in the meantime, which may be that the time does not count. */
static void run_timers(struct ev *ev, uint64_t looked_ms)
{
	uint64_t due = looked_ms < ev->now_ms ? looked_ms : ev->now_ms;

	while (ev->timers && ev->timers->at_ms <= due && !ev->quit) {
		struct ev_timer *t = ev->timers;

		take_out(ev, t);
		t->on_timer(t);
	}
}

static void run_deferred(struct ev *ev)
{
	for (unsigned n = ev->defer_count; n > 0 && ev->defer_first && !ev->quit; n--) {
		struct ev_defer *d = ev->defer_first;

		ev->defer_first = d->next;
		if (!ev->defer_first)
			ev->defer_last = NULL;
		d->queued = false;
		ev->defer_count--;
		d->on_defer(d);
	}
}

static int wait_ms(const struct ev *ev)
{
	uint64_t in;

	if (ev->defer_first)
		return 0;
	if (!ev->timers)
		return -1;
	if (ev->timers->at_ms <= ev->now_ms)
		return 0;
	in = ev->timers->at_ms - ev->now_ms;
	return in > 60000 ? 60000 : (int)in;
}

static int run_events(struct ev *ev)
{
	int n = epoll_wait(ev->epoll_fd, ev->batch, EV_BATCH, wait_ms(ev));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	ev->now_ms = ev->clock(ev->clock_arg);
	ev->batch_len = n;
	for (int i = 0; i < n && !ev->quit; i++) {
		struct ev_io *io = ev->batch[i].data.ptr;

		if (io)
			io->on_event(io, ev->batch[i].events);
	}
	ev->batch_len = 0;
	return 0;
}

int ev_run(struct ev *ev)
{
	int r = 0;

	ev->quit = false;
	ev->now_ms = ev->clock(ev->clock_arg);
	run_deferred(ev);
	while (!ev->quit && r == 0) {
		uint64_t looked_ms = ev->now_ms;

		r = run_events(ev);
		run_timers(ev, looked_ms);
		run_deferred(ev);
	}
	return r;
}
