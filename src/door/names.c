/*
 * May a name be used, and is there one? The stub in the box asks before it gives an address out.
 *
 *	judge: deny -> a row, ERROR. No query leaves.
 *	       ask  -> OK: the connection will be asked about, and until then no server outside
 *	               hears of the name
 *	       allow -> a row -> budgets -> resolve -> OK, or ERROR
 *
 * A name that is asked for outside is something that leaves: its bytes count, and it takes one of
 * the rule's rate. One that is known already costs nothing.
 */
#include "door/dial.h"

#include "base/limits.h"
#include "base/list.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct name_query {
	struct name_query *next;
	struct door *door;
	uint32_t id;
	struct host host;
	const struct rule *rule; /* of the policy of the moment: see names_judge_again */
	struct broker_call call;
	struct resolve resolve;
};

static void query_free(struct name_query *q)
{
	if (q->call.id)
		broker_cancel(q->door->broker, &q->call);
	resolve_cancel(&q->resolve);
	free(q);
}

static void query_remove(struct name_query *q)
{
	list_remove(&q->door->names, q);
	query_free(q);
}

static void on_resolved(struct resolve *resolve, int r, const struct resolved *addrs, size_t count)
{
	struct name_query *q = container(resolve, struct name_query, resolve);
	struct err e = {0};

	if (r == 0 && count == 0)
		r = -ENOENT;
	if (r == -ENOENT)
		err_set(&e, ERR_NOT_FOUND, ENOENT, "no such name: %s", q->host.text);
	else if (r < 0)
		err_set(&e, ERR_TIMEOUT, -r, "%s could not be resolved", q->host.text);
	door_reply(q->door, q->id, r, &e);
	query_remove(q);
}

static void record(struct door *d, struct name_query *q, const struct host *h,
		   const struct verdict *v, enum denial why, const char *reason)
{
	struct audit_row row = {
		.kind = "name",
		.host = h->text,
		.rule = v->rule ? v->rule->name : NULL,
		.verdict = v->action == ACTION_ALLOW ? "allow"
			   : v->action == ACTION_ASK ? "ask"
						     : "deny",
		.reason = reason,
	};

	if (v->action == ACTION_DENY)
		door_deny(d, q ? &q->call : NULL, &row, why);
	else
		broker_record(d->broker, q ? &q->call : NULL, &row);
}

static void on_recorded(struct broker_call *call, int r, struct err *e)
{
	struct name_query *q = container(call, struct name_query, call);

	if (r == 0 && !name_pay(q->door, q->rule, &q->host, true, e)) {
		r = -e->code;
		record(q->door, NULL, &q->host, &(struct verdict){.rule = q->rule}, DENIAL_BUDGET,
		       e->msg);
	} else if (r == 0 && host_is_loopback_name(&q->host)) {
		/* Never asked outside: it is what the door says it is. */
		on_resolved(&q->resolve, 0, NULL, 1);
		return;
	} else if (r == 0) {
		r = resolve_start(q->door->resolver, &q->resolve, &q->host);
	} else {
		err_set(e, e->kind, e->code, "%.100s could not be recorded", q->host.text);
	}
	if (r == 0)
		return;
	if (r == -ENOBUFS)
		err_set(e, ERR_TIMEOUT, ENOBUFS, "too many names are being resolved");
	door_reply(q->door, q->id, r, e);
	query_remove(q);
}

static void ask_outside(struct door *d, uint32_t id, const struct host *h, const struct verdict *v)
{
	struct name_query *q;
	unsigned count = 0;
	struct err e;

	for (q = d->names; q; q = q->next)
		count++;
	q = count < DOOR_LOOKUPS_MAX ? calloc(1, sizeof(*q)) : NULL;
	if (!q) {
		err_set(&e, ERR_TIMEOUT, ENOBUFS, "too many names are being asked for");
		door_reply(d, id, -ENOBUFS, &e);
		return;
	}
	*q = (struct name_query){.door = d,
				 .next = d->names,
				 .id = id,
				 .host = *h,
				 .rule = v->rule,
				 .call.on_answer = on_recorded,
				 .resolve.on_done = on_resolved};
	d->names = q;
	record(d, q, h, v, DENIAL_RULE, NULL);
}

void name_start(struct door *d, uint32_t id, const struct wire_name *m)
{
	struct host h;
	const struct subject about = {SUBJECT_NAME, &h, 0, NULL};
	enum denial why = DENIAL_UNMATCHED;
	struct verdict v;
	struct err e = {0};

	if (!m->name || host_parse(&h, m->name) < 0 || h.is_address) {
		err_set(&e, ERR_DENIED, EINVAL, "not a name");
		door_reply(d, id, -EINVAL, &e);
		return;
	}
	door_decide(d, &about, &v);
	if (v.action == ACTION_ALLOW) {
		ask_outside(d, id, &h, &v);
		return;
	}
	if (v.action == ACTION_DENY)
		why = door_explain(d, &v, &about, &e);
	record(d, NULL, &h, &v, why, NULL);
	door_reply(d, id, v.action == ACTION_DENY ? -EACCES : 0, &e);
}

void names_judge_again(struct door *d)
{
	for (struct name_query *q = d->names, *next; q; q = next) {
		const struct subject about = {SUBJECT_NAME, &q->host, 0, NULL};
		enum denial why = DENIAL_UNMATCHED;
		struct verdict v;
		struct err e;

		next = q->next;
		door_decide(d, &about, &v);
		q->rule = v.rule;
		if (v.action == ACTION_ALLOW)
			continue;
		/* Where a person is to be asked it is not resolved until then. */
		if (v.action == ACTION_DENY)
			why = door_explain(d, &v, &about, &e);
		record(d, NULL, &q->host, &v, why, "the policy changed meanwhile");
		err_set(&e, ERR_DENIED, EACCES, "no rule allows %s any more", q->host.text);
		door_reply(d, q->id, v.action == ACTION_DENY ? -EACCES : 0, &e);
		query_remove(q);
	}
}

bool name_cancel(struct door *d, uint32_t id)
{
	for (struct name_query *q = d->names; q; q = q->next)
		if (q->id == id) {
			query_remove(q);
			return true;
		}
	return false;
}

void names_free(struct door *d)
{
	for (struct name_query *q; (q = d->names);) {
		d->names = q->next;
		query_free(q);
	}
}
