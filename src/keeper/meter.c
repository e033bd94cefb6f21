/*
 * What a running box uses, and how long it may: statistics, the box's own /proc, pausing, and the
 * ends of its time; see life.h.
 *
 * ttl counts from the moment the box is up, whatever happens. idle counts from the last request or
 * the end of the last command; while a command or a file operation runs, or the box is paused, it
 * does not count. The command that the box itself runs at its start is none of these: a daemon does
 * not keep a box from being idle. Where the end is that the box is frozen (--expire pause), a clock
 * that ran out begins anew when it goes on. A box that does not freeze just now is tried again.
 */
#include "base/fd.h"
#include "keeper/exec.h"
#include "keeper/life.h"
#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FRESH_MS = 100, REFRESH_MS = 1000, SLOW_MS = 5000 };

static struct keeper_life *life_of(struct keeper *k)
{
	return container(k, struct keeper_life, k);
}

/* ---- numbers ---- */

static void measure(struct keeper_life *l, bool brief, struct cgroup_stats *ret)
{
	*ret = (struct cgroup_stats){0};
	if (l->wall->info->flags & WALL_MEASURE)
		l->wall->measure(&l->box, brief, ret);
}

static uint64_t if_held(const struct keeper_life *l, enum limit_id id)
{
	return keeper_limits_hold(l, id) ? l->config.spec.limits[id] : 0;
}

static bool has_group(void *arg, uint32_t id)
{
	const struct keeper_life *l = arg;
	struct stat st;
	char name[16];

	snprintf(name, sizeof(name), "e%u", id);
	return fstatat(l->cgroup.v1_work_fd[CGROUP_IO], name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void on_used(struct keeper *k, const struct exec_record *r)
{
	struct keeper_life *l = life_of(k);

	if (l->cgroup.v1_work_fd[CGROUP_IO] >= 0)
		ended_io_add(&l->ended_io, r);
}

static uint64_t limit_of(struct keeper *k, const char *limit)
{
	for (unsigned id = 0; id < LIMIT_COUNT; id++)
		if (strcmp(limit_flag((enum limit_id)id) + strlen("--"), limit) == 0)
			return if_held(life_of(k), (enum limit_id)id);
	return 0;
}

/* The keeper's own time is its process's; its memory is its group's, or not counted. The door's
 * come from door.c. */
static void add_helpers(const struct keeper_life *l, struct wire_stats *m)
{
	const struct cgroup_helper *h = &l->own_group;
	struct cgroup_limits limits = keeper_limits_grouped(l);
	struct timespec t;
	uint64_t unused;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0)
		m->keeper_cpu_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
	if (!l->has_own_group)
		return;
	cgroup_meter_read(&h->meter, &m->keeper_mem_bytes, &unused);
	if (h->limits & 1u << CGROUP_MEMORY) {
		m->keeper_mem_limit_bytes = cgroup_helper_bytes(CGROUP_KEEPER, &limits);
		m->door_mem_limit_bytes = cgroup_helper_bytes(CGROUP_DOOR, &limits);
	}
	if (h->limits & 1u << CGROUP_CPU) {
		m->keeper_cpu_limit_milli = cgroup_helper_cpu_milli(CGROUP_KEEPER, &limits);
		m->door_cpu_limit_milli = cgroup_helper_cpu_milli(CGROUP_DOOR, &limits);
	}
}

static void on_stats(struct keeper *k, struct wire_stats *m)
{
	struct keeper_life *l = life_of(k);
	/* Its own volume and that of its workspace, which have a limit each. */
	const struct volume *const volumes[] = {&l->volume, &l->workspace};
	struct cgroup_stats now;

	/* Before the count: a group that goes in between is missing for a moment, and not there
	 * twice. */
	ended_io_update(&l->ended_io, has_group, l);
	measure(l, false, &now);
	for (size_t i = 0; i < sizeof(volumes) / sizeof(volumes[0]); i++) {
		struct volume_usage disk;

		volume_usage(volumes[i], &disk);
		m->disk_bytes += disk.bytes;
		m->disk_limit_bytes += keeper_limits_disk(l, volumes[i]);
		m->disk_files += disk.files;
		m->disk_files_limit += disk.files_limit;
	}
	m->disk_own_limit_bytes = keeper_limits_disk(l, &l->volume);
	if (l->volume.stat_fd < 0 && l->workspace.stat_fd < 0)
		m->disk_bytes = m->disk_files = WIRE_UNKNOWN;
	m->io_read_bytes = now.io_read_bytes;
	m->io_write_bytes = now.io_write_bytes;
	if (!(l->cgroup.can & 1u << CGROUP_IO))
		m->io_read_bytes = m->io_write_bytes = WIRE_UNKNOWN;
	else if (l->cgroup.v1_work_fd[CGROUP_IO] >= 0)
		ended_io_sum(&l->ended_io, &m->io_read_bytes, &m->io_write_bytes);
	m->cpu_us = now.cpu_us;
	m->throttled_us = now.throttled_us;
	m->cpu_limit_milli = if_held(l, LIMIT_CPUS);
	m->mem_bytes = now.mem_bytes;
	m->mem_peak_bytes = now.mem_peak_bytes;
	m->mem_limit_bytes = if_held(l, LIMIT_MEM);
	m->oom_kills = now.oom_kills;
	m->pids = now.pids;
	m->pids_limit = if_held(l, LIMIT_PIDS);
	m->pids_hits = now.pids_hits;
	if (!(l->cgroup.can & 1u << CGROUP_CPU))
		m->throttled_us = WIRE_UNKNOWN;
	if (!(l->cgroup.can & 1u << CGROUP_MEMORY))
		m->oom_kills = WIRE_UNKNOWN;
	if (!(l->cgroup.can & 1u << CGROUP_PIDS))
		m->pids_hits = WIRE_UNKNOWN;
	add_helpers(l, m);
}

/* Is something going on that keeps an idle box from its end? */
static bool is_active(struct keeper *k)
{
	const struct keeper_exec *own = k->own_exec ? keeper_exec_find(k, k->own_exec) : NULL;
	unsigned own_runs = own && own->run && own->run->state != RUN_EXITED;

	return keeper_is_frozen(k) || k->running_execs > own_runs ||
	       k->relays.count[RELAY_FILE] + k->relays.count[RELAY_PORT] > 0;
}

static void read_disk(const struct keeper_life *l, const struct volume *v, struct keeper_disk *ret)
{
	struct volume_usage now;

	volume_usage(v, &now);
	*ret = (struct keeper_disk){.is_there = v->stat_fd >= 0,
				    .bytes = now.bytes,
				    .limit_bytes = keeper_limits_disk(l, v)};
}

static uint64_t left_until(uint64_t now, uint64_t end)
{
	return end > now ? end - now : 0;
}

static void on_budget(struct keeper *k, struct keeper_budget *ret)
{
	struct keeper_life *l = life_of(k);
	uint64_t idle_ms = l->config.spec.limits[LIMIT_IDLE], now = ev_now(l->ev);

	if (l->ttl.armed)
		ret->ttl_left_ms = left_until(now, l->ttl.at_ms);
	if (idle_ms)
		ret->idle_left_ms =
			is_active(k) ? idle_ms : left_until(now, k->active_ms + idle_ms);
	read_disk(l, &l->volume, &ret->own);
	read_disk(l, &l->workspace, &ret->workspace);
}

/* ---- letting others go first ---- */

enum { BUSY_WATCH_MS = 1000 };

static bool may_yield(const struct keeper_life *l)
{
	return !l->yield_fails && l->cgroup.can & 1u << CGROUP_CPU;
}

static void look_busy(struct keeper_life *l, uint64_t cpu_us)
{
	bool was_on = l->yield.on;
	int r;

	if (!may_yield(l))
		return;
	yield_look(&l->yield, ev_now(l->ev), cpu_us, l->config.spec.limits[LIMIT_CPUS]);
	if (l->yield.on == was_on)
		return;
	r = cgroup_yield(&l->cgroup, l->yield.on);
	l->yield_fails = r < 0;
	/* Older kernels have no such thing. It is for the others' sake and no limit of this box. */
	if (r < 0 && r != -ENOENT)
		keeper_note(&l->k, "this box cannot let others go first: %s", strerror(-r));
}

/* Soon after a command starts, and then less and less often, until `refresh` is often enough. */
static void on_busy(struct ev_timer *t)
{
	struct keeper_life *l = container(t, struct keeper_life, busy);
	uint64_t passed_ms = ev_now(l->ev) - l->busy_ms;

	if (keeper_is_frozen(&l->k))
		return;
	look_busy(l, cgroup_cpu_us(&l->cgroup));
	if (passed_ms < BUSY_WATCH_MS)
		ev_timer_set(l->ev, t, passed_ms < YIELD_LOOK_MS ? YIELD_LOOK_MS : passed_ms);
}

/* ---- the box's own /proc ---- */

/* Returns when to look again; 0: init is alone, and no program reads. What a command left
 * behind reads them too, but what does nothing, like a shell that waits for its next line, is not
 * worth much; nor is a box whose processes are not counted. */
static unsigned refresh(struct keeper_life *l)
{
	struct cgroup_stats now;
	bool is_busy;
	int r;

	measure(l, true, &now);
	is_busy = now.cpu_us != l->proc_files.cpu_us;
	look_busy(l, now.cpu_us);
	r = proc_files_write(&l->proc_files, ev_now(l->ev), &now, l->k.running_execs);
	if (r < 0)
		keeper_note(&l->k, "the box's own /proc could not be written: %s", strerror(-r));
	if (l->k.running_execs > 0)
		return REFRESH_MS;
	if (!(l->cgroup.can & 1u << CGROUP_PIDS))
		return SLOW_MS;
	if (now.pids <= 1)
		return 0;
	return is_busy ? REFRESH_MS : SLOW_MS;
}

static void on_exec(struct keeper *k)
{
	struct keeper_life *l = life_of(k);
	uint64_t now = ev_now(l->ev);

	if (proc_files_is_old(&l->proc_files, now, FRESH_MS))
		refresh(l);
	if (may_yield(l)) {
		/* What made it busy may be over. */
		if (l->yield.on)
			look_busy(l, cgroup_cpu_us(&l->cgroup));
		l->yield.asked = true;
		if (!l->busy.armed) {
			l->busy_ms = now;
			ev_timer_set(l->ev, &l->busy, YIELD_LOOK_MS);
		}
	}
	if (!l->refresh.armed || l->refresh.at_ms > now + REFRESH_MS)
		ev_timer_set(l->ev, &l->refresh, REFRESH_MS);
}

static void on_refresh(struct ev_timer *t)
{
	struct keeper_life *l = container(t, struct keeper_life, refresh);
	unsigned wait_ms = keeper_is_frozen(&l->k) ? 0 : refresh(l);

	if (wait_ms)
		ev_timer_set(l->ev, t, wait_ms);
}

/* ---- standing still ---- */

static int freeze(struct keeper_life *l, bool on, struct err *e)
{
	if (!(l->wall->info->flags & WALL_FREEZE))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "wall '%s' cannot pause a box",
			       l->wall->info->name);
	return l->wall->freeze(&l->box, on, e);
}

static int on_freeze(struct keeper *k, bool on, struct err *e)
{
	struct keeper_life *l = life_of(k);
	int r = freeze(l, on, e);

	if (r == 0 && !on) {
		yield_skip(&l->yield, ev_now(l->ev), cgroup_cpu_us(&l->cgroup));
		ev_timer_set(l->ev, &l->refresh, 0);
	}
	return r;
}

void keeper_meter_thaw(struct keeper_life *l)
{
	struct err e;

	if (!keeper_is_frozen(&l->k))
		return;
	l->k.paused = false;
	l->k.asleep = NULL;
	l->k.holds = 0;
	if (freeze(l, false, &e) < 0)
		keeper_note(&l->k, "%s", e.msg);
}

/* ---- the ends of its time ---- */

enum { SLEEP_RETRY_MS = 10000 };

static void fall_asleep(struct keeper_life *l, struct ev_timer *t, const char *cause)
{
	struct err e;

	if (keeper_sleep(&l->k, cause, &e) == 0)
		return;
	keeper_note(&l->k, "expire: the box could not be paused as its time was over: %s", e.msg);
	ev_timer_set(l->ev, t, SLEEP_RETRY_MS);
}

/* A visit has no other client that could wake it. */
static bool falls_asleep(const struct keeper_life *l)
{
	return l->config.spec.expiry == EXPIRE_PAUSE && !l->config.visit;
}

static void expire(struct keeper_life *l, struct ev_timer *t, const char *cause)
{
	if (falls_asleep(l))
		fall_asleep(l, t, cause);
	else
		keeper_life_end(
			l, &(struct keeper_end){.cause = cause,
						.by = "cove",
						.is_ordered = true,
						.grace_ms = KEEPER_EXPIRE_GRACE_MS,
						.remove = l->config.spec.expiry == EXPIRE_REMOVE});
}

static void on_ttl(struct ev_timer *t)
{
	struct keeper_life *l = container(t, struct keeper_life, ttl);

	if (l->state == LIFE_UP)
		expire(l, t, "ttl");
}

static void on_idle_time(struct ev_timer *t)
{
	struct keeper_life *l = container(t, struct keeper_life, idle);
	uint64_t idle_ms = l->config.spec.limits[LIMIT_IDLE], now = ev_now(l->ev);
	struct keeper *k = &l->k;

	if (l->state != LIFE_UP)
		return;
	if (is_active(k))
		k->active_ms = now;
	if (now >= k->active_ms + idle_ms)
		expire(l, t, "idle");
	else
		ev_timer_set(l->ev, t, k->active_ms + idle_ms - now);
}

/* Those that do not run. */
static void start_clocks(struct keeper_life *l)
{
	const uint64_t *v = l->config.spec.limits;

	if (v[LIMIT_TTL] && !l->ttl.armed)
		ev_timer_set(l->ev, &l->ttl, v[LIMIT_TTL]);
	if (v[LIMIT_IDLE] && !l->idle.armed)
		ev_timer_set(l->ev, &l->idle, v[LIMIT_IDLE]);
}

/* Who lists boxes reads it there; a box that is paused is so, whether or not it shows. */
static void on_pause(struct keeper *k)
{
	struct keeper_life *l = life_of(k);
	struct err missed = {0};

	if (record_set_paused(l->lock_fd, k->paused, k->asleep, &missed) < 0)
		keeper_note(k, "shown as %s: %s", k->paused ? "running" : "paused", missed.msg);
	if (k->paused)
		return;
	k->active_ms = ev_now(l->ev);
	start_clocks(l);
}

/* One that is frozen gets its time when it goes on. */
static int on_times(struct keeper *k, const struct wire_times *m, struct err *e)
{
	struct keeper_life *l = life_of(k);
	const struct {
		enum limit_id id;
		uint64_t ms;
		struct ev_timer *timer;
	} times[] = {{LIMIT_TTL, m->ttl_ms, &l->ttl}, {LIMIT_IDLE, m->idle_ms, &l->idle}};
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0; i++)
		if (times[i].ms != WIRE_TIMES_NONE)
			r = limit_check(times[i].id, times[i].ms, e);
	if (r == 0)
		r = record_set_times(l->lock_fd, m->ttl_ms, m->idle_ms, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < 2; i++) {
		if (!times[i].ms)
			continue;
		l->config.spec.limits[times[i].id] =
			times[i].ms == WIRE_TIMES_NONE ? 0 : times[i].ms;
		ev_timer_stop(l->ev, times[i].timer);
	}
	k->active_ms = ev_now(l->ev);
	if (!k->asleep)
		start_clocks(l);
	return 0;
}

void keeper_meter_start(struct keeper_life *l)
{
	l->k.active_ms = l->yield.at_ms = ev_now(l->ev);
	start_clocks(l);
}

void keeper_meter_init(struct keeper_life *l)
{
	l->k.on_stats = on_stats;
	l->ctl.on_budget = on_budget;
	l->k.on_freeze = on_freeze;
	l->k.on_pause = on_pause;
	l->k.on_times = on_times;
	l->k.on_exec = on_exec;
	l->k.on_used = on_used;
	l->k.limit_of = limit_of;
	l->ttl.on_timer = on_ttl;
	l->idle.on_timer = on_idle_time;
	l->refresh.on_timer = on_refresh;
	l->busy.on_timer = on_busy;
}

void keeper_meter_stop(struct keeper_life *l)
{
	ev_timer_stop(l->ev, &l->ttl);
	ev_timer_stop(l->ev, &l->idle);
	ev_timer_stop(l->ev, &l->refresh);
	ev_timer_stop(l->ev, &l->busy);
}
