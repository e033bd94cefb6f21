/*
 * The filler of warm pools: passes of core_warm_pass in a thread, one after the other: when a box
 * was taken, once no other was for a moment (who asks comes first); when a pool was made, changed
 * or removed; and when the last pass said that there will be something to do.
 */
#include "api/call.h"
#include "api/handlers.h"

#include "base/fd.h"
#include "core/core.h"
#include "core/warm.h"

#include <errno.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { QUIET_MS = 40, WAIT_MOST_MS = 400 };

struct api_filler {
	struct api *api;
	struct ev_timer timer;
	struct ev_job job;
	struct ev_io taken; /* its fd is borrowed */
	struct ev_io pools; /* its fd is owned: inotify */
	uint64_t since_ms;  /* something is to be done; 0: nothing */
	bool runs, again;
	struct core_warm_passed passed;
	struct err error;
	int result;
};

/* In the thread. */
static void on_fill(struct ev_job *j, void *state)
{
	struct api_filler *f = container(j, struct api_filler, job);

	f->passed = (struct core_warm_passed){.next_ms = UINT64_MAX};
	f->result = state ? core_warm_pass(state, &f->passed, &f->error) : 0;
}

static void fill_in(struct api_filler *f, uint64_t ms)
{
	if (!f->timer.armed || f->timer.at_ms > ev_now(f->api->ev) + ms)
		ev_timer_set(f->api->ev, &f->timer, ms);
}

static void on_fill_done(struct ev_job *j)
{
	struct api_filler *f = container(j, struct api_filler, job);
	const struct api_options *o = &f->api->options;

	f->runs = false;
	if (o->on_filled &&
	    (f->passed.made || f->passed.dropped || f->passed.failed || f->result < 0))
		o->on_filled(o->arg, f->passed.made, f->passed.dropped,
			     f->result < 0 ? f->error.msg : f->passed.why);
	if (f->again)
		fill_in(f, QUIET_MS);
	else if (f->result < 0)
		fill_in(f, WAIT_MOST_MS * 10);
	else if (f->passed.next_ms != UINT64_MAX)
		fill_in(f, f->passed.next_ms);
}

static void on_fill_time(struct ev_timer *t)
{
	struct api_filler *f = container(t, struct api_filler, timer);

	if (f->runs) {
		f->again = true;
		return;
	}
	f->since_ms = 0;
	f->again = false;
	f->runs = ev_work_push(f->api->work, &f->job) == 0;
	if (!f->runs)
		fill_in(f, WAIT_MOST_MS);
}

/* Those who take one after the other come first, but not for ever. */
static void on_taken(struct ev_io *io, uint32_t events)
{
	struct api_filler *f = container(io, struct api_filler, taken);
	uint64_t count, now = ev_now(f->api->ev);

	if (read(io->fd, &count, sizeof(count)) < 0)
		return;
	f->again = f->runs;
	if (!f->since_ms)
		f->since_ms = now;
	if (now - f->since_ms < WAIT_MOST_MS)
		ev_timer_set(f->api->ev, &f->timer, QUIET_MS);
}

/* What its filler writes there is no news for it. */
static void on_pools(struct ev_io *io, uint32_t events)
{
	struct api_filler *f = container(io, struct api_filler, pools);
	_Alignas(struct inotify_event) char bytes[4096];
	ssize_t n;
	bool is_news = false;

	while ((n = read(io->fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *ev = (const void *)(bytes + at);

			is_news = is_news || !ev->len || strlen(ev->name) == WARM_ID_SIZE - 1;
			at += (ssize_t)sizeof(*ev) + ev->len;
		}
	if (is_news)
		fill_in(f, 0);
}

static int watch_pools(struct api_filler *f)
{
	autoclose int dir = warm_dir(&f->api->cove->state, true);
	char path[48];

	if (dir < 0)
		return dir;
	f->pools.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (f->pools.fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	if (inotify_add_watch(f->pools.fd, path, IN_MOVED_TO | IN_DELETE) < 0)
		return -errno;
	return ev_io_add(f->api->ev, &f->pools, EPOLLIN);
}

int api_filler_start(struct api *a)
{
	struct api_filler *f = calloc(1, sizeof(*f));
	struct err e;
	int r;

	if (!f)
		return -ENOMEM;
	a->filler = f;
	f->api = a;
	f->timer.on_timer = on_fill_time;
	f->job = (struct ev_job){.on_run = on_fill, .on_done = on_fill_done};
	f->pools = (struct ev_io){.on_event = on_pools, .fd = -1};
	f->taken = (struct ev_io){.on_event = on_taken, .fd = core_warm_fd(a->warm)};
	r = state_make(&a->cove->state, &e);
	if (r == 0)
		r = watch_pools(f);
	if (r == 0)
		r = ev_io_add(a->ev, &f->taken, EPOLLIN);
	if (r == 0)
		fill_in(f, 0);
	return r;
}

void api_filler_free(struct api_filler *f)
{
	if (!f)
		return;
	ev_timer_stop(f->api->ev, &f->timer);
	ev_io_remove(f->api->ev, &f->taken);
	ev_io_remove(f->api->ev, &f->pools);
	fd_close(&f->pools.fd);
	free(f);
}
