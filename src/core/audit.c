/* The audit log of the door, as JSON rows. */
#include "store/audit.h"
#include "base/json.h"
#include "core/core.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { ROW_JSON_MAX = 256 << 10 };

struct reading {
	cove_on_line *on_line;
	void *arg;
	uint64_t last_ms;
	struct err *e;
};

static void put_row(struct json *j, const char *box, const struct audit_row *row)
{
	const struct {
		const char *key, *text;
		uint64_t number;
	} fields[] = {
		{"kind", row->kind, 0},
		{"exec_id", NULL, row->exec_id},
		{"host", row->host, 0},
		{"port", NULL, row->port},
		{"method", row->method, 0},
		{"path", row->path, 0},
		{"rule", row->rule, 0},
		{"verdict", row->verdict, 0},
		{"reason", row->reason, 0},
		{"address", row->address, 0},
		{"status", NULL, row->status},
		{"bytes_up", NULL, row->bytes_up},
		{"bytes_down", NULL, row->bytes_down},
		{"duration_ms", NULL, row->duration_ms},
		{"count", NULL, row->count},
		{"credential", row->credential, 0},
		{"by", row->by, 0},
		{"about", NULL, row->about},
	};

	json_object_begin(j);
	json_kv_u64(j, "time_ms", row->time_ms);
	json_kv_str(j, "box", box);
	json_kv_u64(j, "seq", row->seq);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].text)
			json_kv_str(j, fields[i].key, fields[i].text);
		else if (fields[i].number)
			json_kv_u64(j, fields[i].key, fields[i].number);
	}
	json_object_end(j);
}

/* 1 stops: the caller has seen enough. */
static int on_row(void *arg, const char *box, const struct audit_row *row)
{
	struct reading *r = arg;
	struct buf text;
	struct json j;
	const char *line;
	bool more;

	buf_init(&text, ROW_JSON_MAX);
	json_init(&j, &text);
	put_row(&j, box, row);
	line = j.error ? NULL : buf_cstr(&text);
	if (!line) {
		buf_done(&text);
		return err_errno(r->e, ENOMEM, "show an audit row");
	}
	more = r->on_line(r->arg, line);
	buf_done(&text);
	r->last_ms = row->time_ms;
	return more ? 0 : 1;
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
		if (r == 0 && !reading->on_line(reading->arg, NULL))
			r = 1;
	}
	audit_tail_free(t);
	return r;
}

int cove_audit(struct cove *cove, const struct cove_audit_options *options, cove_on_line *on_line,
	       void *arg, struct cove_error *err)
{
	struct cove_audit_options o;
	struct err e = {0};
	struct reading reading = {.on_line = on_line, .arg = arg, .e = &e};
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
