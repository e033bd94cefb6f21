/* A box's cgroups: which tree each part is in, freezing, and trying it out; see cgroup.h. */
#include "cgroup/cgroup.h"

#include "base/fd.h"
#include "base/str.h"
#include "cgroup/parts.h"
#include "cgroup/view.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_PREFIX "probe-"

/* A keeper waits for it with all its clients. */
enum { FREEZE_WAIT_MS = 1000 };

const char *const cgroup_part_names[CGROUP_PART_COUNT] = {
	[CGROUP_MEMORY] = "memory",
	[CGROUP_CPU] = "cpu",
	[CGROUP_PIDS] = "pids",
	[CGROUP_IO] = "io",
};

static void cgroup_clear(struct cgroup *cg)
{
	memset(cg, 0, sizeof(*cg));
	cg->fd = cg->init_fd = cg->work_fd = cg->v1_acct_fd = -1;
	for (int i = 0; i < CGROUP_PART_COUNT; i++)
		cg->group_fd[i] = cg->v1_fd[i] = cg->v1_work_fd[i] = -1;
	for (int i = 0; i < CGROUP_JOIN_MAX; i++)
		cg->join_fd[i] = -1;
}

void cgroup_none(struct cgroup *ret, const char *why)
{
	cgroup_clear(ret);
	for (int i = 0; i < CGROUP_PART_COUNT; i++)
		snprintf(ret->why[i], sizeof(ret->why[i]), "%s", why);
}

void cgroup_done(struct cgroup *cg)
{
	fd_close(&cg->fd);
	fd_close(&cg->init_fd);
	fd_close(&cg->work_fd);
	fd_close(&cg->v1_acct_fd);
	for (int i = 0; i < CGROUP_PART_COUNT; i++) {
		cg->kind[i] = NULL;
		cg->group_fd[i] = -1;
		fd_close(&cg->v1_fd[i]);
		fd_close(&cg->v1_work_fd[i]);
	}
	for (int i = 0; i < CGROUP_JOIN_MAX; i++)
		fd_close(&cg->join_fd[i]);
	cg->join_count = 0;
	free(cg->view);
	cg->view = NULL;
	free(cg->layout);
	cg->layout = NULL;
}

static bool has_group(const struct cgroup *cg, int tree)
{
	if (tree == LAYOUT_V2)
		return cg->fd >= 0;
	if (tree == LAYOUT_FREEZER)
		return cg->v1_fd[CGROUP_TREE] >= 0;
	if (tree == LAYOUT_CPUACCT)
		return cg->v1_acct_fd >= 0;
	return cg->v1_fd[tree] >= 0 || cg->v1_work_fd[tree] >= 0;
}

int cgroup_end(struct cgroup *cg, const char *box, struct err *e)
{
	/* Mounts do not move in the life of a brief box, and its groups are where they were made;
	 * for another they are looked up again. */
	autofree struct layout *layout = take_ptr(cg->layout);

	free(take_ptr(cg->view));
	for (int t = 0; layout && t < LAYOUT_COUNT; t++)
		if (!has_group(cg, t))
			layout->dir[t].path[0] = 0;

	return layout ? cgroup_remove_in(layout, box, e) : cgroup_remove(box, e);
}

/* The kernel wants a quota of at least a millisecond; a small share gets a longer period. */
struct cpu_quota cpu_quota(uint64_t cpu_milli)
{
	struct cpu_quota q = {.quota_us = cpu_milli * 100, .period_us = CPU_PERIOD_US};

	if (q.quota_us < 1000)
		q = (struct cpu_quota){.quota_us = cpu_milli * 1000, .period_us = 1000000};
	return q;
}

uint64_t memory_of_box(uint64_t mem_bytes)
{
	return mem_bytes > INT64_MAX - CGROUP_RESERVE_BYTES ? INT64_MAX
							    : mem_bytes + CGROUP_RESERVE_BYTES;
}

uint64_t tcp_of_memory(uint64_t mem_bytes)
{
	uint64_t share = mem_bytes / CGROUP_TCP_SHARE;

	return share < CGROUP_TCP_LEAST ? CGROUP_TCP_LEAST : share;
}

bool limit_is_set(const struct cgroup_limits *limits, enum cgroup_part part)
{
	const uint64_t asked[CGROUP_PART_COUNT] = {
		[CGROUP_MEMORY] = limits->mem_bytes,
		[CGROUP_CPU] = limits->cpu_milli,
		[CGROUP_PIDS] = limits->pids,
		[CGROUP_IO] = limits->io_bytes,
	};

	return asked[part] != 0;
}

void limit_why(int code, enum cgroup_part part, char *why)
{
	const char *name = cgroup_part_names[part];

	if (code == ENODEV)
		snprintf(why, CGROUP_WHY_MAX,
			 "the box's storage is on no disk of its own that I/O can be limited on; "
			 "keep Cove's state on a disk's file system");
	else if (code == ENODATA)
		snprintf(why, CGROUP_WHY_MAX, "the kernel did not take the %s limit as given",
			 name);
	else if (code == ENOENT)
		snprintf(why, CGROUP_WHY_MAX, "this kernel's %s controller has no such limit",
			 name);
	else
		snprintf(why, CGROUP_WHY_MAX, "the %s limit cannot be set: %s", name,
			 strerror(code));
}

/* Somebody else's groups, a read-only mount: the same as having none. */
static bool is_not_ours(int code)
{
	return code == EACCES || code == EPERM || code == EROFS || code == ENOENT;
}

/* v2, or where that may not be used v1's freezer. */
static int make_tree(const struct layout *l, const struct cgroup_want *w, unsigned in_v2,
		     struct cgroup *cg)
{
	int v2 = layout_has(l, LAYOUT_V2) ? v2_make(l, w, in_v2, cg) : -ENOENT, r = v2;

	if (v2 < 0 && is_not_ours(-v2)) {
		cgroup_done(cg);
		r = v1_make_tree(l, w, cg);
	}
	if (r == 0)
		cg->can |= 1u << CGROUP_TREE;
	if (r == 0 || !is_not_ours(-r))
		return r;
	cgroup_done(cg);
	cgroup_remove_in(l, w->box, NULL);
	if (layout_has(l, LAYOUT_V2))
		layout_why_errno(l, LAYOUT_V2, -v2, cg->why[CGROUP_TREE]);
	else
		layout_why_errno(l, LAYOUT_FREEZER, -r, cg->why[CGROUP_TREE]);
	return 0;
}

int cgroup_make_in(const struct layout *l, const struct cgroup_want *w, struct cgroup *ret,
		   struct err *e)
{
	const struct cgroup_limits *lim = w->limits;
	bool limited = lim->mem_bytes || lim->cpu_milli || lim->pids || lim->io_bytes;
	unsigned in_v2 = limited ? v2_find(l, lim) : 0;
	int r;

	cgroup_clear(ret);
	r = make_tree(l, w, in_v2, ret);
	if (r < 0) {
		cgroup_done(ret);
		cgroup_remove_in(l, w->box, NULL);
		return err_errno(e, -r, "make cgroup '%s'", w->box);
	}
	if (!limited)
		return 0;
	if (ret->fd >= 0 && in_v2)
		v2_limit(l, w, in_v2, ret);
	for (int i = CGROUP_MEMORY; i < CGROUP_PART_COUNT; i++) {
		if (ret->fd >= 0 && in_v2 & 1u << i)
			continue;
		if (layout_has(l, (enum layout_tree)i))
			v1_limit(l, w, (enum cgroup_part)i, ret);
		else
			layout_why(l, (enum cgroup_part)i, ret->why[i]);
	}
	return 0;
}

int cgroup_make(const char *box, const struct cgroup_limits *limits, uid_t owner_uid,
		gid_t owner_gid, struct cgroup *ret, struct err *e)
{
	struct cgroup_want w = {box, limits, owner_uid, owner_gid};
	struct layout l;
	int r;

	layout_find(&l);
	l.v2_has = v2_read(&l);
	l.knows_v2 = true;
	r = cgroup_make_in(&l, &w, ret, e);
	if (r < 0)
		return r;
	for (int t = 0; t < LAYOUT_COUNT; t++)
		l.dir[t].is_checked = has_group(ret, t);
	r = cgroup_view_make(&l, box, ret, e);
	if (r < 0) {
		cgroup_done(ret);
		cgroup_remove_in(&l, box, NULL);
	}
	if (r == 0) {
		ret->layout = malloc(sizeof(l));
		if (ret->layout) /* or it is looked up again */
			*ret->layout = l;
	}
	return r;
}

int cgroup_change(const struct cgroup *cg, const struct cgroup_limits *was,
		  const struct cgroup_limits *now, enum cgroup_part *ret_part)
{
	const struct {
		enum cgroup_part part;
		bool differs;
	} parts[] = {
		{CGROUP_MEMORY, was->mem_bytes != now->mem_bytes},
		{CGROUP_CPU, was->cpu_milli != now->cpu_milli},
		{CGROUP_PIDS, was->pids != now->pids},
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++) {
		enum cgroup_part part = parts[i].part;

		ASSERT(limit_is_set(was, part) == limit_is_set(now, part));
		if (!parts[i].differs || !(cg->limits & 1u << part))
			continue;
		r = cg->kind[part]->change(cg, now, part);
		*ret_part = part;
	}
	return r;
}

int cgroup_freeze(const struct cgroup *cg, bool on, struct err *e)
{
	int r;

	if (!cg->kind[CGROUP_TREE])
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "this box has no cgroup to be frozen in: %s", cg->why[CGROUP_TREE]);
	r = cg->kind[CGROUP_TREE]->freeze(cg->group_fd[CGROUP_TREE], on, FREEZE_WAIT_MS);
	if (r == -ENOENT)
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "this kernel cannot freeze a cgroup; Linux 5.2 or newer can");
	if (r == -ETIMEDOUT)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "a process of the box does not %s",
			       on ? "freeze: it waits inside the kernel" : "go on");
	return r < 0 ? err_errno(e, -r, on ? "freeze the box" : "thaw the box") : 0;
}

int cgroup_yield(const struct cgroup *cg, bool on)
{
	if (!(cg->can & 1u << CGROUP_CPU))
		return -ENOTSUP;
	return knob_set(cg->group_fd[CGROUP_CPU], "cpu.idle", on ? "1" : "0");
}

/* One that was killed in the middle leaves its groups behind. */
static void remove_stale(const char *box, void *arg)
{
	uint64_t pid;

	if (str_starts(box, PROBE_PREFIX) &&
	    str_parse_u64(box + strlen(PROBE_PREFIX), INT32_MAX, &pid) && pid > 0 &&
	    kill((pid_t)pid, 0) < 0 && errno == ESRCH)
		cgroup_remove_in(arg, box, NULL);
}

void cgroup_probe_in(struct layout *l, struct cgroup_offer *ret)
{
	struct cgroup_limits lim = {.mem_bytes = 64 << 20, .cpu_milli = 1000, .pids = 16};
	char box[32];
	struct cgroup_want w = {box, &lim, geteuid(), getegid()};
	struct cgroup cg;
	struct err e = {0};

	memset(ret, 0, sizeof(*ret));
	str_copy(ret->layout, sizeof(ret->layout), layout_name(l));
	cgroup_each_in(l, remove_stale, l);
	snprintf(box, sizeof(box), PROBE_PREFIX "%d", (int)getpid());
	if (cgroup_make_in(l, &w, &cg, &e) < 0) {
		for (int i = 0; i < CGROUP_PART_COUNT; i++)
			snprintf(ret->why[i], CGROUP_WHY_MAX, "%.*s", CGROUP_WHY_MAX - 1, e.msg);
		return;
	}
	/* What was asked for counts only if it holds. */
	ret->can = cg.can & (cg.limits | 1u << CGROUP_TREE | 1u << CGROUP_IO);
	memcpy(ret->why, cg.why, sizeof(ret->why));
	cgroup_done(&cg);
	cgroup_remove_in(l, box, NULL);
}

void cgroup_probe(struct cgroup_offer *ret)
{
	struct layout l;

	layout_find(&l);
	cgroup_probe_in(&l, ret);
}
