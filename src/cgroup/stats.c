/* What a box has used so far, from whichever kind of group counts it; see cgroup.h. */
#include "base/fd.h"
#include "base/iocount.h"
#include "cgroup/parts.h"

#include <errno.h>
#include <string.h>

static void v2_cpu(const struct cgroup *cg, struct cgroup_stats *s)
{
	char text[KNOB_TEXT_MAX];

	if (knob_get(cg->fd, "cpu.stat", text, sizeof(text)) < 0)
		return;
	s->cpu_us = knob_field(text, "usage_usec");
	s->throttled_us = knob_field(text, "throttled_usec");
}

/* A v1 kernel counts a kill only in the group that the process was in. */
static void add_kills(int fd, void *arg)
{
	char text[256];

	if (knob_get(fd, "memory.oom_control", text, sizeof(text)) == 0)
		*(uint64_t *)arg += knob_field(text, "oom_kill");
}

/* Page cache of files; shared memory is none of it. */
static void read_cache(int fd, const char *const keys[2], struct cgroup_stats *s)
{
	char text[KNOB_TEXT_MAX];

	if (knob_get(fd, "memory.stat", text, sizeof(text)) == 0)
		s->mem_cache_bytes = knob_field(text, keys[0]) + knob_field(text, keys[1]);
}

static void v1_memory_now(int fd, struct cgroup_stats *s)
{
	static const char *const keys[] = {"total_inactive_file", "total_active_file"};

	s->mem_bytes = knob_get_u64(fd, "memory.usage_in_bytes");
	read_cache(fd, keys, s);
}

static void v1_memory(int fd, struct cgroup_stats *s)
{
	s->mem_peak_bytes = knob_get_u64(fd, "memory.max_usage_in_bytes");
	group_walk(fd, add_kills, &s->oom_kills);
}

static void v2_memory_now(int fd, struct cgroup_stats *s)
{
	static const char *const keys[] = {"inactive_file", "active_file"};

	s->mem_bytes = knob_get_u64(fd, "memory.current");
	read_cache(fd, keys, s);
}

static void v2_memory(int fd, struct cgroup_stats *s)
{
	char text[256];

	s->mem_peak_bytes = knob_get_u64(fd, "memory.peak");
	if (s->mem_peak_bytes < s->mem_bytes) /* not there before Linux 5.19 */
		s->mem_peak_bytes = s->mem_bytes;
	if (knob_get(fd, "memory.events", text, sizeof(text)) == 0)
		s->oom_kills = knob_field(text, "oom_kill");
}

/* A v1 group that was removed is in its parent's recursive count for a while yet, so those that are
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

static void read_io(const struct cgroup *cg, struct cgroup_stats *s)
{
	char text[KNOB_TEXT_MAX];

	if (cg->v1_fd[CGROUP_IO] >= 0)
		group_walk(cg->v1_fd[CGROUP_IO], add_io, s);
	else if (knob_get(cg->fd, "io.stat", text, sizeof(text)) == 0)
		io_count(text, &s->io_read_bytes, &s->io_write_bytes);
}

static void read_time(const struct cgroup *cg, struct cgroup_stats *s)
{
	if (cg->fd >= 0)
		v2_cpu(cg, s);
	else if (cg->v1_acct_fd >= 0)
		s->cpu_us = knob_get_u64(cg->v1_acct_fd, "cpuacct.usage") / 1000;
}

static void read_cpu(const struct cgroup *cg, struct cgroup_stats *s)
{
	int v1 = cg->v1_fd[CGROUP_CPU];
	char text[KNOB_TEXT_MAX];

	read_time(cg, s);
	if (v1 >= 0 && knob_get(v1, "cpu.stat", text, sizeof(text)) == 0)
		s->throttled_us = knob_field(text, "throttled_time") / 1000;
}

uint64_t cgroup_cpu_us(const struct cgroup *cg)
{
	struct cgroup_stats s = {0};

	read_time(cg, &s);
	return s.cpu_us;
}

static int pids_fd(const struct cgroup *cg)
{
	return cg->v1_fd[CGROUP_PIDS] >= 0 ? cg->v1_fd[CGROUP_PIDS] : cg->fd;
}

void cgroup_stats_now(const struct cgroup *cg, struct cgroup_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	read_cpu(cg, ret);
	if (cg->v1_fd[CGROUP_MEMORY] >= 0)
		v1_memory_now(cg->v1_fd[CGROUP_MEMORY], ret);
	else if (cg->can & 1u << CGROUP_MEMORY)
		v2_memory_now(cg->fd, ret);
	if (cg->can & 1u << CGROUP_PIDS)
		ret->pids = knob_get_u64(pids_fd(cg), "pids.current");
}

void cgroup_stats(const struct cgroup *cg, struct cgroup_stats *ret)
{
	char text[256];

	cgroup_stats_now(cg, ret);
	if (cg->v1_fd[CGROUP_MEMORY] >= 0)
		v1_memory(cg->v1_fd[CGROUP_MEMORY], ret);
	else if (cg->can & 1u << CGROUP_MEMORY)
		v2_memory(cg->fd, ret);
	if (cg->can & 1u << CGROUP_PIDS &&
	    knob_get(pids_fd(cg), "pids.events", text, sizeof(text)) == 0)
		ret->pids_hits = knob_field(text, "max");
	if (cg->can & 1u << CGROUP_IO)
		read_io(cg, ret);
}
