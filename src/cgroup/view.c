/* What a box is shown of its own groups; see view.h. */
#include "cgroup/view.h"

#include "cgroup/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool add(const struct layout *l, enum layout_tree t, const char *box, const char *below,
		struct cgroup_view *v, const char *name)
{
	if (!layout_path(l, t, box, below, v->at[v->count].path, CGROUP_VIEW_PATH_MAX))
		return false;
	v->at[v->count++].name = name;
	return true;
}

int cgroup_view_make(const struct layout *l, const char *box, struct cgroup *cg, struct err *e)
{
	unsigned v1 = 0;
	bool fits = true;

	for (int i = CGROUP_MEMORY; i <= CGROUP_PIDS; i++)
		if (cg->can & 1u << i && cg->kind[i] == &cgroup_v1)
			v1 |= 1u << i;
	if (!(cg->can & (1u << CGROUP_MEMORY | 1u << CGROUP_CPU | 1u << CGROUP_PIDS)))
		return 0;
	cg->view = calloc(1, sizeof(*cg->view));
	if (!cg->view)
		return err_errno(e, ENOMEM, "show the box its cgroup");
	if (!v1)
		fits = add(l, LAYOUT_V2, box, "/work", cg->view, "");
	for (int i = CGROUP_MEMORY; i <= CGROUP_PIDS && fits; i++)
		if (v1 & 1u << i)
			fits = add(l, (enum layout_tree)i, box, i == CGROUP_MEMORY ? "/work" : "",
				   cg->view, cgroup_part_names[i]);
	return fits ? 0 : err_errno(e, ENAMETOOLONG, "show the box its cgroup");
}

static bool is_said(const struct cgroup *cg, enum cgroup_part part)
{
	return cg->limits & 1u << part && cg->kind[part] == &cgroup_v2;
}

void cgroup_view_say(const struct cgroup *cg, const struct cgroup_limits *limits,
		     struct cgroup_said *ret)
{
	struct cpu_quota q = cpu_quota(limits->cpu_milli);

	*ret = (struct cgroup_said){.memory = ""};
	if (is_said(cg, CGROUP_MEMORY))
		snprintf(ret->memory, sizeof(ret->memory), "%" PRIu64, limits->mem_bytes);
	if (is_said(cg, CGROUP_CPU))
		snprintf(ret->cpu, sizeof(ret->cpu), "%" PRIu64 " %" PRIu64, q.quota_us,
			 q.period_us);
}
