/* EXECS: what a client is told of the commands of a box. */
#include "keeper/exec.h"

static void send_info(struct client *c, uint32_t id, const struct exec *x)
{
	const struct exec_record *r = &x->rec;
	bool running = x->run && x->run->state != RUN_EXITED;
	bool queued = x->run && x->run->state == RUN_QUEUED;
	struct wire_info m = {
		.exec_id = r->id,
		.command = r->command,
		.state = queued ? "queued" : exec_state_name(r->state),
		.shell = r->shell[0] ? r->shell : NULL,
		.pid = r->pid,
		.started_ms = r->started_ms,
		.has_exit = r->has_exit,
		.exit_code = (uint64_t)r->exit_code,
		.signal = (uint64_t)r->signal,
		.stdout_bytes = x->out[OUTPUT_OUT].bytes,
		.stderr_bytes = x->out[OUTPUT_ERR].bytes,
		.duration_ms = running ? exec_duration(x) : r->duration_ms,
		.cause = r->cause[0] ? r->cause : NULL,
		.background = r->background,
		.truncated = r->truncated ||
			     (x->run && (x->out[OUTPUT_OUT].cut || x->out[OUTPUT_ERR].cut)),
		.oom_killed = r->oom_killed,
		.cpu_us = r->cpu_us,
		.mem_peak_bytes = r->mem_peak_bytes,
		.io_read_bytes = r->io_read_bytes,
		.io_write_bytes = r->io_write_bytes,
	};

	client_sent(c, wire_info_encode(&c->link.out, id, 0, &m));
}

void exec_list(struct client *c, uint32_t id)
{
	for (size_t i = 0; i < c->k->exec_count && !c->doomed; i++)
		send_info(c, id, c->k->execs[i]);
	client_send(c, WIRE_OK, 0, id, NULL, 0);
}
