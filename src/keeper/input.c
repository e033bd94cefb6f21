/* A command's stdin; see exec.h. */
#include "base/limits.h"
#include "keeper/exec.h"

#include <errno.h>

void keeper_input_init(struct keeper_exec_input *in, bool open)
{
	*in = (struct keeper_exec_input){
		.to_init = WIRE_WINDOW,
		.from_client = WIRE_WINDOW,
		.open = open,
	};
	buf_init(&in->waiting, WIRE_WINDOW);
}

void keeper_input_done(struct keeper_exec_input *in)
{
	buf_done(&in->waiting);
	in->feeder = NULL;
	in->open = in->end_waiting = false;
}

static struct keeper_exec_input *input_of(const struct keeper_follow *f)
{
	struct keeper_run *run = f->exec->run;

	/* Another client feeds it now, or none can any more: what still comes is dropped. */
	return run && run->input.open && run->input.feeder == f ? &run->input : NULL;
}

/* Sends what waits, as far as init's credit goes. */
static void send_waiting(struct keeper_exec *x)
{
	struct keeper_exec_input *in = &x->run->input;

	while (buf_len(&in->waiting) > 0 && in->to_init > 0) {
		size_t n = buf_len(&in->waiting);

		if (n > WIRE_DATA_MAX)
			n = WIRE_DATA_MAX;
		if (n > in->to_init)
			n = (size_t)in->to_init;
		keeper_exec_send(x, WIRE_DATA, WIRE_STDIN, buf_data(&in->waiting), n);
		in->to_init -= n;
		buf_consume(&in->waiting, n);
	}
	if (in->end_waiting && buf_len(&in->waiting) == 0) {
		keeper_exec_send(x, WIRE_EOF, WIRE_STDIN, NULL, 0);
		in->open = in->end_waiting = false;
	}
}

void keeper_input_data(struct keeper_follow *f, const struct wire_frame *frame)
{
	struct keeper_exec_input *in = input_of(f);

	const uint8_t *p = frame->payload;
	size_t n = frame->len, skip;

	if (!in || in->end_waiting)
		return;
	if (n > in->from_client) {
		keeper_client_break(f->client, "more stdin than it has credit for");
		return;
	}
	skip = n < f->skip ? n : (size_t)f->skip;
	if (skip > 0)
		keeper_client_credit(f->client, f->id, WIRE_STDIN, skip);
	f->skip -= skip;
	p += skip;
	n -= skip;
	in->from_client -= n;
	in->received += n;
	if (n == 0)
		return;
	if (buf_len(&in->waiting) == 0 && n <= in->to_init) {
		in->to_init -= n;
		keeper_exec_send(f->exec, WIRE_DATA, WIRE_STDIN, p, n);
	} else if (buf_append(&in->waiting, p, n) < 0) {
		keeper_client_break(f->client, "there is no memory for its stdin");
		return;
	}
	send_waiting(f->exec);
	keeper_exec_wait(f->exec, &f->client->gate);
}

void keeper_input_eof(struct keeper_follow *f)
{
	struct keeper_exec_input *in = input_of(f);

	if (!in)
		return;
	in->end_waiting = true;
	send_waiting(f->exec);
	if (f->mute && f->exec->run->state != RUN_ASKED) /* its answer was sent */
		keeper_follow_free(f);
}

void keeper_input_credit(struct keeper_exec *x, uint64_t bytes)
{
	struct keeper_exec_input *in = &x->run->input;
	uint64_t more;

	if (bytes > WIRE_WINDOW || in->to_init > WIRE_WINDOW - bytes) {
		keeper_broken(x->k, "more stdin credit than it can have");
		return;
	}
	in->to_init += bytes;
	if (!in->open)
		return;
	send_waiting(x);
	if (!in->open || !in->feeder || in->to_init <= in->from_client)
		return;
	more = in->to_init - in->from_client;
	in->from_client += more;
	keeper_client_credit(in->feeder->client, in->feeder->id, WIRE_STDIN, more);
}

int keeper_input_attach(struct keeper_follow *f, struct err *e)
{
	struct keeper_run *run = f->exec->run;
	uint32_t id = f->exec->rec.exec_id;

	if (!run || run->state == RUN_EXITED)
		return err_set(e, ERR_CONFLICT, EPIPE, "command %u has ended and reads no input",
			       id);
	if (!run->input.open)
		return err_set(e, ERR_CONFLICT, EPIPE, "the input of command %u is closed", id);
	if (buf_len(&run->input.waiting) > 0)
		return err_set(
			e, ERR_CONFLICT, EBUSY,
			"command %u has not read yet what the last client sent; try again later",
			id);
	run->input.feeder = f;
	run->input.from_client = WIRE_WINDOW;
	return 0;
}
