/* What a box has used so far, from whichever kind of group counts it; see cgroup.h. */
#include "cgroup/parts.h"

#include <string.h>

static void read_time(const struct cgroup *cg, struct cgroup_stats *s)
{
	if (cg->kind[CGROUP_TREE])
		cg->kind[CGROUP_TREE]->read_time(cg, s);
}

uint64_t cgroup_cpu_us(const struct cgroup *cg)
{
	struct cgroup_stats s = {0};

	read_time(cg, &s);
	return s.cpu_us;
}

bool cgroup_counts_commands(const struct cgroup *cg)
{
	return cg->can & 1u << CGROUP_IO && cg->kind[CGROUP_IO]->counts_commands(cg);
}

void cgroup_stats_now(const struct cgroup *cg, struct cgroup_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	read_time(cg, ret);
	for (int i = CGROUP_MEMORY; i < CGROUP_PART_COUNT; i++)
		if (cg->kind[i])
			cg->kind[i]->read_now((enum cgroup_part)i, cg->group_fd[i], ret);
}

void cgroup_stats(const struct cgroup *cg, struct cgroup_stats *ret)
{
	cgroup_stats_now(cg, ret);
	for (int i = CGROUP_MEMORY; i < CGROUP_PART_COUNT; i++)
		if (cg->kind[i])
			cg->kind[i]->read_rest((enum cgroup_part)i, cg->group_fd[i], ret);
}
