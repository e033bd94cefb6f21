/*
 * DENIED: the door has denied something. It comes before the answer that the box gets, so before
 * the command can have ended because of it.
 *
 * Whose connection it was is known where its socket's group says so (init/owner.c). A name is asked
 * for by the box's resolver and has no owner: it goes to every command that runs.
 */
#include "keeper/exec.h"

#include "wire/denials.h"

static void add(struct keeper_exec *x, const struct wire_denial *d)
{
	if (wire_denials_add(&x->denied, d) < 0)
		x->rec.denied_more++;
	x->rec.denied = wire_list_of(&x->denied);
	x->rec.denied_count++;
}

static bool runs(const struct keeper_exec *x)
{
	return x->run && x->run->state == RUN_STARTED;
}

void keeper_denied(struct keeper *k, const struct wire_denied *m)
{
	char host[DNS_NAME_MAX + 1], method[32], reason[120], remedy[240], why[16];
	struct wire_denial d = {.host = host,
				.port = m->port <= UINT16_MAX ? m->port : 0,
				.method = method,
				.reason = reason,
				.remedy = remedy,
				.why = why};
	struct keeper_exec *x = m->exec_id ? keeper_exec_find(k, m->exec_id) : NULL;
	size_t count = 0;

	keeper_safe_text(host, sizeof(host), m->host ? m->host : "");
	keeper_safe_text(method, sizeof(method), m->method ? m->method : "");
	keeper_safe_text(reason, sizeof(reason), m->reason ? m->reason : "");
	keeper_safe_text(remedy, sizeof(remedy), m->remedy ? m->remedy : "");
	keeper_safe_text(why, sizeof(why), m->why ? m->why : "");
	if (x) {
		if (runs(x))
			add(x, &d);
		return;
	}
	for (size_t i = 0; i < k->exec_count; i++)
		count += runs(k->execs[i]);
	d.shared = count > 1;
	for (size_t i = 0; i < k->exec_count; i++)
		if (runs(k->execs[i]))
			add(k->execs[i], &d);
}
