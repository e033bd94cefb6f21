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
 * Nothing here tells when a group becomes empty or frozen, and there is no kill. Processes
 * are held by pidfds: a number that was reused in between is never signalled, and the wait for the
 * end is a poll.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cgroup/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

enum { KILL_BATCH = 128, KILL_PASSES = 1000, KILL_LOOK_MS = 200, STATE_LOOK_MS = 1 };

static int *group_of(struct cgroup *cg, enum layout_tree t)
{
	if (t == LAYOUT_FREEZER)
		return &cg->v1_fd[CGROUP_TREE];
	return t == LAYOUT_CPUACCT ? &cg->v1_acct_fd : &cg->v1_fd[t];
}

/* Controllers on one mount share the group: it is joined once. */
static bool is_joined(const struct layout *l, enum layout_tree t, struct cgroup *cg)
{
	for (int i = LAYOUT_V2 + 1; i < LAYOUT_COUNT; i++)
		if (i != (int)t && strcmp(l->dir[i].path, l->dir[t].path) == 0 &&
		    *group_of(cg, (enum layout_tree)i) >= 0)
			return true;
	return false;
}

static int join(const struct layout *l, enum layout_tree t, struct cgroup *cg)
{
	int fd;

	if (is_joined(l, t, cg))
		return 0;
	fd = openat(*group_of(cg, t), "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	cg->join_fd[cg->join_count++] = fd;
	return 0;
}

static int make_group(const struct layout *l, const char *box, enum layout_tree t,
		      struct cgroup *cg)
{
	int fd = layout_make(l, t, box);

	if (fd < 0)
		return fd;
	*group_of(cg, t) = fd;
	return 0;
}

int v1_make_tree(const struct layout *l, const struct cgroup_want *w, struct cgroup *cg)
{
	int r = make_group(l, w->box, LAYOUT_FREEZER, cg);

	if (r == 0)
		r = join(l, LAYOUT_FREEZER, cg);
	if (r == 0 && layout_has(l, LAYOUT_CPUACCT)) {
		r = make_group(l, w->box, LAYOUT_CPUACCT, cg);
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

/* Before work/ is made, which inherits it. Some kernels refuse it below a group that swaps; the
 * limit of memory and swap together holds all the same. */
static int limit_memory(const struct cgroup_limits *lim, int fd)
{
	(void)knob_set(fd, "memory.swappiness", "0");
	return limit_bytes(fd, memory_of_box(lim->mem_bytes));
}

/* init's own sockets are counted in this group, a command's in the one that init makes for it. */
static void limit_tcp(const struct cgroup_limits *lim, struct cgroup *cg)
{
	cg->tcp_uncounted = knob_set_max(cg->v1_fd[CGROUP_MEMORY], CGROUP_TCP_LIMIT,
					 tcp_of_memory(lim->mem_bytes)) < 0;
}

static int limit_cpu(const struct cgroup_limits *lim, int fd)
{
	struct cpu_quota q = cpu_quota(lim->cpu_milli);
	int r = 0;

	if (knob_get_u64(fd, "cpu.cfs_period_us") != q.period_us)
		r = knob_set_exact(fd, "cpu.cfs_period_us", q.period_us);
	return r < 0 ? r : knob_set_exact(fd, "cpu.cfs_quota_us", q.quota_us);
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
		      enum cgroup_part part, int fd)
{
	switch (part) {
	case CGROUP_MEMORY:
		return limit_memory(lim, fd);
	case CGROUP_CPU:
		return limit_cpu(lim, fd);
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

static bool has_work(const struct cgroup_want *w, enum cgroup_part part)
{
	return part == CGROUP_MEMORY || (part == CGROUP_IO && !w->limits->io_bytes);
}

void v1_limit(const struct layout *l, const struct cgroup_want *w, enum cgroup_part part,
	      struct cgroup *cg)
{
	static const char *const names[] = {[CGROUP_MEMORY] = "memory",
					    [CGROUP_CPU] = "cpu",
					    [CGROUP_PIDS] = "pids",
					    [CGROUP_IO] = "io"};
	enum layout_tree t = (enum layout_tree)part;
	bool asked = limit_is_set(w->limits, part);
	int r;

	ASSERT(part < CGROUP_PART_COUNT);
	if (!asked && (part == CGROUP_CPU || (part == CGROUP_IO && w->limits->brief)))
		return;
	r = make_group(l, w->box, t, cg);
	if (r < 0) {
		layout_why_errno(l, t, -r, cg->why[part]);
		return;
	}
	if (asked)
		r = limit_part(l, w->limits, part, cg->v1_fd[part]);
	if (r == 0 && has_work(w, part))
		r = make_work(w, part, cg);
	if (r == 0)
		r = join(l, t, cg);
	if (r < 0) {
		limit_why(-r, names[part], cg->why[part]);
		return;
	}
	cg->can |= 1u << part;
	if (asked && part == CGROUP_IO)
		snprintf(cg->why[part], CGROUP_WHY_MAX,
			 "cgroup v1 limits reads and direct writes, not those through the page "
			 "cache; boot with systemd.unified_cgroup_hierarchy=1");
	else if (asked)
		cg->limits |= 1u << part;
	if (asked && part == CGROUP_MEMORY)
		limit_tcp(w->limits, cg);
}

/* Killing. */

struct kill_batch {
	struct pollfd held[KILL_BATCH]; /* pidfds, owned */
	pid_t pids[KILL_BATCH];
	unsigned count;
	bool seen; /* somebody is there, held or not */
};

static void hold(struct kill_batch *b, const char *word)
{
	uint64_t pid;
	int fd;

	b->seen = true;
	if (b->count == KILL_BATCH || !str_parse_u64(word, INT32_MAX, &pid) || pid == 0 ||
	    (pid_t)pid == getpid())
		return;
	fd = sys_pidfd_open((pid_t)pid);
	if (fd < 0)
		return;
	b->pids[b->count] = (pid_t)pid;
	b->held[b->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static bool is_listed(const char *text, pid_t pid)
{
	char line[16];

	snprintf(line, sizeof(line), "%d", (int)pid);
	return knob_has_line(text, line);
}

/* Only those that the group still lists once they are held can be meant. */
static void kill_group(int fd, void *arg)
{
	struct kill_batch *b = arg;
	autofree char *before = NULL, *after = NULL;
	unsigned first = b->count;
	char *at, *word;

	if (fd_read_file(fd, "cgroup.procs", CGROUP_PROCS_MAX, &before, NULL) < 0 || !before[0])
		return;
	at = before;
	while ((word = strsep(&at, "\n")))
		if (word[0])
			hold(b, word);
	if (fd_read_file(fd, "cgroup.procs", CGROUP_PROCS_MAX, &after, NULL) < 0)
		return;
	for (unsigned i = first; i < b->count; i++)
		if (is_listed(after, b->pids[i]))
			sys_pidfd_send_signal(b->held[i].fd, SIGKILL);
}

/* Waits for the end of those that are held, and lets go of them. */
static void await(struct kill_batch *b)
{
	uint64_t until = clock_mono_ms() + KILL_LOOK_MS;

	for (unsigned i = 0; i < b->count; i++) {
		uint64_t now = clock_mono_ms();

		if (now < until)
			(void)poll(&b->held[i], 1, (int)(until - now));
		fd_close(&b->held[i].fd);
	}
	if (b->count == 0)
		(void)poll(NULL, 0, STATE_LOOK_MS);
}

int v1_kill(int box_fd)
{
	uint64_t until = clock_mono_ms() + GROUP_WAIT_MS;

	for (int i = 0; i < KILL_PASSES && clock_mono_ms() < until; i++) {
		struct kill_batch b = {.count = 0};

		/* While frozen, none of them forks between the look and the signal. A signal is
		 * only acted on after the thaw. */
		(void)v1_freeze_for(box_fd, KILL_LOOK_MS);
		group_walk(box_fd, kill_group, &b);
		(void)knob_set(box_fd, "freezer.state", "THAWED");
		if (!b.seen)
			return 0;
		await(&b);
	}
	return -ETIMEDOUT;
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

int v1_freeze_for(int box_fd, unsigned wait_ms)
{
	int r = knob_set(box_fd, "freezer.state", "FROZEN");

	return r < 0 ? r : await_state(box_fd, "FROZEN", wait_ms);
}

int v1_thaw(int box_fd)
{
	int r = knob_set(box_fd, "freezer.state", "THAWED");

	return r < 0 ? r : await_state(box_fd, "THAWED", GROUP_WAIT_MS);
}
