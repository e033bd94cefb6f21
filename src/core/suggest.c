/*
 * cove_policy_suggest: the box's denials and its policy, given to cove-door, which can judge; see
 * door/suggest.h. A policy that is built in goes as `use`, which a person can read at a glance.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "core/door.h"
#include "core/view.h"
#include "store/audit.h"
#include "store/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rows go through memory: as many as a log has at most. */
#define ROWS_MAX (AUDIT_SEGMENTS * (size_t)AUDIT_SEGMENT_MAX)

static int on_row(void *arg, const char *box, const struct audit_row *row)
{
	/* What a rule is made of, and no more. */
	const struct audit_row small = {.kind = row->kind,
					.host = row->host,
					.port = row->port,
					.method = row->method,
					.path = row->path,
					.rule = row->rule,
					.verdict = row->verdict,
					.count = row->count,
					.why = row->why};
	struct buf *b = arg;
	int r = audit_row_pack(b, &small);

	return r == 0 ? buf_append(b, "\n", 1) : r;
}

/* "balanced,conda" as a policy. */
static int put_preset(struct buf *b, const char *names)
{
	int r = buf_append_str(b, "version: 1\nuse: [");

	for (const char *p = names; *p && r == 0; p++)
		r = *p == ',' ? buf_append_str(b, ", ") : buf_append(b, p, 1);
	return r == 0 ? buf_append_str(b, "]\n") : r;
}

static int put_policy(struct cove *cove, const char *box, const struct record *record,
		      struct buf *b, struct err *e)
{
	char name[NET_NAME_MAX];
	autofree char *text = NULL;
	autoclose int fd = -1;
	size_t len = 0;
	int r;

	r = box_open_dir(cove, box, &fd, e);
	if (r < 0)
		return r;
	net_policy_name(fd, net_is_closed(record->spec.net) ? "closed" : record->spec.net, name);
	if (net_is_preset(name)) {
		r = put_preset(b, name);
		return r < 0 ? err_errno(e, -r, "suggest a policy for '%s'", box) : 0;
	}
	r = fd_read_file(fd, NET_POLICY_FILE, DOOR_POLICY_MAX, &text, &len);
	if (r == 0)
		r = buf_append(b, text, len);
	return r < 0 ? err_errno(e, -r, "read the policy of '%s'", box) : 0;
}

/* Rows, an empty line, the policy. A box that is gone has rows still; an older one of the same name
 * is another box. */
static int gather(struct cove *cove, const char *box, struct buf *b, struct err *e)
{
	struct audit_filter f = {.box = box, .denied_only = true};
	struct record record = {0};
	int r = record_load(&cove->state, box, &record, e);
	bool is_gone = r == -ENOENT;

	if (r < 0 && !is_gone)
		return r;
	if (!is_gone)
		f.since_ms = record.spec.created_ms;
	r = audit_read(&cove->state, &f, on_row, b, e);
	if (r < 0 && e->kind == ERR_NONE)
		err_errno(e, -r, "gather what was denied to '%s'", box);
	if (r == 0 && is_gone && buf_len(b) == 0)
		r = err_set(e, ERR_NOT_FOUND, ENOENT,
			    "no box '%s', and nothing was denied to one of that name", box);
	if (r == 0 && buf_append_str(b, "\n") < 0)
		r = err_errno(e, ENOMEM, "gather what was denied to '%s'", box);
	if (r == 0 && is_gone &&
	    buf_append_str(b, "version: 1\n# The box is gone, and its policy "
			      "with it.\nrules: []\n") < 0)
		r = err_errno(e, ENOMEM, "gather what was denied to '%s'", box);
	else if (r == 0 && !is_gone)
		r = put_policy(cove, box, &record, b, e);
	if (!is_gone)
		record_done(&record);
	return r;
}

static int suggest(struct cove *cove, const char *box, struct cove_suggestion *ret, struct err *e)
{
	char *argv[] = {(char *)"cove-door", (char *)"suggest", (char *)(uintptr_t)box, NULL};
	autofree char *said = NULL;
	autoclose int input = -1;
	char *text = NULL;
	struct buf b;
	int status = 0, r;

	buf_init(&b, ROWS_MAX + DOOR_POLICY_MAX);
	r = gather(cove, box, &b, e);
	if (r == 0) {
		r = fd_seal("suggest", buf_data(&b), buf_len(&b), &input);
		if (r < 0)
			err_errno(e, -r, "suggest a policy for '%s'", box);
	}
	buf_done(&b);
	if (r < 0)
		return r;
	lseek(input, 0, SEEK_SET);
	r = net_run_door(cove, argv, input, 1, &said, &status, e);
	if (r < 0)
		return r;
	if (strlen(said) > DOOR_POLICY_MAX)
		return err_set(e, ERR_LIMIT, EFBIG,
			       "the suggestion for '%s' is no policy any more: "
			       "it has more than %u bytes",
			       box, DOOR_POLICY_MAX);
	text = strchr(said, '\n');
	if (status == 0 && text &&
	    sscanf(said, "%" SCNu64 " %" SCNu64 " %" SCNu64, &ret->denied, &ret->rules,
		   &ret->remarks) == 3) {
		ret->text = strdup(text + 1);
		return ret->text ? 0 : err_errno(e, ENOMEM, "suggest a policy for '%s'", box);
	}
	said[strcspn(said, "\n")] = 0;
	return err_set(e, ERR_INVALID, EINVAL, "%.220s",
		       said[0] ? said : "cove-door ended without a word: install Cove again");
}

int cove_policy_suggest(struct cove *cove, const char *box, struct cove_suggestion *ret,
			struct cove_error *err)
{
	struct cove_suggestion out = {.size = ret->size};
	struct err e = {0};
	int r = ret->size < sizeof(out)
			? err_set(&e, ERR_INVALID, EINVAL, "a suggestion without its size")
			: suggest(cove, box, &out, &e);

	if (r == 0)
		*ret = out;
	return core_return(cove, box, r, &e, err);
}
