/* The persistent shells of a box. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/core.h"
#include "core/life.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An older keeper does not know the request. */
static int get_conn(struct cove_box *box, struct core_conn **ret, struct err *e)
{
	struct core_conn *c = NULL;
	int r = box_conn_get(box, &c, e);

	if (r < 0)
		return r;
	r = core_conn_wait_ready(c, START_WAIT_MS, e);
	if (r == 0 && !(c->peer.features & WIRE_FEATURE_SHELLS))
		r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			    "box '%s' was started by a Cove without a list of shells: cove stop "
			    "%s; cove start %s",
			    box->name, box->name, box->name);
	if (r < 0)
		box_conn_put(box, c);
	else
		*ret = c;
	return r;
}

static void info_of_shell(struct cove_shell_info *i, const struct wire_shell *m)
{
	*i = (struct cove_shell_info){.pid = m->pid <= INT32_MAX ? (int64_t)m->pid : 0,
				      .exec_id = m->exec_id,
				      .queued = m->queued,
				      .login = m->login != 0};
	core_show(i->name, sizeof(i->name), m->name ? m->name : "");
	core_show(i->user, sizeof(i->user), m->user ? m->user : "");
	core_show(i->state, sizeof(i->state), m->state ? m->state : "");
	core_show(i->cwd, sizeof(i->cwd), m->cwd ? m->cwd : "");
}

static int list(struct core_conn *c, struct cove_shell_info **ret, struct err *e)
{
	autofree struct cove_shell_info *infos = calloc(INIT_SHELLS_MAX + 1, sizeof(*infos));
	struct core_call call;
	struct wire_shell m = {0};
	struct wire_frame f;
	int n = 0, r;

	if (!infos)
		return err_errno(e, ENOMEM, "list shells");
	core_call_begin(&call, c);
	r = core_call_send(&call, wire_shell_encode(core_out(c), call.q.id, 0, &m), e);
	while (r == 0) {
		r = core_call_next(&call, STOP_WAIT_MS, &f, e);
		if (r == 0)
			r = err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the box does not answer");
		if (r < 0 || f.type == WIRE_OK)
			break;
		r = f.type != WIRE_SHELL || n == (int)INIT_SHELLS_MAX ||
				    wire_shell_decode(&f, &m) < 0
			    ? core_unexpected(&call.q, &f, e)
			    : 0;
		if (r == 0)
			info_of_shell(&infos[n++], &m);
	}
	core_call_end(&call, r >= 0);
	if (r < 0)
		return r;
	*ret = take_ptr(infos);
	return n;
}

int cove_shells(struct cove_box *box, struct cove_shell_info **ret, struct cove_error *err)
{
	struct core_conn *c = NULL;
	struct err e = {0};
	int r = get_conn(box, &c, &e);

	if (r == 0) {
		r = list(c, ret, &e);
		box_conn_put(box, c);
	}
	return core_return(box->cove, box->name, r, &e, err);
}

int cove_shell_remove(struct cove_box *box, const char *name, bool force, struct cove_error *err)
{
	struct wire_shell m = {.remove = force ? 2 : 1, .name = name};
	struct core_conn *c = NULL;
	struct core_call call;
	struct err e = {0};
	int r = name && str_is_shell_name(name)
			? get_conn(box, &c, &e)
			: err_set(&e, ERR_INVALID, EINVAL, SHELL_NAME_RULE, SHELL_NAME_MAX);

	if (r == 0) {
		core_call_begin(&call, c);
		r = core_call_finish(&call, wire_shell_encode(core_out(c), call.q.id, 0, &m),
				     START_WAIT_MS, &e);
		box_conn_put(box, c);
	}
	return core_return(box->cove, box->name, r, &e, err);
}
