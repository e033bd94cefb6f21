/* Passes over what is new; see gather.h. */
#include "api/gather.h"

#include "api/call.h"
#include "api/figures.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cgroup/reader.h"
#include "core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

enum { RECHECK_MS = 100 };

/* ---- which boxes there are ---- */

static bool is_same(struct api_gather *g, const struct gather_box *b)
{
	autoclose int fd = openat(g->st->boxes_fd, b->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	return st.st_ino == b->ino && fd_birth_ns(fd) == b->birth_ns;
}

/* A box that only the rows knew of. */
static bool identify(struct api_gather *g, struct gather_box *b)
{
	struct gather_box *now = gather_box_new(g->st, b->name);
	bool same = now && now->created_ms == b->created_ms;

	if (same) {
		b->ino = now->ino;
		b->birth_ns = now->birth_ns;
	}
	gather_box_free(now);
	return same;
}

static int add_new(struct api_gather *g, const char *name)
{
	struct gather_box *b = gather_box_new(g->st, name);

	if (!b)
		return 0;
	if (g->is_fresh) {
		gather_box_skip(g, b);
		b->has_row = true;
	}
	return gather_box_insert(g, b);
}

static int end_gone(struct api_gather *g)
{
	int r = 0;

	for (size_t i = 0; i < g->count && r == 0 && g->rows < GATHER_ROWS_MAX;) {
		struct gather_box *b = g->boxes[i];

		if (b->is_there) {
			i++;
			continue;
		}
		r = gather_box_created(g, b);
		if (r == 0)
			r = gather_box_read(g, b);
		if (r < 0 || g->rows >= GATHER_ROWS_MAX)
			break;
		r = gather_box_removed(g, b);
		if (r == 0)
			gather_box_drop(g, b);
	}
	return r;
}

static int sweep_names(struct api_gather *g)
{
	char **names;
	size_t count;
	int r = record_names(g->st, &names, &count, NULL);

	if (r < 0)
		return r;
	for (size_t i = 0; i < g->count; i++) {
		struct gather_box *b = g->boxes[i];

		b->is_there = b->ino ? is_same(g, b) : identify(g, b);
	}
	r = end_gone(g);
	for (size_t i = 0; i < count && r == 0; i++)
		if (!gather_box_find(g, names[i]))
			r = add_new(g, names[i]);
	state_names_free(names, count);
	g->is_fresh = false;
	/* Otherwise the next pass goes on with it. */
	if (r == 0 && g->rows < GATHER_ROWS_MAX)
		g->swept_ms = g->mono_ms;
	return r;
}

/* A directory that was changed a moment ago may change again without another time: it is looked at
 * once more when that cannot be any more, however long that is after. */
static bool boxes_changed(struct api_gather *g)
{
	struct stat st;
	bool changed;

	if (g->st->boxes_fd < 0 || fstat(g->st->boxes_fd, &st) < 0)
		return false;
	changed = st.st_mtim.tv_sec != g->boxes_time.tv_sec ||
		  st.st_mtim.tv_nsec != g->boxes_time.tv_nsec;
	g->boxes_time = st.st_mtim;
	if (changed)
		g->boxes_ms = g->mono_ms;
	return g->swept_ms < g->boxes_ms + RECHECK_MS;
}

/* Back to where they were, before those that came since. */
static void keep_hints(struct api_gather *g, struct gather_box **hints, size_t count)
{
	size_t room;

	pthread_mutex_lock(&g->lock);
	room = GATHER_HINTS_MAX - g->hint_count;
	for (; count > room; count--)
		gather_box_free(hints[count - 1]);
	memmove(g->hints + count, g->hints, g->hint_count * sizeof(hints[0]));
	memcpy(g->hints, hints, count * sizeof(hints[0]));
	g->hint_count += count;
	pthread_mutex_unlock(&g->lock);
}

/* *hint is taken, or left where it is to come again. */
static int take_hint(struct api_gather *g, struct gather_box **hint)
{
	struct gather_box *b = gather_box_find(g, (*hint)->name);
	int r = 0;

	/* One of that name that was removed meanwhile ends first, in a further pass if it has many
	 * events: until then the place is its own. */
	if (b && b->created_ms != (*hint)->created_ms) {
		b->is_there = false;
		r = end_gone(g);
		if (r < 0 || gather_box_find(g, (*hint)->name))
			return r;
		b = NULL;
	}
	if (!b)
		return gather_box_insert(g, take_ptr(*hint));
	/* Its log may have been begun, and be gone, since it was looked at first. */
	if (b->fd < 0 && (*hint)->fd >= 0) {
		b->fd = take_fd((*hint)->fd);
		b->log_ino = (*hint)->log_ino;
		b->at = 0;
	}
	gather_box_free(take_ptr(*hint));
	return 0;
}

/* Those that handlers made; they may be gone already. */
static int take_hints(struct api_gather *g)
{
	struct gather_box *hints[GATHER_HINTS_MAX];
	size_t count, kept = 0;
	int r = 0;

	pthread_mutex_lock(&g->lock);
	count = g->hint_count;
	memcpy(hints, g->hints, count * sizeof(hints[0]));
	g->hint_count = 0;
	pthread_mutex_unlock(&g->lock);
	for (size_t i = 0; i < count; i++) {
		r = r < 0 ? r : take_hint(g, &hints[i]);
		if (hints[i])
			hints[kept++] = hints[i];
	}
	keep_hints(g, hints, kept);
	return r;
}

/* ---- a pass ---- */

/* Best effort: without a watch it is seen a moment later. */
static void watch_box(struct api_gather *g, struct gather_box *b)
{
	char path[64 + AUDIT_NAME_MAX];

	if (b->fd >= 0 && b->watched_ino != b->log_ino) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", b->fd);
		b->watched_ino = b->log_ino;
		(void)inotify_add_watch(g->watch.fd, path, IN_MODIFY);
	}
	if (b->log[0] && !b->is_door_watched && g->logs_fd >= 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", g->logs_fd, b->log);
		b->is_door_watched = true;
		(void)inotify_add_watch(g->watch.fd, path, IN_MODIFY | IN_CREATE);
	}
}

static int read_all(struct api_gather *g)
{
	int r = 0;

	for (size_t i = 0; i < g->count && r == 0 && g->rows < GATHER_ROWS_MAX; i++) {
		r = gather_box_created(g, g->boxes[i]);
		if (r == 0)
			r = gather_box_read(g, g->boxes[i]);
		watch_box(g, g->boxes[i]);
	}
	return r;
}

static int look_at_all(struct api_gather *g)
{
	int r = 0;

	for (size_t i = 0; i < g->count && r == 0 && g->rows < GATHER_ROWS_MAX; i++)
		r = gather_box_look(g, g->boxes[i]);
	g->slow_ms = g->mono_ms;
	return r;
}

static int pass(struct api_gather *g)
{
	bool slow = g->slow_ms == 0 || g->mono_ms - g->slow_ms >= GATHER_SLOW_MS;
	int r = take_hints(g);

	if (r == 0 && (boxes_changed(g) || slow || g->is_fresh))
		r = sweep_names(g);
	if (r == 0)
		r = read_all(g);
	if (r == 0 && slow)
		r = look_at_all(g);
	if (r == 0 && g->mono_ms - g->synced_ms >= 1000) {
		r = feed_sync(&g->feed);
		g->synced_ms = g->mono_ms;
	}
	if (r == 0 && g->kept_seq != g->feed.next - 1 &&
	    (g->kept_ms == 0 || g->mono_ms - g->kept_ms >= GATHER_KEEP_MS))
		r = gather_state_save(g);
	return r;
}

/* -EBUSY: another server of this state directory writes. */
static int begin(struct api_gather *g)
{
	int r = feed_open(&g->feed, g->st, NULL);

	if (r < 0)
		return r;
	r = gather_state_load(g);
	if (r < 0) {
		feed_close(&g->feed);
		return r;
	}
	(void)cgroup_reader_new(&g->groups);
	if (g->st->boxes_fd >= 0) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", g->st->boxes_fd);
		(void)inotify_add_watch(g->watch.fd, path,
					IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR);
	}
	g->writes = true;
	return 0;
}

static void on_run(struct ev_job *j, void *state)
{
	struct api_gather *g = container(j, struct api_gather, job);
	struct cove *cove = state;
	int r = 0;

	if (!cove || cove->state.home_fd < 0)
		return;
	g->st = &cove->state;
	g->rows = 0;
	g->now_ms = clock_wall_ms();
	g->mono_ms = clock_mono_ms();
	if (!g->writes)
		r = begin(g);
	if (r == 0)
		r = pass(g);
	if (r < 0 && r != -EBUSY && r != g->trouble && g->api->options.on_trouble)
		g->api->options.on_trouble(g->api->options.arg, "events cannot be written", r);
	g->trouble = r;
	g->st = NULL;
	api_trail_sync(g->api);
}

static void on_run_done(struct ev_job *j)
{
	struct api_gather *g = container(j, struct api_gather, job);
	bool more = g->again || g->rows >= GATHER_ROWS_MAX;

	g->runs = g->again = false;
	g->ended_ms = ev_now(g->api->ev);
	api_events_wake(g->api);
	ev_timer_set(g->api->ev, &g->timer, GATHER_MOST_MS);
	if (more)
		api_gather_soon(g->api);
}

static void on_time(struct ev_timer *t)
{
	struct api_gather *g = container(t, struct api_gather, timer);

	g->runs = ev_work_push(g->api->work, &g->job) == 0;
	if (!g->runs)
		ev_timer_set(g->api->ev, t, GATHER_LEAST_MS);
}

void api_gather_soon(struct api *a)
{
	struct api_gather *g = a->gather;
	uint64_t now, in = GATHER_SOON_MS;

	if (!g || g->is_ending)
		return;
	if (g->runs) {
		g->again = true;
		return;
	}
	now = ev_now(a->ev);
	if (g->ended_ms + GATHER_LEAST_MS > now + in)
		in = g->ended_ms + GATHER_LEAST_MS - now;
	if (!g->timer.armed || g->timer.at_ms > now + in)
		ev_timer_set(a->ev, &g->timer, in);
}

bool api_gather_writes(const struct api *a)
{
	return a->gather && a->gather->writes;
}

static void on_watch(struct ev_io *io, uint32_t events)
{
	char drop[4096];

	while (read(io->fd, drop, sizeof(drop)) > 0)
		;
	api_gather_soon(container(io, struct api_gather, watch)->api);
}

void api_gather_hint(struct api *a, struct cove *cove, const char *name)
{
	struct api_gather *g = a->gather;
	struct gather_box *b = g ? gather_box_new(&cove->state, name) : NULL;

	if (!b)
		return;
	pthread_mutex_lock(&g->lock);
	if (g->hint_count < GATHER_HINTS_MAX && g->writes)
		g->hints[g->hint_count++] = take_ptr(b);
	pthread_mutex_unlock(&g->lock);
	gather_box_free(b);
}

int api_gather_start(struct api *a)
{
	struct api_gather *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	g->api = a;
	g->logs_fd = -1;
	g->feed = (struct feed_writer){.dir_fd = -1, .lock_fd = -1, .fd = -1};
	g->timer.on_timer = on_time;
	g->job = (struct ev_job){.on_run = on_run, .on_done = on_run_done, .urgent = true};
	g->watch.on_event = on_watch;
	g->watch.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	r = g->watch.fd < 0 ? -errno : 0;
	pthread_mutex_init(&g->lock, NULL);
	a->gather = g;
	g->figures = figures_new(a->options.labels, a->options.label_count);
	if (r == 0)
		r = g->figures ? ev_io_add(a->ev, &g->watch, EPOLLIN) : -ENOMEM;
	if (r == 0)
		ev_timer_set(a->ev, &g->timer, 0);
	return r;
}

void api_gather_free(struct api_gather *g)
{
	if (!g)
		return;
	ev_timer_stop(g->api->ev, &g->timer);
	if (g->watch.fd >= 0)
		ev_io_remove(g->api->ev, &g->watch);
	fd_close(&g->watch.fd);
	if (g->writes && feed_sync(&g->feed) == 0)
		(void)gather_state_save(g); /* otherwise the rows say it */
	feed_close(&g->feed);
	fd_close(&g->logs_fd);
	for (size_t i = 0; i < g->count; i++)
		gather_box_free(g->boxes[i]);
	for (size_t i = 0; i < g->hint_count; i++)
		gather_box_free(g->hints[i]);
	free(g->boxes);
	figures_free(g->figures);
	cgroup_reader_free(g->groups);
	pthread_mutex_destroy(&g->lock);
	free(g);
}
