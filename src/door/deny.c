/* Denials: a row for the audit log, and a notice for the keeper; see door.h. */
#include "door/door.h"

/* A notice that finds no room is lost; the row is not. */
void door_deny(struct door *d, struct broker_call *call, struct audit_row *row, enum denial why)
{
	const struct denied what = {.why = why,
				    .box = d->config.box,
				    .host = row->host,
				    .port = row->port,
				    .method = row->method,
				    .path = row->path,
				    .rule = row->rule};
	char remedy[DENIAL_REMEDY_MAX];
	const struct wire_denied m = {.exec_id = row->exec_id,
				      .host = row->host,
				      .port = row->port,
				      .method = row->method,
				      .reason = denial_reason(why),
				      .remedy = remedy};

	row->why = denial_word(why);
	broker_record(d->broker, call, row);
	denial_remedy(&what, remedy, sizeof(remedy));
	if (wire_denied_encode(&d->keeper.out, 0, 0, &m) == 0)
		wire_link_flush(&d->keeper);
}
