/*
 * A box's groups in the v1 trees, one per controller.
 *
 * The first process joins the box's group in each of them before it is anybody; commands are moved
 * on, by themselves, into work/e<ID> of memory and e<ID> of io. On v1 a group may hold both
 * processes and groups, so init needs no group of its own.
 *
 * Throttling of a v1 group does not reach the groups below it. So with an io limit init may make no
 * groups in that tree: all of the box stays in the one group that has the limit, and I/O is counted
 * for the box only. Without one nothing is to be protected there, and init gets the box's group
 * itself. Writes that go through the page cache are written back by the kernel for no group and
 * are not limited at all: that is said in `why`.
 *
 * Nothing here tells when a group becomes empty or frozen, and there is no kill (kill.c).
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/iocount.h"
#include "base/limits.h"
#include "cgroup/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

enum { STATE_LOOK_MS = 1, DEFAULT_WEIGHT = 1024 };

static int *group_of(struct cgroup *cg, enum layout_tree t)
{
	if (t == LAYOUT_FREEZER)
		return &cg->v1_fd[CGROUP_TREE];
	return t == LAYOUT_CPUACCT ? &cg->v1_acct_fd : &cg->v1_fd[t];
}

static int join(const struct layout *l, enum layout_tree t, struct cgroup *cg)
{
	int fd;

	/* Controllers on one mount share the group: it is joined once. */
	for (int i = LAYOUT_V2 + 1; i < LAYOUT_COUNT; i++)
		if (i != (int)t && strcmp(l->dir[i].path, l->dir[t].path) == 0 &&
		    *group_of(cg, (enum layout_tree)i) >= 0)
			return 0;
	fd = openat(*group_of(cg, t), "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	cg->join_fd[cg->join_count++] = fd;
	return 0;
}

static int make_group(const struct layout *l, const char *box, enum layout_tree t,
		      struct cgroup *cg, bool *ret_new)
{
	int fd = layout_make(l, t, box, ret_new);

	if (fd < 0)
		return fd;
	*group_of(cg, t) = fd;
	if (t != LAYOUT_CPUACCT) {
		enum cgroup_part part = t == LAYOUT_FREEZER ? CGROUP_TREE : (enum cgroup_part)t;

		cg->kind[part] = &cgroup_v1;
		cg->group_fd[part] = fd;
	}
	return 0;
}

int v1_make_tree(const struct layout *l, const struct cgroup_want *w, struct cgroup *cg)
{
	int r = make_group(l, w->box, LAYOUT_FREEZER, cg, NULL);

	if (r == 0)
		r = join(l, LAYOUT_FREEZER, cg);
	if (r == 0 && layout_has(l, LAYOUT_CPUACCT)) {
		r = make_group(l, w->box, LAYOUT_CPUACCT, cg, NULL);
		if (r == 0)
			r = join(l, LAYOUT_CPUACCT, cg);
	}
	return r;
}

static int limit_bytes(int fd, uint64_t bytes)
{
	static const char memory[] = "memory.limit_in_bytes",
			  both[] = "memory.memsw.limit_in_bytes";
	int r = knob_set_max(fd, memory, bytes);

	/* Memory and swap together must not be less than memory: the larger goes up first. */
	if (r == -EINVAL) {
		r = knob_set_max(fd, both, bytes);
		return r < 0 ? r : knob_set_max(fd, memory, bytes);
	}
	if (r == 0)
		r = knob_set_max(fd, both, bytes);
	return r == -ENOENT && faccessat(fd, both, F_OK, 0) < 0 ? 0 : r;
}

static int limit_io(const struct layout *l, const struct cgroup_limits *lim, int fd)
{
	static const char *const files[] = {"blkio.throttle.read_bps_device",
					    "blkio.throttle.write_bps_device"};
	dev_t disk = layout_disk(l, lim->io_dev);
	char text[64], now[KNOB_TEXT_MAX];

	if (disk == 0)
		return -ENODEV;
	snprintf(text, sizeof(text), "%u:%u %" PRIu64, major(disk), minor(disk), lim->io_bytes);
	for (size_t i = 0; i < 2; i++) {
		int r = knob_set(fd, files[i], text);

		if (r == 0)
			r = knob_get(fd, files[i], now, sizeof(now));
		if (r < 0)
			return r;
		if (!knob_has_line(now, text))
			return -ENODATA;
	}
	return 0;
}

static int limit_part(const struct layout *l, const struct cgroup_limits *lim,
		      enum cgroup_part part, int fd, bool is_new)
{
	struct cpu_quota q = cpu_quota(lim->cpu_milli);
	int r = 0;

	switch (part) {
	case CGROUP_MEMORY:
		/* Before work/ is made, which inherits it. Some kernels refuse it below a group
		 * that swaps; the limit of memory and swap together holds all the same. */
		(void)knob_set(fd, "memory.swappiness", "0");
		return limit_bytes(fd, memory_of_box(lim->mem_bytes));
	case CGROUP_CPU:
		if (is_new ? q.period_us != CPU_PERIOD_US
			   : knob_get_u64(fd, "cpu.cfs_period_us") != q.period_us)
			r = knob_set_exact(fd, "cpu.cfs_period_us", q.period_us);
		return r < 0 ? r : knob_set_exact(fd, "cpu.cfs_quota_us", q.quota_us);
	case CGROUP_PIDS:
		return knob_set_max(fd, "pids.max", lim->pids + 1);
	case CGROUP_IO:
		return limit_io(l, lim, fd);
	default:
		return -EINVAL;
	}
}

/* For init: it makes groups below, and processes move themselves into those. */
static int make_work(const struct cgroup_want *w, enum cgroup_part part, struct cgroup *cg)
{
	autoclose int work = part == CGROUP_IO ? group_open(cg->v1_fd[part], ".")
					       : group_make(cg->v1_fd[part], "work");
	int r = 0;

	if (work < 0)
		return work;
	if (part == CGROUP_MEMORY && w->limits->mem_bytes)
		r = limit_bytes(work, w->limits->mem_bytes);
	if (r < 0)
		return r;
	if (fchown(work, w->uid, w->gid) < 0 ||
	    fchownat(work, "tasks", w->uid, w->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	cg->v1_work_fd[part] = take_fd(work);
	return 0;
}

static int v1_change(const struct cgroup *cg, const struct cgroup_limits *lim,
		     enum cgroup_part part)
{
	int fd = cg->v1_fd[part], work = cg->v1_work_fd[part];
	int r = limit_part(NULL, lim, part, fd, false);

	if (r < 0 || part != CGROUP_MEMORY)
		return r;
	if (work >= 0)
		r = limit_bytes(work, lim->mem_bytes);
	if (r == 0 && !cg->tcp_uncounted)
		r = knob_set_max(fd, CGROUP_TCP_LIMIT, tcp_of_memory(lim->mem_bytes));
	return r;
}

void v1_limit(const struct layout *l, const struct cgroup_want *w, enum cgroup_part part,
	      struct cgroup *cg)
{
	enum layout_tree t = (enum layout_tree)part;
	bool asked = limit_is_set(w->limits, part), is_new = false;
	int r;

	ASSERT(part < CGROUP_PART_COUNT);
	if (!asked && (part == CGROUP_CPU || (part == CGROUP_IO && w->limits->brief)))
		return;
	r = make_group(l, w->box, t, cg, &is_new);
	if (r < 0) {
		layout_why_errno(l, t, -r, cg->why[part]);
		return;
	}
	if (asked)
		r = limit_part(l, w->limits, part, cg->v1_fd[part], is_new);
	if (r == 0 && (part == CGROUP_MEMORY || (part == CGROUP_IO && !asked)))
		r = make_work(w, part, cg);
	if (r == 0)
		r = join(l, t, cg);
	if (r < 0) {
		limit_why(-r, part, cg->why[part]);
		return;
	}
	cg->can |= 1u << part;
	if (asked && part == CGROUP_IO)
		snprintf(cg->why[part], CGROUP_WHY_MAX,
			 "cgroup v1 limits reads and direct writes, not those through the page "
			 "cache; " CGROUP_REMEDY_V2);
	else if (asked)
		cg->limits |= 1u << part;
	/* init's own sockets are counted in this group, a command's in the one that init makes, or
	 * where it makes none in work/. */
	if (asked && part == CGROUP_MEMORY) {
		uint64_t bytes = tcp_of_memory(w->limits->mem_bytes);

		cg->tcp_uncounted = knob_set_max(cg->v1_fd[part], CGROUP_TCP_LIMIT, bytes) < 0 ||
				    (w->limits->brief && knob_set_max(cg->v1_work_fd[part],
								      CGROUP_TCP_LIMIT, bytes) < 0);
	}
}

/* Freezing. There is no event: reading the state is what moves it on. */

static int await_state(int box_fd, const char *want, unsigned wait_ms)
{
	uint64_t until = clock_mono_ms() + wait_ms;
	char now[32];

	for (;;) {
		int r = knob_get(box_fd, "freezer.state", now, sizeof(now));

		if (r < 0)
			return r;
		if (knob_has_line(now, want))
			return 0;
		if (clock_mono_ms() >= until)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, STATE_LOOK_MS);
	}
}

static int v1_freeze(int fd, bool on, unsigned wait_ms)
{
	int r = knob_set(fd, "freezer.state", on ? "FROZEN" : "THAWED");

	if (r == 0)
		r = await_state(fd, on ? "FROZEN" : "THAWED", wait_ms);
	if (r < 0 && on)
		(void)knob_set(fd, "freezer.state", "THAWED");
	return r;
}

static int v1_kill(int fd)
{
	return group_kill_members(fd, &cgroup_v1);
}

/* ---- the tree ---- */

static void v1_boxes_made(enum layout_tree t, int fd)
{
	if (t != LAYOUT_MEMORY)
		return;
	/* Kernels before 5.11 count what is below a group only if they are asked to. */
	(void)knob_set(fd, "memory.use_hierarchy", "1");
	/* The first group that counts network buffers changes the kernel's code; with this one it
	 * does so once, and not for each box. */
	(void)knob_set(fd, CGROUP_TCP_LIMIT, CGROUP_TCP_COUNTED);
}

static void v1_remove_below(const struct layout *l, enum layout_tree t, const char *box)
{
	if (t != LAYOUT_MEMORY || layout_remove(l, t, box, "/work") == 0)
		return;
	(void)layout_remove(l, t, box, CGROUP_FIRST_COMMAND);
	(void)layout_remove(l, t, box, "/work");
}

/* ---- numbers ---- */

static void v1_read_time(const struct cgroup *cg, struct cgroup_stats *s)
{
	if (cg->v1_acct_fd >= 0)
		s->cpu_us = knob_get_u64(cg->v1_acct_fd, "cpuacct.usage") / 1000;
}

static void v1_read_now(enum cgroup_part part, int fd, struct cgroup_stats *s)
{
	char text[KNOB_TEXT_MAX];

	if (part == CGROUP_MEMORY) {
		s->mem_bytes = knob_get_u64(fd, "memory.usage_in_bytes");
		s->mem_cache_bytes = knob_get_cache(fd, "total_inactive_file", "total_active_file");
	} else if (part == CGROUP_CPU && knob_get(fd, "cpu.stat", text, sizeof(text)) == 0) {
		s->throttled_us = knob_field(text, "throttled_time") / 1000;
	} else if (part == CGROUP_PIDS) {
		s->pids = knob_get_u64(fd, "pids.current");
	}
}

/* A kill is counted only in the group that the process was in. */
static void add_kills(int fd, void *arg)
{
	char text[256];

	if (knob_get(fd, "memory.oom_control", text, sizeof(text)) == 0)
		*(uint64_t *)arg += knob_field(text, "oom_kill");
}

/* A group that was removed is in its parent's recursive count for a while yet, so those that are
 * there are added up instead. */
static void add_io(int fd, void *arg)
{
	struct cgroup_stats *s = arg;
	char text[KNOB_TEXT_MAX];
	uint64_t r, w;

	if (knob_get(fd, "blkio.throttle.io_service_bytes", text, sizeof(text)) == 0) {
		io_count(text, &r, &w);
		s->io_read_bytes += r;
		s->io_write_bytes += w;
	}
}

static void v1_read_rest(enum cgroup_part part, int fd, struct cgroup_stats *s)
{
	char text[256];

	if (part == CGROUP_MEMORY) {
		s->mem_peak_bytes = knob_get_u64(fd, "memory.max_usage_in_bytes");
		group_walk(fd, add_kills, &s->oom_kills);
	} else if (part == CGROUP_PIDS && knob_get(fd, "pids.events", text, sizeof(text)) == 0) {
		s->pids_hits = knob_field(text, "max");
	} else if (part == CGROUP_IO) {
		group_walk(fd, add_io, s);
	}
}

static bool v1_counts_commands(const struct cgroup *cg)
{
	return cg->v1_work_fd[CGROUP_IO] >= 0;
}

/* ---- a helper's group ---- */

static int v1_limit_helper(enum cgroup_helper_kind kind, const struct cgroup_limits *limits,
			   enum cgroup_part part, int fd)
{
	int r;

	if (part == CGROUP_CPU) {
		if (kind == CGROUP_KEEPER)
			(void)knob_set_u64(fd, "cpu.shares", DEFAULT_WEIGHT * CGROUP_KEEPER_WEIGHT);
		return knob_set_u64(fd, "cpu.cfs_quota_us", cpu_quota(limits->cpu_milli).quota_us);
	}
	r = knob_set_u64(fd, "memory.limit_in_bytes", limits->mem_bytes);
	/* A kernel that does not count swap has no such file. The keeper has no network sockets,
	 * and where a kernel cannot count them the box's own limit says so. */
	if (r == 0)
		r = knob_set_u64(fd, "memory.memsw.limit_in_bytes", limits->mem_bytes);
	if (kind == CGROUP_DOOR)
		(void)knob_set_u64(fd, CGROUP_TCP_LIMIT, tcp_of_memory(limits->mem_bytes));
	return r == -ENOENT ? 0 : r;
}

static void v1_open_meter(enum cgroup_helper_kind kind, enum layout_tree t, int fd,
			  struct cgroup_meter *m)
{
	if (t == LAYOUT_MEMORY)
		m->mem_fd = knob_open(fd, "memory.usage_in_bytes", O_RDONLY);
	if (t == LAYOUT_MEMORY && kind == CGROUP_DOOR)
		m->tcp_fd = knob_open(fd, "memory.kmem.tcp.usage_in_bytes", O_RDONLY);
	if (t == LAYOUT_CPUACCT)
		m->time_fd = knob_open(fd, "cpuacct.usage", O_RDONLY);
}

static int v1_open_exit(const struct layout *l, int boxes_fd)
{
	(void)l;
	return knob_open(boxes_fd, "../tasks", O_WRONLY);
}

const struct cgroup_kind cgroup_v1 = {
	.magic = 0x27e0eb,
	.join_file = "tasks",
	.not_users = "cgroup v1 is not for ordinary users; run as root, or " CGROUP_REMEDY_V2,
	.on_boxes_made = v1_boxes_made,
	.change = v1_change,
	.kill = v1_kill,
	.freeze = v1_freeze,
	.remove_below = v1_remove_below,
	.read_time = v1_read_time,
	.read_now = v1_read_now,
	.read_rest = v1_read_rest,
	.counts_commands = v1_counts_commands,
	.limit_helper = v1_limit_helper,
	.open_meter = v1_open_meter,
	.open_exit = v1_open_exit,
};
