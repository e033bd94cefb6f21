/* What init says on its link, and who waits for room there; see init.h. */
#include "init/init.h"

#include "base/limits.h"

#include <stdarg.h>
#include <stdio.h>

void init_broken(struct init *in, const char *why)
{
	if (!in->broken)
		dprintf(2, "cove-init: %s\n", why);
	in->broken = true;
	ev_quit(in->ev);
}

void init_fail_err(struct init *in, uint32_t id, const struct err *e)
{
	struct wire_error m = {.kind = (uint64_t)e->kind, .code = (uint64_t)e->code, .msg = e->msg};

	if (wire_error_encode(&in->link.out, id, 0, &m) < 0)
		init_broken(in, "no room for an answer");
	wire_link_flush(&in->link);
}

void init_fail(struct init *in, uint32_t id, int code, const char *fmt, ...)
{
	struct err e = {.kind = err_kind_of(code), .code = code};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.msg, sizeof(e.msg), fmt, ap);
	va_end(ap);
	init_fail_err(in, id, &e);
}

bool init_has_room(const struct init *in)
{
	return wire_link_queued(&in->link) < INIT_QUEUE_HIGH;
}

void init_wait_room(struct init *in, struct room_wait *w)
{
	if (w->queued)
		return;
	w->queued = true;
	w->next = NULL;
	if (in->wait_last)
		in->wait_last->next = w;
	else
		in->wait_first = w;
	in->wait_last = w;
}

void init_wait_room_cancel(struct init *in, struct room_wait *w)
{
	struct room_wait *before = NULL;

	if (!w->queued)
		return;
	for (struct room_wait *at = in->wait_first; at != w; at = at->next)
		before = at;
	if (before)
		before->next = w->next;
	else
		in->wait_first = w->next;
	if (in->wait_last == w)
		in->wait_last = before;
	w->queued = false;
}
