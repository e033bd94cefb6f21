/* Lines of a file in a box, and edits of it; and what operations of that kind share (tool.h). */
#include "core/tool.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "core/life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 512 << 10 };

/* ---- the stream ---- */

/* What an older keeper passes on, its init does not know. */
int core_file_check(struct core_conn *conn, uint32_t feature, struct err *e)
{
	int r = core_conn_wait_ready(conn, START_WAIT_MS, e);

	if (r == 0 && !(conn->peer.features & feature))
		r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			    "box '%s' was started by a Cove that cannot %s: cove stop %s; cove "
			    "start %s",
			    conn->box,
			    feature == WIRE_FEATURE_RANGES ? "read a part of a file"
							   : "read, edit, search or watch",
			    conn->box, conn->box);
	return r;
}

int core_tool_unexpected(const struct wire_frame *f, struct err *e)
{
	return err_set(e, ERR_PROTOCOL, EPROTO,
		       "the box answered with a frame of type %d out of turn", (int)f->type);
}

int core_tool_path(const char *path, const char **ret, struct err *e)
{
	*ret = path ? path : "";
	if (!**ret || (strlen(path) < BOX_PATH_MAX && path_is_safe_relative(path)))
		return 0;
	return err_set(e, ERR_PROTOCOL, EPROTO, "the box named a path that cannot be");
}

static void on_cancel(struct ev_io *io, uint32_t events)
{
	struct core_tool *tool = container(io, struct core_tool, cancel);
	struct core_call *c = &tool->t.call;

	ev_io_remove(tool->t.conn->ev, io);
	tool->cancelled = true;
	if (!c->done)
		c->result = err_set(&c->why, ERR_INTERRUPTED, ECANCELED, "the call was given up");
	c->done = true;
	ev_quit(tool->t.conn->ev);
}

/* Bytes of the answer, cut anywhere. */
static int feed(struct core_tool *tool, const uint8_t *p, size_t n, struct err *e)
{
	struct wire_frame f;
	int r = 0;

	while (n > 0 && r == 0) {
		size_t room = 0;
		uint8_t *space = wire_decoder_space(&tool->decoder, &room);

		if (!space)
			return err_errno(e, ENOMEM, "read the box's answer");
		room = room < n ? room : n;
		memcpy(space, p, room);
		wire_decoder_fill(&tool->decoder, room);
		p += room;
		n -= room;
		while (r == 0 && (r = wire_decoder_next(&tool->decoder, &f)) > 0)
			/* One of a newer init's is passed over. */
			r = wire_type_is_known(f.type) ? tool->on_frame(tool->arg, &f, e) : 0;
		if (r == -EBADMSG)
			return err_set(e, ERR_PROTOCOL, EPROTO, "the box's answer is broken");
	}
	return r;
}

static int take_answer(struct core_tool *tool, struct err *e)
{
	struct wire_frame f;
	size_t len;
	int r;

	while ((r = transfer_next(&tool->t, &f, e)) > 0 && f.type != WIRE_OK) {
		if (f.type == WIRE_EOF && f.stream == WIRE_STDOUT)
			continue;
		if (f.type != WIRE_DATA || f.stream != WIRE_STDOUT)
			return core_unexpected(&tool->t.call.q, &f, e);
		len = f.len;
		r = feed(tool, f.payload, len, e);
		if (r != 0)
			return r;
		r = transfer_took(&tool->t, len, e);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

int core_tool_run(struct core_tool *tool, struct cove_box *box, const struct wire_file *m,
		  int cancel_fd, struct err *e)
{
	struct ev *ev;
	int r = transfer_begin(&tool->t, box, m, e);

	if (r < 0)
		return r;
	tool->begun = true;
	ev = tool->t.conn->ev;
	wire_decoder_init(&tool->decoder);
	tool->cancel = (struct ev_io){.on_event = on_cancel, .fd = cancel_fd};
	if (cancel_fd > 0)
		r = ev_io_add(ev, &tool->cancel, EPOLLIN);
	r = r < 0 ? err_errno(e, -r, "wait for the descriptor that ends it") : take_answer(tool, e);
	ev_io_remove(ev, &tool->cancel);
	wire_decoder_done(&tool->decoder);
	if (r == -ENOSYS)
		err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			"box '%s' runs with an older init that cannot do it: cove stop %s; cove "
			"start %s",
			box->name, box->name, box->name);
	/* One that is not wanted any more is cancelled. */
	return r > 0 ? (transfer_end(&tool->t, -ECANCELED), 1) : transfer_end(&tool->t, r);
}

/* ---- lines ---- */

struct lines_taken {
	struct buf text;
	struct wire_summary summary; /* without its strings */
	bool has_summary;
};

static int on_read(void *arg, const struct wire_frame *f, struct err *e)
{
	struct lines_taken *r = arg;

	if (r->has_summary)
		return core_tool_unexpected(f, e);
	if (f->type == WIRE_DATA) {
		if (buf_append(&r->text, f->payload, f->len) < 0)
			return err_set(e, ERR_PROTOCOL, EPROTO,
				       "the box sent more text than was asked for");
		return 0;
	}
	if (f->type != WIRE_SUMMARY || wire_summary_decode(f, &r->summary) < 0)
		return core_tool_unexpected(f, e);
	r->summary.sha256 = NULL;
	r->has_summary = true;
	return 0;
}

static int check_read(const struct lines_taken *r, struct err *e)
{
	const struct wire_summary *s = &r->summary;

	if (r->has_summary && s->first <= s->last && (s->first > 0) == (s->last > 0) &&
	    s->last <= s->total && (s->last > 0 || buf_len(&r->text) == 0) &&
	    s->cut_lines <= s->last)
		return 0;
	return err_set(e, ERR_PROTOCOL, EPROTO, "the box gave lines that cannot be");
}

static int take_lines(struct lines_taken *r, struct cove_lines *ret, struct err *e)
{
	const struct wire_summary *s = &r->summary;
	size_t n = buf_len(&r->text);
	char *text = malloc(n + 1);

	if (!text)
		return err_errno(e, ENOMEM, "keep the lines");
	if (n > 0)
		memcpy(text, buf_data(&r->text), n);
	text[n] = '\0';
	*ret = (struct cove_lines){
		.text = text,
		.text_len = n,
		.first_line = s->first,
		.last_line = s->last,
		.total_lines = s->total,
		.at_end = s->at_end,
		.is_binary = s->is_binary,
		.cut_lines = s->cut_lines,
		.file_size = s->size,
		.mtime_ns = s->mtime_ns,
	};
	return 0;
}

static int read_lines(struct cove_box *box, const char *path, const struct cove_read_options *o,
		      struct cove_lines *ret, struct err *e)
{
	size_t max = o->max_bytes == 0		    ? READ_BYTES
		     : o->max_bytes < INIT_TEXT_MAX ? o->max_bytes
						    : INIT_TEXT_MAX;
	struct wire_file m = {
		.op = FILE_READ,
		.path = path,
		.user = o->user,
		.from = o->from_line,
		.count = o->count,
		.bytes = max,
		.line_bytes = o->max_line_bytes,
		.time_ms = o->time_ms,
		.binary = o->binary,
	};
	struct lines_taken reading = {0};
	struct core_tool tool = {.on_frame = on_read, .arg = &reading};
	int r;

	buf_init(&reading.text, max);
	r = core_tool_run(&tool, box, &m, o->cancel_fd, e);
	if (r == 0)
		r = check_read(&reading, e);
	if (r == 0)
		r = take_lines(&reading, ret, e);
	buf_done(&reading.text);
	return r;
}

int cove_read_lines(struct cove_box *box, const char *path, const struct cove_read_options *options,
		    struct cove_lines *ret, struct cove_error *err)
{
	struct cove_read_options o = {0};
	struct err e = {0};
	int r = options ? core_copy_sized(&o, sizeof(o), options, &e) : 0;

	if (r == 0)
		r = read_lines(box, path, &o, ret, &e);
	return core_return(box->cove, box->name, r, &e, err);
}

void cove_lines_done(struct cove_lines *lines)
{
	if (!lines)
		return;
	free(lines->text);
	*lines = (struct cove_lines){0};
}

/* ---- edits ---- */

struct edited {
	struct cove_edited *ret;
	bool has_summary;
};

static int on_edit(void *arg, const struct wire_frame *f, struct err *e)
{
	struct edited *d = arg;
	struct wire_summary s;

	if (d->has_summary || f->type != WIRE_SUMMARY || wire_summary_decode(f, &s) < 0)
		return core_tool_unexpected(f, e);
	if (s.count == 0 || !s.sha256 || strlen(s.sha256) != 64 ||
	    strspn(s.sha256, "0123456789abcdef") != 64)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box gave an edit that cannot be");
	*d->ret = (struct cove_edited){
		.occurrences = s.count,
		.first_line = s.first,
		.file_size = s.size,
		.mtime_ns = s.mtime_ns,
	};
	str_copy(d->ret->sha256, sizeof(d->ret->sha256), s.sha256);
	d->has_summary = true;
	return 0;
}

static int add_edits(struct buf *b, const struct cove_edit_options *o, struct err *e)
{
	if (o->count == 0 || o->count > INIT_EDITS_MAX || !o->edits)
		return err_set(e, ERR_INVALID, EINVAL, "an edit has 1 to %u replacements",
			       INIT_EDITS_MAX);
	for (size_t i = 0; i < o->count; i++) {
		const struct cove_edit *d = &o->edits[i];

		if (!d->old_text || !d->new_text || !*d->old_text)
			return err_set(e, ERR_INVALID, EINVAL,
				       "edit %zu: the text that is to be replaced is empty", i + 1);
		if (strcmp(d->old_text, d->new_text) == 0)
			return err_set(e, ERR_INVALID, EINVAL, "edit %zu: both texts are the same",
				       i + 1);
		if (wire_list_add(b, d->all ? "all" : "one") < 0 ||
		    wire_list_add(b, d->old_text) < 0 || wire_list_add(b, d->new_text) < 0)
			return err_set(e, ERR_LIMIT, E2BIG,
				       "the texts of an edit have over %u KiB: put the whole file",
				       INIT_EDITS_BYTES >> 10);
	}
	return 0;
}

static int edit(struct cove_box *box, const char *path, const struct cove_edit_options *o,
		struct cove_edited *ret, struct err *e)
{
	struct cove_edited made = {0};
	struct edited d = {.ret = &made};
	struct core_tool tool = {.on_frame = on_edit, .arg = &d};
	struct wire_file m = {
		.op = FILE_EDIT,
		.path = path,
		.user = o->user,
		.time_ms = o->time_ms,
		.if_sha256 = o->if_sha256,
		.if_mtime_ns = o->if_mtime_ns,
		.if_size = o->if_size,
	};
	struct buf edits;
	int r;

	buf_init(&edits, INIT_EDITS_BYTES);
	r = add_edits(&edits, o, e);
	m.edits = wire_list_of(&edits);
	if (r == 0)
		r = core_tool_run(&tool, box, &m, o->cancel_fd, e);
	if (r == 0 && !d.has_summary)
		r = err_set(e, ERR_PROTOCOL, EPROTO, "the box did not say what was edited");
	if (r == 0)
		*ret = made;
	buf_done(&edits);
	return r;
}

int cove_edit(struct cove_box *box, const char *path, const struct cove_edit_options *options,
	      struct cove_edited *ret, struct cove_error *err)
{
	struct cove_edit_options o;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	if (r == 0)
		r = edit(box, path, &o, ret, &e);
	return core_return(box->cove, box->name, r, &e, err);
}
