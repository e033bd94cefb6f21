/* Running a command to its end. */
#include "core/result.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Until EXIT, or STARTED or QUEUED of a background command. */
static int run_to_end(struct cove_exec *x, const struct cove_command *command, struct collect *c,
		      struct cove_event *ev, struct err *e)
{
	size_t left = command->input ? command->input_len : 0;
	bool closed = !command->input;
	struct wire_frame f;
	int r;

	for (;;) {
		/* stdin as far as the window goes; EOF after the last byte. */
		if (left > 0)
			left -= core_exec_feed(
				x, (const char *)command->input + command->input_len - left, left);
		if (left == 0 && !closed &&
		    wire_encode(core_out(x->conn), WIRE_EOF, WIRE_STDIN, x->call.q.id, NULL, 0) < 0)
			return err_errno(e, ENOBUFS, "queue stdin");
		closed = left == 0;
		r = core_conn_flush(x->conn, e);
		if (r == 0)
			r = core_call_next(&x->call, -1, &f, e);
		if (r > 0)
			r = core_exec_frame(x, &f, ev, e);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (ev->type == COVE_EVENT_EXIT ||
		    (command->background &&
		     (ev->type == COVE_EVENT_STARTED || ev->type == COVE_EVENT_QUEUED)))
			return 0;
		if (ev->type == COVE_EVENT_OUT || ev->type == COVE_EVENT_ERR) {
			if (collect_add(c, ev->type == COVE_EVENT_ERR, ev->data, ev->len) < 0)
				return err_errno(e, ENOMEM, "keep the command's output");
			r = core_exec_took(x, x->owed_stream, x->owed, e);
			if (r < 0)
				return r;
		}
	}
}

static int run(struct cove_box *box, const struct cove_command *command, struct cove_result *ret,
	       struct err *e)
{
	struct collect c;
	struct cove_event ev;
	struct cove_command cmd;
	struct cove_exec x;
	int r = core_copy_sized(&cmd, sizeof(cmd), command, e);

	if (r == 0 && (cmd.stream_input || cmd.pty))
		r = err_set(e, ERR_INVALID, EINVAL,
			    "a terminal or streamed stdin needs cove_exec_start");
	if (r == 0 && cmd.background && cmd.input && cmd.input_len > WIRE_WINDOW)
		r = err_set(e, ERR_LIMIT, E2BIG,
			    "stdin of a background command is at most %u bytes", WIRE_WINDOW);
	if (r == 0 && cmd.max_output > RESULT_INLINE_MAX)
		r = err_set(e, ERR_LIMIT, E2BIG, "a result holds at most %u bytes of a stream",
			    RESULT_INLINE_MAX);
	/* The end of a stream is known once all of it has come by. */
	if (r == 0)
		r = core_exec_open(&x, box, &cmd, cmd.max_output ? 0 : RESULT_INLINE_MAX, e);
	if (r < 0)
		return r;
	if (cmd.max_output)
		collect_init_ends(&c, cmd.max_output);
	else
		collect_init(&c, RESULT_INLINE_MAX);
	r = run_to_end(&x, &cmd, &c, &ev, e);
	/* A background command lives on; its request is over with STARTED or QUEUED. */
	if (r == 0 && ev.type != COVE_EVENT_EXIT) {
		x.done = x.over = true;
		ev.result.exec_id = ev.exec_id;
		str_copy(ev.result.cause, sizeof(ev.result.cause), x.queued ? "queued" : "running");
	}
	if (r == 0 && result_collected(&ev.result, &c, ret) < 0)
		r = err_errno(e, ENOMEM, "keep the command's result");
	core_exec_end(&x);
	collect_done(&c);
	return r;
}

int cove_run(struct cove_box *box, const struct cove_command *command, struct cove_result *ret,
	     struct cove_error *err)
{
	struct err e = {0};

	return core_return(box->cove, box->name, run(box, command, ret, &e), &e, err);
}
