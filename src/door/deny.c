/* Denials: a row for the audit log, and a notice for the keeper; see door.h. */
#include "door/decision.h"
#include "door/door.h"

#include <errno.h>

enum denial door_explain(const struct door *d, const struct verdict *v, const struct subject *s,
			 struct err *e)
{
	if (d->trouble.kind == ERR_NONE)
		return decision_explain(v, s, d->config.box, e);
	err_set(e, ERR_DENIED, EACCES,
		"nothing is let through: the policy cannot be read; see `cove inspect %s`",
		d->config.box);
	return DENIAL_POLICY;
}

/* A notice that finds no room is lost; the row is not. */
void door_deny(struct door *d, struct broker_call *call, struct audit_row *row, enum denial why)
{
	const struct denied what = {.why = why,
				    .box = d->config.box,
				    .host = row->host,
				    .port = row->port,
				    .method = row->method,
				    .rule = row->rule};
	char remedy[DENIAL_REMEDY_MAX];
	const struct wire_denied m = {.exec_id = row->exec_id,
				      .host = row->host,
				      .port = row->port,
				      .method = row->method,
				      .reason = denial_reason(why),
				      .remedy = remedy,
				      .why = denial_word(why)};

	row->why = denial_word(why);
	broker_record(d->broker, call, row);
	denial_remedy(&what, remedy, sizeof(remedy));
	if (wire_denied_encode(&d->keeper.out, 0, 0, &m) == 0)
		wire_link_flush(&d->keeper);
}
