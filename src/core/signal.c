/* Signals to commands of a box. */
#include "core/core.h"
#include "core/life.h"
#include "wire/msg.h"

#include <errno.h>
#include <signal.h>

static int send_signal(struct cove_box *box, uint64_t exec_id, int sig, struct err *e)
{
	struct wire_signal m = {
		.exec_id = exec_id, .signal = (uint64_t)sig, .tree = sig == SIGKILL};
	struct core_conn *c = NULL;
	struct core_call call;
	int r;

	if (sig < 1 || sig >= NSIG || exec_id == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       exec_id == 0 ? "no command 0" : "%d is not a signal", sig);
	r = box_conn_get(box, &c, e);
	if (r < 0)
		return r;
	core_call_begin(&call, c);
	r = core_call_finish(&call, wire_signal_encode(core_out(c), call.q.id, 0, &m), STOP_WAIT_MS,
			     e);
	box_conn_put(box, c);
	return r;
}

int cove_signal(struct cove_box *box, uint64_t exec_id, int sig, struct cove_error *err)
{
	struct err e = {0};

	return core_return(box->cove, box->name, send_signal(box, exec_id, sig, &e), &e, err);
}
