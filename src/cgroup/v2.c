/*
 * A box's groups in the v2 tree.
 *
 * Controllers are handed down from the mount (or the delegated group) over cove/ and the box to
 * work/, so that every command's group has its own numbers. The kernel hands them down only from a
 * group without processes of its own. The root of a host is exempt from that; a scope that systemd
 * marked as delegated is not, so the caller's own processes in it are moved into a group beside
 * ours first. A scope without that mark belongs to whoever made it: nothing is moved, and the
 * remedy is named.
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
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define COMMANDS_MAX "4096"

enum { MOVE_PASSES = 16 };

unsigned v2_read(const struct layout *l)
{
	char path[LAYOUT_PATH_MAX + 32], have[256];
	unsigned mask = 0;

	snprintf(path, sizeof(path), "%s/cgroup.controllers", l->dir[LAYOUT_V2].path);
	if (!layout_has(l, LAYOUT_V2) || knob_get(AT_FDCWD, path, have, sizeof(have)) < 0)
		return 0;
	for (int i = CGROUP_MEMORY; i < CGROUP_PART_COUNT; i++)
		if (knob_has_word(have, cgroup_part_names[i]))
			mask |= 1u << i;
	return mask;
}

/* cpu is left alone without a limit: its groups are what the scheduler shares time between. */
unsigned v2_find(const struct layout *l, const struct cgroup_limits *lim)
{
	unsigned mask = l->knows_v2 ? l->v2_has : v2_read(l);

	return lim->cpu_milli ? mask : mask & ~(1u << CGROUP_CPU);
}

int v2_make(const struct layout *l, const struct cgroup_want *w, unsigned controllers,
	    struct cgroup *cg)
{
	int r = layout_make(l, LAYOUT_V2, w->box, NULL);

	if (r < 0)
		return r;
	cg->fd = cg->group_fd[CGROUP_TREE] = r;
	cg->kind[CGROUP_TREE] = &cgroup_v2;
	/* What init may make below is bounded: commands' groups, below work/. */
	r = knob_set(cg->fd, "cgroup.max.depth", "2");
	if (r == 0)
		r = knob_set(cg->fd, "cgroup.max.descendants", COMMANDS_MAX);
	/* Only where controllers are handed down may the box's group hold no process itself. */
	if (r == 0)
		r = cg->init_fd =
			controllers ? group_make(cg->fd, "init") : group_open(cg->fd, ".");
	if (r >= 0)
		r = cg->work_fd = group_make(cg->fd, "work");
	/* init may make groups below work/ and move processes there from its own: for the latter
	 * the kernel wants the nearest common ancestor's cgroup.procs to be writable, and that is
	 * the box's. */
	if (r >= 0 && (fchownat(cg->fd, "cgroup.procs", w->uid, w->gid, 0) < 0 ||
		       fchown(cg->work_fd, w->uid, w->gid) < 0 ||
		       fchownat(cg->work_fd, "cgroup.procs", w->uid, w->gid, 0) < 0))
		r = -errno;
	/* A user may not give to its subordinate ids. In its user namespace init can take them. */
	if (r == -EPERM && !l->is_root)
		r = 0;
	return r < 0 ? r : 0;
}

/* Adds the controllers of the mask that are not yet handed down. */
static int enable(int fd, unsigned mask)
{
	char now[256], text[64] = "";
	size_t n = 0;
	int r = knob_get(fd, "cgroup.subtree_control", now, sizeof(now));

	if (r < 0)
		return r;
	for (int i = CGROUP_MEMORY; i < CGROUP_PART_COUNT; i++)
		if ((mask & 1u << i) && !knob_has_word(now, cgroup_part_names[i]))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "+%s ",
					      cgroup_part_names[i]);
	if (n == 0)
		return 0;
	text[n - 1] = 0;
	return knob_set(fd, "cgroup.subtree_control", text);
}

int v2_make_room(int parent)
{
	autoclose int callers = -1;
	char mark[4] = "";

	if (fgetxattr(parent, "user.delegate", mark, sizeof(mark) - 1) != 1 || mark[0] != '1')
		return -EBUSY;
	callers = group_make(parent, CALLERS_DIR);
	if (callers < 0)
		return callers;
	for (int i = 0; i < MOVE_PASSES; i++) {
		autofree char *text = NULL;
		char *at, *pid;
		int r = fd_read_file(parent, "cgroup.procs", CGROUP_PROCS_MAX, &text, NULL);

		if (r < 0)
			return r;
		if (!text[0])
			return 0;
		at = text;
		while ((pid = strsep(&at, "\n")) && pid[0]) {
			r = knob_set(callers, "cgroup.procs", pid);
			if (r < 0 && r != -ESRCH)
				return r;
		}
	}
	return -EBUSY;
}

int v2_hand_to_boxes(const struct layout *l, unsigned mask)
{
	autoclose int parent = layout_open_parent(l, LAYOUT_V2);
	autoclose int base = layout_open(l, LAYOUT_V2, false);
	int r = parent < 0 ? parent : base < 0 ? base : enable(parent, mask);

	if (r == -EBUSY) {
		r = v2_make_room(parent);
		if (r == 0)
			r = enable(parent, mask);
	}
	return r == 0 ? enable(base, mask) : r;
}

static int limit_cpu(const struct cgroup_limits *lim, int fd)
{
	struct cpu_quota q = cpu_quota(lim->cpu_milli);
	char text[64], now[64];
	int r;

	snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64, q.quota_us, q.period_us);
	r = knob_set_text(fd, "cpu.max", text, now, sizeof(now));
	return r < 0 ? r : strcmp(text, now) == 0 ? 0 : -ENODATA;
}

static int limit_part(const struct layout *l, const struct cgroup_limits *lim,
		      enum cgroup_part part, const struct cgroup *cg)
{
	char text[128], now[KNOB_TEXT_MAX];
	dev_t disk;
	int r;

	switch (part) {
	case CGROUP_MEMORY:
		r = knob_set_max(cg->fd, "memory.max", memory_of_box(lim->mem_bytes));
		if (r == 0)
			r = knob_set_max(cg->work_fd, "memory.max", lim->mem_bytes);
		if (r < 0)
			return r;
		r = knob_set_max(cg->fd, "memory.swap.max", 0);
		return r == -ENOENT ? 0 : r; /* a kernel without swap has no such file */
	case CGROUP_CPU:
		r = limit_cpu(lim, cg->fd);
		return r < 0 ? r : limit_cpu(lim, cg->work_fd);
	case CGROUP_PIDS:
		r = knob_set_max(cg->fd, "pids.max", lim->pids + 1);
		return r < 0 ? r : knob_set_max(cg->work_fd, "pids.max", lim->pids);
	case CGROUP_IO:
		disk = layout_disk(l, lim->io_dev);
		if (disk == 0)
			return -ENODEV;
		snprintf(text, sizeof(text), "%u:%u rbps=%" PRIu64 " wbps=%" PRIu64, major(disk),
			 minor(disk), lim->io_bytes, lim->io_bytes);
		r = knob_set(cg->fd, "io.max", text);
		if (r == 0)
			r = knob_get(cg->fd, "io.max", now, sizeof(now));
		return r < 0 ? r : knob_has_line(now, text) ? 0 : -ENODATA;
	default:
		return -EINVAL;
	}
}

static int v2_change(const struct cgroup *cg, const struct cgroup_limits *lim,
		     enum cgroup_part part)
{
	return limit_part(NULL, lim, part, cg);
}

void v2_limit(const struct layout *l, const struct cgroup_want *w, unsigned mask, struct cgroup *cg)
{
	int r = v2_hand_to_boxes(l, mask);

	if (r == 0)
		r = enable(cg->fd, mask);
	if (r == 0)
		r = enable(cg->work_fd, mask);
	for (int i = CGROUP_MEMORY; i < CGROUP_PART_COUNT; i++) {
		enum cgroup_part part = (enum cgroup_part)i;
		int set = r;

		if (!(mask & 1u << i))
			continue;
		if (set == 0) {
			cg->can |= 1u << i;
			cg->kind[i] = &cgroup_v2;
			cg->group_fd[i] = cg->fd;
		}
		if (set == 0 && limit_is_set(w->limits, part))
			set = limit_part(l, w->limits, part, cg);
		if (set == -EBUSY)
			snprintf(cg->why[i], CGROUP_WHY_MAX,
				 "the cgroup that Cove may use holds processes itself; %s",
				 l->is_root ? "move them into a group below it"
					    : "run under systemd-run --user --scope -p "
					      "Delegate=yes");
		else if (set < 0)
			limit_why(-set, part, cg->why[i]);
		else if (limit_is_set(w->limits, part))
			cg->limits |= 1u << i;
	}
}

/* Waits until cgroup.events has "word value". 0, or -ETIMEDOUT. */
static int v2_wait(int box_fd, const char *word, unsigned value, unsigned wait_ms)
{
	autoclose int events = openat(box_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	uint64_t until = clock_mono_ms() + wait_ms;
	char want[32], text[256];

	if (events < 0)
		return -errno;
	snprintf(want, sizeof(want), "%s %u\n", word, value);
	for (;;) {
		struct pollfd p = {.fd = events, .events = POLLPRI};
		ssize_t n = pread(events, text, sizeof(text) - 1, 0);
		uint64_t now = clock_mono_ms();

		if (n < 0)
			return -errno;
		text[n] = 0;
		if (strstr(text, want))
			return 0;
		if (now >= until)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)(until - now)) < 0 && errno != EINTR)
			return -errno;
	}
}

static int v2_freeze(int fd, bool on, unsigned wait_ms)
{
	int r = knob_set(fd, "cgroup.freeze", on ? "1" : "0");

	if (r == 0)
		r = v2_wait(fd, "frozen", on, wait_ms);
	if (r < 0 && on)
		(void)knob_set(fd, "cgroup.freeze", "0");
	return r;
}

static int v2_kill(int fd)
{
	/* Before Linux 5.14 there is no such file. */
	return knob_set(fd, "cgroup.kill", "1") == 0 ? v2_wait(fd, "populated", 0, GROUP_WAIT_MS)
						     : group_kill_members(fd, &cgroup_v2);
}

static void v2_remove_below(const struct layout *l, enum layout_tree t, const char *box)
{
	if (!l->knows_v2 || l->v2_has) /* or it was never made */
		(void)layout_remove(l, t, box, "/init");
	(void)layout_remove(l, t, box, CGROUP_FIRST_COMMAND);
	(void)layout_remove(l, t, box, "/work");
}

/* ---- numbers ---- */

static void v2_read_time(const struct cgroup *cg, struct cgroup_stats *s)
{
	char text[KNOB_TEXT_MAX];

	if (knob_get(cg->fd, "cpu.stat", text, sizeof(text)) < 0)
		return;
	s->cpu_us = knob_field(text, "usage_usec");
	s->throttled_us = knob_field(text, "throttled_usec");
}

static void v2_read_now(enum cgroup_part part, int fd, struct cgroup_stats *s)
{
	if (part == CGROUP_MEMORY) {
		s->mem_bytes = knob_get_u64(fd, "memory.current");
		s->mem_cache_bytes = knob_get_cache(fd, "inactive_file", "active_file");
	} else if (part == CGROUP_PIDS) {
		s->pids = knob_get_u64(fd, "pids.current");
	}
}

static void v2_read_rest(enum cgroup_part part, int fd, struct cgroup_stats *s)
{
	char text[KNOB_TEXT_MAX];

	if (part == CGROUP_MEMORY) {
		s->mem_peak_bytes = knob_get_u64(fd, "memory.peak");
		if (s->mem_peak_bytes < s->mem_bytes) /* not there before Linux 5.19 */
			s->mem_peak_bytes = s->mem_bytes;
		if (knob_get(fd, "memory.events", text, sizeof(text)) == 0)
			s->oom_kills = knob_field(text, "oom_kill");
	} else if (part == CGROUP_PIDS && knob_get(fd, "pids.events", text, sizeof(text)) == 0) {
		s->pids_hits = knob_field(text, "max");
	} else if (part == CGROUP_IO && knob_get(fd, "io.stat", text, sizeof(text)) == 0) {
		io_count(text, &s->io_read_bytes, &s->io_write_bytes);
	}
}

static bool v2_counts_commands(const struct cgroup *cg)
{
	return cg->work_fd >= 0;
}

/* ---- a helper's group ---- */

static int v2_limit_helper(enum cgroup_helper_kind kind, const struct cgroup_limits *limits,
			   enum cgroup_part part, int fd)
{
	int r;

	if (part == CGROUP_MEMORY) {
		r = knob_set_u64(fd, "memory.max", limits->mem_bytes);
		if (r == 0)
			r = knob_set_u64(fd, "memory.swap.max", 0);
		return r == -ENOENT && faccessat(fd, "memory.max", F_OK, 0) == 0 ? 0 : r;
	}
	if (kind == CGROUP_KEEPER)
		(void)knob_set_u64(fd, "cpu.weight", 100 * CGROUP_KEEPER_WEIGHT);
	return limit_cpu(limits, fd);
}

static void v2_open_meter(enum cgroup_helper_kind kind, enum layout_tree t, int fd,
			  struct cgroup_meter *m)
{
	(void)kind;
	(void)t;
	m->time_fd = knob_open(fd, "cpu.stat", O_RDONLY);
	if (m->mem_fd < 0)
		m->mem_fd = knob_open(fd, "memory.current", O_RDONLY);
}

/* A group without controllers: the root of the machine's, or where an ordinary user's own processes
 * were moved. */
static int v2_open_exit(const struct layout *l, int boxes_fd)
{
	int fd = l->is_root ? -ENOENT
			    : knob_open(boxes_fd, "../" CALLERS_DIR "/cgroup.procs", O_WRONLY);

	return fd >= 0 ? fd : knob_open(boxes_fd, "../cgroup.procs", O_WRONLY);
}

const struct cgroup_kind cgroup_v2 = {
	.magic = 0x63677270,
	.change = v2_change,
	.kill = v2_kill,
	.freeze = v2_freeze,
	.remove_below = v2_remove_below,
	.read_time = v2_read_time,
	.read_now = v2_read_now,
	.read_rest = v2_read_rest,
	.counts_commands = v2_counts_commands,
	.limit_helper = v2_limit_helper,
	.open_meter = v2_open_meter,
	.open_exit = v2_open_exit,
};
