/* What all merges share; see merge.h. */
#include "core/merge.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>

int merge_check_cancel(struct merge *m)
{
	if (!m->stopped && fd_is_cancelled(m->o->cancel_fd))
		m->stopped = 1;
	return m->stopped ? -ECANCELED : 0;
}

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

int merge_stop(struct merge *m, const char *box, bool *ret, struct err *e)
{
	int r = box_halt_to_merge(m->cove, box, e);

	*ret = r > 0;
	return r < 0 ? r : 0;
}

int merge_start(struct merge *m, const char *box, struct err *e)
{
	struct core_conn *conn = NULL;
	struct err why = {0};
	int r = box_up(m->cove, box, false, &conn, &why);

	core_conn_free(conn);
	m->result->restarted = r == 0;
	if (r < 0 && e) {
		*e = why;
		err_prefix(e, "it is merged, but does not start");
	}
	return r;
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
