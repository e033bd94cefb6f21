/*
 * What a box may use: from its specification to groups, wall and volume; see life.h.
 *
 * What the caller asked for is kept or refused, and so is what a quota of the box's key counts. A
 * default, and everything under --best-effort, is kept if this host can, and otherwise stands among
 * the notes as "memory: <why and remedy>", which `cove inspect` shows under not_enforced.
 */
#include "base/fd.h"
#include "base/str.h"
#include "keeper/life.h"
#include "keeper/mounts.h"
#include "storage/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { LIMITS_DISK_LEAST = 64 << 20 };

static const struct {
	enum limit_id id;
	enum cgroup_part part;
} grouped[] = {
	{LIMIT_MEM, CGROUP_MEMORY},
	{LIMIT_CPUS, CGROUP_CPU},
	{LIMIT_PIDS, CGROUP_PIDS},
	{LIMIT_IO, CGROUP_IO},
};

/* It is not to be had: refused where it is due, else noted. */
static int not_kept(struct keeper_life *l, enum limit_id id, const char *why, struct err *e)
{
	const struct spec *s = &l->config.spec;
	char text[LIMIT_TEXT];

	if (l->config.counted & 1u << id)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "a quota counts %s, and it cannot be kept here: %s; or use a key "
			       "without that quota",
			       limit_flag(id), why);
	if (keeper_config_is_due(&l->config, id))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "%s %s cannot be kept here: %s",
			       limit_flag(id), limit_format(id, s->limits[id], text), why);
	keeper_note(&l->k, "%s: %s", limit_word(id), why);
	return 0;
}

/* ---- groups ---- */

static int check_kept(struct keeper_life *l, struct err *e)
{
	const uint64_t *v = l->config.spec.limits;
	int r = 0;

	for (size_t i = 0; i < sizeof(grouped) / sizeof(grouped[0]) && r == 0; i++)
		if (v[grouped[i].id] && !keeper_limits_hold(l, grouped[i].id))
			r = not_kept(l, grouped[i].id, l->cgroup.why[grouped[i].part], e);
	return r;
}

struct cgroup_limits keeper_limits_grouped(const struct keeper_life *l)
{
	const uint64_t *v = l->config.spec.limits;
	const struct wall_info *w = l->wall->info;
	uint64_t pids = v[LIMIT_PIDS];

	if (pids && w->pids_each) /* the box's own kernel keeps it; this only stands behind */
		pids = pids * w->pids_each + w->pids_more;
	return (struct cgroup_limits){
		.mem_bytes = v[LIMIT_MEM],
		.cpu_milli = v[LIMIT_CPUS],
		.pids = pids,
		.io_bytes = v[LIMIT_IO],
		.brief = l->config.spec.one_shot,
	};
}

void keeper_limits_join_own_group(struct keeper_life *l)
{
	struct cgroup_limits limits = keeper_limits_grouped(l);
	unsigned due = (limits.mem_bytes ? 1u << CGROUP_MEMORY : 0) |
		       (limits.cpu_milli ? 1u << CGROUP_CPU : 0);
	int r;

	if (l->has_own_group) /* it was made ahead */
		return;
	cgroup_helper_make_beside(&l->cgroup, l->cgroup_name, &limits, &l->own_group);
	l->has_own_group = true;
	r = cgroup_helper_join(&l->own_group);
	if (r < 0)
		snprintf(l->own_group.why, sizeof(l->own_group.why), "it cannot be joined: %s",
			 strerror(-r));
	if (r < 0 || (due & ~l->own_group.limits))
		keeper_note(&l->k,
			    "helpers: what runs on the host for this box is not "
			    "bounded: %s",
			    l->own_group.why);
}

void keeper_limits_leave_own_group(struct keeper_life *l)
{
	if (!l->has_own_group)
		return;
	l->has_own_group = false;
	cgroup_helper_leave(&l->own_group);
}

int keeper_limits_make_cgroup(struct keeper_life *l, struct err *e)
{
	struct cgroup_limits limits = keeper_limits_grouped(l);
	struct stat st;
	int r;

	if (fstat(l->st.boxes_fd, &st) == 0)
		limits.io_dev = st.st_dev;
	l->has_cgroup = l->wall->info->flags & WALL_GROUPED;
	if (!l->has_cgroup)
		cgroup_none(&l->cgroup, "a box behind this wall is not in a group of Cove's");
	r = l->has_cgroup ? cgroup_make(l->cgroup_name, &limits, ids_host_uid(&l->ids, 0),
					ids_host_gid(&l->ids, 0), &l->cgroup, e)
			  : 0;
	if (r < 0)
		return r;
	l->k.io_unknown =
		!cgroup_counts_commands(&l->cgroup) || !(l->wall->info->flags & WALL_EXEC_GROUPS);
	if (!(l->cgroup.can & 1u << CGROUP_TREE))
		keeper_note(&l->k,
			    "no cgroup: %s; a command's tree is ended by walking its descendants",
			    l->cgroup.why[CGROUP_TREE]);
	if (l->cgroup.tcp_uncounted)
		keeper_note(&l->k, "network buffers: this kernel's cgroup v1 does not count them; "
				   "boot with systemd.unified_cgroup_hierarchy=1");
	return check_kept(l, e);
}

int keeper_limits_change(struct keeper_life *l, const struct spec *was, struct err *e)
{
	struct cgroup_limits now = keeper_limits_grouped(l),
			     old = {
				     .mem_bytes = was->limits[LIMIT_MEM],
				     .cpu_milli = was->limits[LIMIT_CPUS],
				     .pids = was->limits[LIMIT_PIDS],
			     };
	enum cgroup_part part = CGROUP_TREE;
	int r = cgroup_change(&l->cgroup, &old, &now, &part);

	if (r < 0)
		return err_errno(e, -r, "set another limit for a box that was made ahead");
	if (l->has_own_group &&
	    (now.cpu_milli != old.cpu_milli || now.mem_bytes != old.mem_bytes)) {
		/* The same group, with the limits of its box. */
		cgroup_helper_done(&l->own_group);
		cgroup_helper_make(l->cgroup_name, CGROUP_KEEPER, &now, &l->own_group);
	}
	return check_kept(l, e);
}

bool keeper_limits_hold(const struct keeper_life *l, enum limit_id id)
{
	if (id == LIMIT_PIDS && l->wall->info->pids_each) /* if not, init says so */
		return true;
	for (size_t i = 0; i < sizeof(grouped) / sizeof(grouped[0]); i++)
		if (grouped[i].id == id)
			return l->cgroup.limits & 1u << grouped[i].part;
	return id != LIMIT_DISK || l->volume.bytes > 0;
}

/* ---- processors ---- */

unsigned keeper_limits_cpus(const struct keeper_life *l)
{
	uint64_t asked = (l->config.spec.limits[LIMIT_CPUS] + 999) / 1000;
	cpu_set_t set;
	int have = 0;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		have = CPU_COUNT(&set);
	/* A machine with more than a cpu_set_t holds is asked another way. */
	if (have <= 0)
		have = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (have <= 0)
		have = 1;
	return asked > 0 && asked < (unsigned)have ? (unsigned)asked : (unsigned)have;
}

/* ---- the volume ---- */

static int asked_storage(struct keeper_life *l, const struct storage_place *p,
			 const struct storage_ops **ret, struct err *e)
{
	const struct spec *s = &l->config.spec;
	const struct storage_ops *ops = storage_find(s->storage);
	int r;

	if (!ops)
		return err_set(e, ERR_INVALID, EINVAL,
			       "there is no storage '%s': plain, loop, tmpfs or pool", s->storage);
	if (ops->flags & STORAGE_MEMORY && s->persistence == PERSIST_BOX)
		return err_set(e, ERR_INVALID, EINVAL,
			       "--storage %s with persistence 'box': its writes would not survive "
			       "a stop",
			       ops->name);
	r = ops->check(p, &l->ids, e);
	if (r < 0) {
		err_prefix(e, "--storage %s", ops->name);
		return r;
	}
	*ret = ops;
	return 0;
}

/* A disk in a file takes its room as it is filled, so where the host has less than the default, a
 * write that succeeded for the box could be lost. Then it is half of what is free, as a
 * power of two, because every size has its own template. 0: so little that none is made. */
static uint64_t default_disk(const struct keeper_life *l, uint64_t bytes)
{
	uint64_t room, size = LIMITS_DISK_LEAST;
	struct statvfs fs;

	if (fstatvfs(l->st.home_fd, &fs) < 0)
		return bytes;
	room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize;
	if (room >= bytes)
		return bytes;
	while (size * 4 <= room)
		size *= 2;
	return size * 2 <= room ? size : 0;
}

/* Without a word from the caller about storage. */
static int fitting_storage(struct keeper_life *l, const struct storage_place *p,
			   const struct storage_ops **ret, struct err *e)
{
	uint64_t *limit = &l->config.spec.limits[LIMIT_DISK];
	bool asked = l->config.spec.limits_asked & 1u << LIMIT_DISK;
	uint64_t bytes = asked ? *limit : default_disk(l, *limit);
	struct err why;

	*ret = &storage_plain;
	if (*limit == 0)
		return 0;
	/* Its limits reserve nothing, so that none has to be smaller than what is free. */
	if (l->ids.kind == IDS_RANGE && pool_is_ready(p->home_fd)) {
		*ret = &storage_pool;
		return 0;
	}
	if (storage_loop.check(p, &l->ids, &why) < 0)
		return not_kept(l, LIMIT_DISK, why.msg, e);
	if (bytes == 0)
		return not_kept(l, LIMIT_DISK, "the host's disk is nearly full: make room", e);
	if (bytes < *limit)
		keeper_note(&l->k,
			    "host disk: less is free than the default, so the box has %" PRIu64
			    " MiB",
			    bytes >> 20);
	*limit = bytes;
	*ret = &storage_loop;
	return 0;
}

static int choose_storage(struct keeper_life *l, const struct storage_place *p,
			  const struct storage_ops **ret, struct err *e)
{
	const struct spec *s = &l->config.spec;
	int r = 0;

	/* A box that was started before keeps what it was made with. */
	*ret = storage_detect(p);
	if (*ret == &storage_plain && faccessat(p->dir_fd, "upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		*ret = NULL;
	if (!*ret && !s->storage)
		return fitting_storage(l, p, ret, e);
	if (!*ret)
		r = asked_storage(l, p, ret, e);
	if (r == 0 && s->limits[LIMIT_DISK] && !((*ret)->flags & STORAGE_LIMIT))
		r = not_kept(l, LIMIT_DISK,
			     "plain storage is not bounded: --storage loop (root) or tmpfs", e);
	return r;
}

/* Memory that holds files is the box's memory too: by default it takes no more than half of it. */
static uint64_t memory_volume_bytes(const struct spec *s)
{
	uint64_t half = s->limits[LIMIT_MEM] / 2, disk = s->limits[LIMIT_DISK];
	struct sysinfo info;

	if (disk && s->limits_asked & 1u << LIMIT_DISK)
		return disk;
	if (half == 0 && sysinfo(&info) == 0)
		half = (uint64_t)info.totalram * info.mem_unit / 2;
	return disk && disk < half ? disk : half;
}

static void note_host_dir(struct keeper_life *l, const char *path)
{
	keeper_note(&l->k, "host directory '%s': what is written there is not counted", path);
}

int keeper_limits_open_volume(struct keeper_life *l, struct err *e)
{
	const struct spec *s = &l->config.spec;
	struct storage_place place = {.home_fd = l->st.home_fd, .dir_fd = l->box_fd};
	struct storage_size size = {.throw_away = s->one_shot, .late = true};
	const struct storage_ops *ops;
	int r = choose_storage(l, &place, &ops, e);

	if (r < 0)
		return r;
	size.bytes = ops->flags & STORAGE_MEMORY ? memory_volume_bytes(s) : s->limits[LIMIT_DISK];
	r = ops->open(&place, &l->ids, &size, &l->volume, e);
	if (r < 0)
		return r;
	l->k.storage = ops->name;
	if (ops->flags & STORAGE_QUOTA) {
		l->k.disk_full = keeper_life_disk_full;
		keeper_note(&l->k, "inodes: their number is bounded only by the bytes they take");
	}
	if (s->limits[LIMIT_DISK] == 0)
		return 0;
	if (s->workspace_dir && !s->workspace_copy)
		note_host_dir(l, s->workspace_dir);
	for (size_t i = 0; i < s->mount_count; i++)
		if (s->mounts[i].src[0] == '/' && !s->mounts[i].read_only)
			note_host_dir(l, s->mounts[i].src);
	return 0;
}

uint64_t keeper_limits_disk(const struct keeper_life *l, const struct volume *v)
{
	/* A filesystem has a little less room than it was asked for, since it is never to be more.
	 * What is shown is the limit that was asked for. */
	enum { SHARE = 16, SLACK = 256 << 10 };
	uint64_t limit = l->config.spec.limits[LIMIT_DISK];
	uint64_t least = limit - limit / SHARE;

	return v->bytes > 0 && v->bytes <= limit && v->bytes + SLACK >= least ? limit : v->bytes;
}
