/* The groups of a box's keeper and door; see helper.h. */
#include "cgroup/helper.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cgroup/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_MASK = 1u << CGROUP_MEMORY | 1u << CGROUP_CPU };

static const char *const suffixes[] = {[CGROUP_KEEPER] = "+keeper", [CGROUP_DOOR] = "+door"};

/* ---- how much ---- */

uint64_t cgroup_helper_bytes(enum cgroup_helper_kind kind, const struct cgroup_limits *box)
{
	uint64_t half = box->mem_bytes / 2;

	if (box->mem_bytes == 0)
		return 0;
	if (kind == CGROUP_KEEPER)
		return CGROUP_KEEPER_BYTES;
	if (half > CGROUP_DOOR_BYTES_MAX)
		return CGROUP_DOOR_BYTES_MAX;
	return half < CGROUP_DOOR_BYTES_LEAST ? CGROUP_DOOR_BYTES_LEAST : half;
}

uint64_t cgroup_helper_cpu_milli(enum cgroup_helper_kind kind, const struct cgroup_limits *box)
{
	uint64_t least = kind == CGROUP_KEEPER ? CGROUP_KEEPER_CPU_LEAST : CGROUP_DOOR_CPU_LEAST;

	if (box->cpu_milli == 0)
		return 0;
	return box->cpu_milli < least ? least : box->cpu_milli;
}

/* ---- making ---- */

struct making {
	const struct layout *l;
	enum cgroup_helper_kind kind;
	struct cgroup_limits limits; /* the helper's own */
	struct cgroup_helper *h;
};

/* One tree: the group, how to come and go, and what it uses. Its directory, or -errno. */
static int add_tree(struct making *m, enum layout_tree t)
{
	const struct cgroup_kind *kind = layout_kind(t);
	struct cgroup_helper *h = m->h;
	autoclose int fd = layout_make(m->l, t, h->name, NULL);
	autoclose int parent = -1, join = -1;
	int leave;

	if (fd < 0)
		return fd;
	parent = group_open(fd, "..");
	if (parent < 0)
		return parent;
	if (kind->join_file && (join = knob_open(fd, kind->join_file, O_WRONLY)) < 0)
		return join;
	leave = kind->open_exit(m->l, parent);
	if (leave < 0)
		return leave;
	ASSERT(h->count < CGROUP_HELPER_TREES);
	h->trees[h->count].tree = (int)t;
	h->trees[h->count].parent_fd = take_fd(parent);
	h->trees[h->count].join_fd = take_fd(join);
	h->trees[h->count].leave_fd = leave;
	h->count++;
	kind->open_meter(m->kind, t, fd, &h->meter);
	return take_fd(fd);
}

/* Fewer questions than for a box's limits, as a start should cost nothing: a write that went well
 * is believed, and no share is so small that it needs another period than a new group has. */
static void set_limit(struct making *m, enum layout_tree t, enum cgroup_part part, int fd)
{
	int r = layout_kind(t)->limit_helper(m->kind, &m->limits, part, fd);

	if (r == 0)
		m->h->limits |= 1u << part;
	else if (!m->h->why[0])
		limit_why(-r, part, m->h->why);
}

/* The v2 tree: for limits where it has controllers, for the door's time in any case. Returns the
 * controllers that are limited there. */
static unsigned make_in_v2(struct making *m, unsigned controllers)
{
	autoclose int fd = -1;
	int r = controllers ? v2_hand_to_boxes(m->l, controllers) : 0;

	if ((!controllers && m->kind == CGROUP_KEEPER) || !layout_has(m->l, LAYOUT_V2))
		return 0;
	/* Also without limits: a keeper may have been born in there. */
	fd = add_tree(m, LAYOUT_V2);
	if (fd < 0)
		return 0;
	if (r < 0)
		controllers = 0;
	for (int i = CGROUP_MEMORY; i <= CGROUP_CPU; i++)
		if (controllers & 1u << i && limit_is_set(&m->limits, (enum cgroup_part)i))
			set_limit(m, LAYOUT_V2, (enum cgroup_part)i, fd);
	m->h->v2_fd = take_fd(fd);
	return controllers;
}

static void make_in_v1(struct making *m, enum cgroup_part part)
{
	enum layout_tree t = (enum layout_tree)part;
	autoclose int fd = -1;

	if (!layout_has(m->l, t)) {
		if (!m->h->why[0])
			layout_why(m->l, part, m->h->why);
		return;
	}
	fd = add_tree(m, t);
	if (fd < 0) {
		if (!m->h->why[0])
			layout_why_errno(m->l, t, -fd, m->h->why);
		return;
	}
	set_limit(m, t, part, fd);
}

static void make_in(const struct layout *l, const char *box, enum cgroup_helper_kind kind,
		    const struct cgroup_limits *limits, struct cgroup_helper *ret)
{
	struct making m = {.l = l, .kind = kind, .h = ret};
	unsigned in_v2;

	*ret = (struct cgroup_helper){.v2_fd = -1, .meter = CGROUP_METER_NONE};
	snprintf(ret->name, sizeof(ret->name), "%s%s", box, suffixes[kind]);
	m.limits.mem_bytes = cgroup_helper_bytes(kind, limits);
	m.limits.cpu_milli = cgroup_helper_cpu_milli(kind, limits);
	if (!m.limits.mem_bytes && !m.limits.cpu_milli)
		return;
	in_v2 = make_in_v2(&m, v2_find(l, &m.limits) & PART_MASK);
	for (int i = CGROUP_MEMORY; i <= CGROUP_CPU; i++)
		if (!(in_v2 & 1u << i) && limit_is_set(&m.limits, (enum cgroup_part)i))
			make_in_v1(&m, (enum cgroup_part)i);
	if (kind == CGROUP_DOOR && ret->v2_fd < 0 && layout_has(l, LAYOUT_CPUACCT) &&
	    !layout_is_repeat(l, LAYOUT_CPUACCT)) {
		int fd = add_tree(&m, LAYOUT_CPUACCT);

		fd_close(&fd);
	}
}

void cgroup_helper_make(const char *box, enum cgroup_helper_kind kind,
			const struct cgroup_limits *limits, struct cgroup_helper *ret)
{
	struct layout l;

	layout_find(&l);
	make_in(&l, box, kind, limits, ret);
}

void cgroup_helper_make_beside(struct cgroup *cg, const char *box,
			       const struct cgroup_limits *limits, struct cgroup_helper *ret)
{
	if (cg->layout)
		make_in(cg->layout, box, CGROUP_KEEPER, limits, ret);
	else
		cgroup_helper_make(box, CGROUP_KEEPER, limits, ret);
	if (!limits->brief) /* mounts may move in its life */
		free(take_ptr(cg->layout));
}

int cgroup_helper_parent(const struct cgroup_helper *h, enum cgroup_part part)
{
	for (unsigned i = 0; i < h->count; i++)
		if (h->trees[i].tree == (int)part)
			return h->trees[i].parent_fd;
	return -1;
}

/* ---- being in it ---- */

int cgroup_helper_join(const struct cgroup_helper *h)
{
	int r = 0;

	for (unsigned i = 0; i < h->count && r == 0; i++)
		if (h->trees[i].join_fd >= 0)
			r = fd_write_full(h->trees[i].join_fd, "0", 1);
	return r;
}

void cgroup_helper_remove(const struct cgroup_helper *h)
{
	/* Somebody may still be in there: then that is the one who removes it, or a sweep. */
	for (unsigned i = 0; i < h->count; i++)
		(void)unlinkat(h->trees[i].parent_fd, h->name, AT_REMOVEDIR);
}

void cgroup_helper_leave(const struct cgroup_helper *h)
{
	for (unsigned i = 0; i < h->count; i++)
		(void)fd_write_full(h->trees[i].leave_fd, "0", 1);
	cgroup_helper_remove(h);
}

int cgroup_helper_close_others(const struct cgroup_helper *h, unsigned first)
{
	int keep[2 * CGROUP_HELPER_TREES];
	size_t count = 0;

	for (unsigned i = 0; i < h->count; i++) {
		ASSERT(h->trees[i].parent_fd >= (int)first && h->trees[i].leave_fd >= (int)first);
		keep[count++] = h->trees[i].parent_fd;
		keep[count++] = h->trees[i].leave_fd;
	}
	return child_close_but(first, keep, count);
}

void cgroup_helper_done(struct cgroup_helper *h)
{
	for (unsigned i = 0; i < h->count; i++) {
		fd_close(&h->trees[i].parent_fd);
		fd_close(&h->trees[i].join_fd);
		fd_close(&h->trees[i].leave_fd);
	}
	h->count = 0;
	fd_close(&h->v2_fd);
	cgroup_meter_done(&h->meter);
}

int cgroup_helper_cradle(const char *box, const struct cgroup_limits *limits)
{
	char name[sizeof(((struct cgroup_helper *)0)->name)];
	struct layout l;

	if ((!limits->mem_bytes && !limits->cpu_milli) ||
	    faccessat(AT_FDCWD, "/sys/fs/cgroup/cgroup.controllers", F_OK, 0) < 0)
		return -1;
	layout_find(&l);
	if (!(v2_find(&l, limits) & PART_MASK))
		return -1;
	snprintf(name, sizeof(name), "%s%s", box, suffixes[CGROUP_KEEPER]);
	return layout_make(&l, LAYOUT_V2, name, NULL);
}

pid_t cgroup_helper_fork(const struct cgroup_helper *h)
{
	struct kernel_clone_args args = {
		.flags = KERNEL_CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)h->v2_fd,
	};
	pid_t pid = h->v2_fd < 0 ? -ENOSYS : sys_clone3(&args, sizeof(args));

	if (pid >= 0)
		return pid;
	/* A kernel or a filter without it: the slower way into the same group. */
	pid = fork();
	if (pid == 0 && h->v2_fd >= 0 && knob_set(h->v2_fd, "cgroup.procs", "0") < 0)
		_exit(126);
	return pid < 0 ? -errno : pid;
}

/* ---- what it uses ---- */

static uint64_t read_number(int fd, const char *word)
{
	char text[KNOB_TEXT_MAX];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = 0;
	return word ? knob_field(text, word) : strtoull(text, NULL, 10);
}

void cgroup_meter_read(const struct cgroup_meter *m, uint64_t *mem_bytes, uint64_t *cpu_us)
{
	uint64_t us = read_number(m->time_fd, "usage_usec");

	*mem_bytes = read_number(m->mem_fd, NULL) + read_number(m->tcp_fd, NULL);
	/* cpuacct.usage is one number, in nanoseconds. */
	*cpu_us = us ? us : read_number(m->time_fd, NULL) / 1000;
}

void cgroup_meter_done(struct cgroup_meter *m)
{
	fd_close(&m->mem_fd);
	fd_close(&m->tcp_fd);
	fd_close(&m->time_fd);
}

/* ---- after a crash ---- */

bool cgroup_helper_box(const char *group, char *ret, size_t size)
{
	const char *plus = strchr(group, '+');

	if (!plus || (size_t)(plus - group) >= size ||
	    (strcmp(plus, suffixes[CGROUP_KEEPER]) != 0 &&
	     strcmp(plus, suffixes[CGROUP_DOOR]) != 0))
		return false;
	memcpy(ret, group, (size_t)(plus - group));
	ret[plus - group] = 0;
	return true;
}

void helper_remove_left(const struct layout *l, const char *box)
{
	for (int t = 0; t < LAYOUT_COUNT; t++)
		for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
			if (layout_has(l, (enum layout_tree)t))
				(void)layout_remove(l, (enum layout_tree)t, box, suffixes[i]);
}
