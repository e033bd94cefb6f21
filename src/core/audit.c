/* The audit log of the door. */
#include "store/audit.h"
#include "core/core.h"
#include "core/view.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

struct reading {
	cove_on_row *on_row;
	void *arg;
	struct err *e;
};

/* 1 stops: the caller has seen enough. */
static int on_row(void *arg, const char *box, const struct audit_row *row)
{
	struct reading *r = arg;
	const struct cove_audit_row shown = {
		.box = box,
		.time_ms = row->time_ms,
		.seq = row->seq,
		.kind = row->kind,
		.about = row->about,
		.exec_id = row->exec_id,
		.host = row->host,
		.port = row->port,
		.method = row->method,
		.path = row->path,
		.rule = row->rule,
		.verdict = row->verdict,
		.reason = row->reason,
		.address = row->address,
		.status = row->status,
		.bytes_up = row->bytes_up,
		.bytes_down = row->bytes_down,
		.duration_ms = row->duration_ms,
		.count = row->count,
		.credential = row->credential,
		.by = row->by,
		.why = row->why,
	};

	return r->on_row(r->arg, &shown) ? 0 : 1;
}

/* New rows as they come. A quiet minute asks the caller whether to go on. */
static int follow(struct cove *cove, const struct audit_filter *f, struct reading *reading)
{
	struct audit_tail *t = NULL;
	int r = audit_tail_new(&t, &cove->state, f, reading->e);

	while (r == 0) {
		struct pollfd p = {.fd = audit_tail_fd(t), .events = POLLIN};

		r = audit_tail_read(t, on_row, reading, reading->e);
		if (r == 0 && poll(&p, 1, 1000) < 0 && errno != EINTR)
			r = err_errno(reading->e, errno, "wait for the audit log");
		if (r == 0 && !reading->on_row(reading->arg, NULL))
			r = 1;
	}
	audit_tail_free(t);
	return r;
}

int cove_audit(struct cove *cove, const struct cove_audit_options *options, cove_on_row *on_shown,
	       void *arg, struct cove_error *err)
{
	struct cove_audit_options o;
	struct err e = {0};
	struct reading reading = {.on_row = on_shown, .arg = arg, .e = &e};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	if (r == 0) {
		struct audit_filter f = {
			.box = o.box, .denied_only = o.denied_only, .since_ms = o.since_ms};

		r = o.follow ? follow(cove, &f, &reading)
			     : audit_read(&cove->state, &f, on_row, &reading, &e);
	}
	return core_return(cove, options->box, r > 0 ? 0 : r, &e, err);
}

int cove_audit_verify(struct cove *cove, const char *box, struct cove_audit_report *ret,
		      struct cove_error *err)
{
	struct audit_report report = {0};
	struct err e = {0};
	int r = audit_verify(&cove->state, box, &report, &e);
	struct cove_audit_report out = {.size = ret->size,
					.rows = report.rows,
					.dropped = report.dropped,
					.cut = report.cut};

	memcpy(ret, &out, ret->size < sizeof(out) ? ret->size : sizeof(out));
	return core_return(cove, box, r, &e, err);
}

int cove_audit_delete(struct cove *cove, const char *box, uint64_t before_ms, const char *by,
		      uint64_t *ret_rows, struct cove_error *err)
{
	struct err e = {0};
	int r = audit_delete(&cove->state, box, before_ms, by, ret_rows, &e);

	return core_return(cove, box, r, &e, err);
}

int cove_audit_keep(struct cove *cove, const uint64_t *set_ms, uint64_t *ret_ms,
		    struct cove_error *err)
{
	struct err e = {0};
	int r = set_ms ? audit_set_keep(&cove->state, *set_ms, &e) : 0;

	if (r == 0)
		r = audit_keep(&cove->state, ret_ms, &e);
	return core_return(cove, NULL, r, &e, err);
}
