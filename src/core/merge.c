/* What all merges share; see merge.h. */
#include "core/merge.h"

#include "base/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int merge_say(struct merge *m, enum cove_merge_state state, enum cove_change_kind kind,
	      const char *path, const char *why)
{
	const struct cove_merge_item item = {
		.state = state, .kind = kind, .path = path, .why = why};

	if (state == COVE_MERGE_TAKEN)
		m->result->taken++;
	else if (state == COVE_MERGE_CONFLICT)
		m->result->conflicts++;
	else
		m->result->left_out++;
	if (m->o->on_item && !m->stopped)
		m->stopped = m->o->on_item(m->o->arg, &item);
	return m->stopped ? -ECANCELED : 0;
}

bool merge_may_act(const struct merge *m)
{
	return !m->o->dry_run && m->result->conflicts == 0;
}

int merge_paths(const char *const *paths, const char *top, const char ***ret, size_t *ret_count,
		struct err *e)
{
	char normal[BOX_PATH_MAX];
	const char **list;
	size_t n = 0;

	*ret = NULL;
	*ret_count = 0;
	if (!paths || !paths[0])
		return 0;
	list = calloc(DIFF_PATHS_MAX, sizeof(*list));
	if (!list)
		return err_errno(e, ENOMEM, "keep the paths");
	*ret = list;
	for (; *paths; paths++) {
		const char *rest;

		if (n == DIFF_PATHS_MAX)
			return err_set(e, ERR_LIMIT, E2BIG, "more than %u paths", DIFF_PATHS_MAX);
		if ((*paths)[0] != '/' || !path_normalize(normal, sizeof(normal), *paths))
			return err_set(e, ERR_INVALID, EINVAL,
				       "'%.100s' is not an absolute path of the box", *paths);
		if (path_is_within(top, normal))
			rest = "";
		else if (path_is_within(normal, top))
			rest = normal + strlen(top) + 1;
		else
			return err_set(e, ERR_INVALID, EINVAL,
				       "'%.100s' is not in what is merged: %s/...", *paths, top);
		list[n] = strdup(rest);
		if (!list[n])
			return err_errno(e, ENOMEM, "keep the paths");
		*ret_count = ++n;
	}
	return 0;
}

void merge_paths_free(const char **paths, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free((void *)(uintptr_t)paths[i]);
	free(paths);
}

static int check_options(const struct cove_merge_options *o, struct merge *m, struct err *e)
{
	if (!o->from)
		return err_set(e, ERR_INVALID, EINVAL, "from must be given");
	m->theirs = o->prefer && strcmp(o->prefer, "theirs") == 0;
	m->ours = o->prefer && strcmp(o->prefer, "ours") == 0;
	if (o->prefer && !m->theirs && !m->ours)
		return err_set(e, ERR_INVALID, EINVAL,
			       "what becomes of conflicts is 'theirs' or 'ours', not '%.40s'",
			       o->prefer);
	return 0;
}

int cove_merge(struct cove *cove, const struct cove_merge_options *options,
	       struct cove_merge_result *ret, struct cove_error *err)
{
	struct cove_merge_options o = {.size = sizeof(o)};
	struct merge m = {.cove = cove, .o = &o, .result = ret};
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	*ret = (struct cove_merge_result){0};
	if (r == 0)
		r = check_options(&o, &m, &e);
	if (r == 0) {
		core_sweep_seldom(cove);
		r = o.to ? merge_fork(&m, &e) : merge_back(&m, &e);
	}
	if (r < 0 && m.stopped)
		r = err_set(&e, ERR_INTERRUPTED, ECANCELED, "the caller wants no more");
	return core_return(cove, o.from, r, &e, err);
}
