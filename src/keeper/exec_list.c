/* EXECS: what a client is told of the commands of a box. */
#include "keeper/exec.h"

static void send_info(struct client *c, uint32_t id, const struct exec *x)
{
	struct exec_record m = x->rec;

	for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
		m.bytes[s] = x->out[s].bytes;
		m.truncated = m.truncated || (x->run && x->out[s].cut);
	}
	if (m.state < EXEC_DONE)
		m.duration_ms = exec_duration(x);
	client_sent(c, wire_info_encode(&c->link.out, id, 0, &m));
}

void exec_list(struct client *c, uint32_t id)
{
	for (size_t i = 0; i < c->k->exec_count && !c->doomed; i++)
		send_info(c, id, c->k->execs[i]);
	client_send(c, WIRE_OK, 0, id, NULL, 0);
}
