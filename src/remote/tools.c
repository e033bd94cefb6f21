/* What tools of agents do with files of a server's boxes: lines, edits, searches, watching. */
#include "base/fd.h"
#include "base/str.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A path in a box is any bytes, and stands in the query. */
static void begin(struct remote_request *q, const struct cove_box *box, const char *method,
		  const char *what, const char *path, const char *user, int cancel_fd)
{
	remote_begin(q, box->cove, method, what, box->name);
	remote_query(q, "path", path);
	remote_query(q, "user", user);
	q->cancel_fd = cancel_fd;
}

static uint64_t number_or_unknown(const json_t *o, const char *key)
{
	return json_is_integer(json_object_get(o, key)) ? remote_number(o, key) : COVE_UNKNOWN;
}

int cove_read_lines(struct cove_box *box, const char *path, const struct cove_read_options *given,
		    struct cove_lines *ret, struct cove_error *err)
{
	struct cove_read_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *a = NULL;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	begin(&q, box, "GET", "/v1/boxes/{}/files/lines", path, o.user, o.cancel_fd);
	remote_query_u64(&q, "from", o.from_line);
	remote_query_u64(&q, "count", o.count);
	remote_query_u64(&q, "max_bytes", o.max_bytes);
	remote_query_u64(&q, "max_line", o.max_line_bytes);
	remote_query_u64(&q, "timeout_ms", o.time_ms);
	remote_query_bool(&q, "binary", o.binary);
	r = remote_call(&q, &a, &e);
	*ret = (struct cove_lines){0};
	if (r == 0) {
		ret->text = remote_take_bytes(a, "text", "text_base64", &ret->text_len);
		ret->first_line = remote_number(a, "first_line");
		ret->last_line = remote_number(a, "last_line");
		ret->total_lines = number_or_unknown(a, "total_lines");
		ret->at_end = remote_is(a, "at_end");
		ret->is_binary = remote_is(a, "is_binary");
		ret->cut_lines = remote_number(a, "cut_lines");
		ret->file_size = remote_number(a, "size");
		ret->mtime_ns = remote_number(a, "mtime_ns");
	}
	if (r == 0 && !ret->text)
		r = err_set(&e, ERR_PROTOCOL, EPROTO, "the server's answer holds no text");
	json_decref(a);
	return remote_return(r, &e, err);
}

void cove_lines_done(struct cove_lines *lines)
{
	free(lines->text);
	*lines = (struct cove_lines){0};
}

static int put_edits(struct json *j, const struct cove_edit_options *o, struct err *e)
{
	int r = 0;

	json_key(j, "edits");
	json_array_begin(j);
	for (size_t i = 0; i < o->count; i++) {
		const struct cove_edit *edit = &o->edits[i];

		if (!str_is_utf8(edit->old_text, strlen(edit->old_text)) ||
		    !str_is_utf8(edit->new_text, strlen(edit->new_text)))
			r = err_set(e, ERR_UNSUPPORTED, EILSEQ,
				    "a text of an edit has bytes that are no UTF-8, which a server "
				    "does not take");
		json_object_begin(j);
		json_kv_str(j, "old", edit->old_text);
		json_kv_str(j, "new", edit->new_text);
		json_kv_bool(j, "all", edit->all);
		json_object_end(j);
	}
	json_array_end(j);
	return r;
}

int cove_edit(struct cove_box *box, const char *path, const struct cove_edit_options *given,
	      struct cove_edited *ret, struct cove_error *err)
{
	struct cove_edit_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *a = NULL;
	const char *sum;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r == 0 && o.if_mtime_ns)
		r = remote_absent(&e, "an edit that depends on a file's time");
	if (r < 0)
		return remote_return(r, &e, err);
	begin(&q, box, "POST", "/v1/boxes/{}/files/edit", path, o.user, o.cancel_fd);
	remote_note(&q, put_edits(remote_object(&q), &o, &e));
	remote_put_str(&q.json, "if_sha256", o.if_sha256);
	r = remote_call(&q, &a, &e);
	sum = remote_text(a, "sha256");
	if (r == 0) {
		*ret = (struct cove_edited){.occurrences = remote_number(a, "occurrences"),
					    .first_line = remote_number(a, "first_line"),
					    .file_size = remote_number(a, "size"),
					    .mtime_ns = remote_number(a, "mtime_ns")};
		str_copy(ret->sha256, sizeof(ret->sha256), sum ? sum : "");
	}
	json_decref(a);
	return remote_return(r, &e, err);
}

/* ---- searches ---- */

static void take_found(const json_t *o, struct cove_found *ret)
{
	static const char *const words[] = {"count", "time", "size", NULL};
	const char *truncated = remote_text(o, "truncated");

	*ret = (struct cove_found){.count = remote_number(o, "count"),
				   .files = remote_number(o, "files"),
				   .left_out = remote_number(o, "left_out")};
	/* As of a box here (core/tool_find.c): a reason without a word is one all the same. */
	ret->truncated = truncated ? "size" : NULL;
	for (size_t i = 0; words[i] && truncated; i++)
		if (strcmp(words[i], truncated) == 0)
			ret->truncated = words[i];
}

/* The call's matches, one after the other, until one is enough. */
static int search(struct remote_request *q, int (*on_match)(void *arg, const json_t *o), void *arg,
		  struct cove_found *ret, struct cove_error *err)
{
	struct err e = {0};
	json_t *o = NULL;
	const json_t *list;
	int r = remote_call(q, &o, &e);

	list = json_object_get(o, "matches");
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		if (on_match(arg, json_array_get(list, i)) != 0)
			break;
	if (r == 0 && ret)
		take_found(o, ret);
	json_decref(o);
	return remote_return(r, &e, err);
}

static int on_name(void *arg, const json_t *o)
{
	const struct cove_glob_options *options = arg;
	size_t len;
	autofree char *path = remote_take_bytes(o, "path", "path_base64", &len);
	const struct cove_file_info file = {.type = remote_is(o, "is_dir") ? 'd' : 'f',
					    .name = path,
					    .size = remote_number(o, "size"),
					    .mtime_ns = remote_number(o, "mtime_ns")};

	return path && options->on_match ? options->on_match(options->arg, &file) : 0;
}

int cove_glob(struct cove_box *box, const char *dir, const char *pattern,
	      const struct cove_glob_options *given, struct cove_found *ret, struct cove_error *err)
{
	struct cove_glob_options o;
	struct remote_request q;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	begin(&q, box, "GET", "/v1/boxes/{}/files/glob", dir, o.user, o.cancel_fd);
	remote_query(&q, "pattern", pattern);
	remote_query_bool(&q, "any", o.any_type);
	remote_query_u64(&q, "max", o.max_count);
	remote_query_u64(&q, "timeout_ms", o.time_ms);
	return search(&q, on_name, &o, ret, err);
}

static int on_line(void *arg, const json_t *o)
{
	const struct cove_grep_options *options = arg;
	size_t len;
	autofree char *path = remote_take_bytes(o, "path", "path_base64", &len);
	autofree char *text = remote_take_bytes(o, "text", "text_base64", &len);
	const struct cove_match m = {.path = path,
				     .line = remote_number(o, "line"),
				     .column = remote_number(o, "column"),
				     .text = text,
				     .text_column = remote_number(o, "text_column"),
				     .is_cut = remote_is(o, "is_cut"),
				     .is_context = remote_is(o, "is_context")};

	return path && text && options->on_match ? options->on_match(options->arg, &m) : 0;
}

int cove_grep(struct cove_box *box, const char *path, const char *pattern,
	      const struct cove_grep_options *given, struct cove_found *ret, struct cove_error *err)
{
	struct cove_grep_options o;
	struct remote_request q;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	begin(&q, box, "GET", "/v1/boxes/{}/files/grep", path, o.user, o.cancel_fd);
	remote_query(&q, "pattern", pattern);
	remote_query_bool(&q, "regex", o.regex);
	remote_query_bool(&q, "ignore_case", o.ignore_case);
	remote_query(&q, "glob", o.glob);
	remote_query_u64(&q, "context", o.context);
	remote_query_u64(&q, "max", o.max_count);
	remote_query_u64(&q, "timeout_ms", o.time_ms);
	return search(&q, on_line, &o, ret, err);
}

/* ---- watching ---- */

static bool on_change(void *arg, const char *name, const char *data, size_t len)
{
	static const char *const words[] = {
		[COVE_WATCH_READY] = "ready",	  [COVE_WATCH_CREATED] = "created",
		[COVE_WATCH_WRITTEN] = "written", [COVE_WATCH_REMOVED] = "removed",
		[COVE_WATCH_RENAMED] = "renamed", [COVE_WATCH_CHMOD] = "chmod",
		[COVE_WATCH_LOST] = "lost",	  [COVE_WATCH_UNWATCHED] = "unwatched"};
	const struct cove_watch_options *options = arg;
	json_t *o = json_loadb(data, len, 0, NULL);
	struct cove_watch_event event = {.path = remote_text(o, "path"),
					 .to = remote_text(o, "to"),
					 .is_dir = remote_is(o, "is_dir")};
	bool more = true;

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]) && more; i++) {
		event.kind = (enum cove_watch_kind)i;
		if (strcmp(name, words[i]) == 0 && event.path && options->on_event)
			more = options->on_event(options->arg, &event) == 0;
	}
	json_decref(o);
	return more;
}

int cove_watch(struct cove_box *box, const char *dir, const struct cove_watch_options *given,
	       struct cove_error *err)
{
	struct cove_watch_options o;
	struct remote_request q;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	begin(&q, box, "GET", "/v1/boxes/{}/files/watch", dir, o.user, o.stop_fd);
	remote_query_bool(&q, "recursive", o.recursive);
	return remote_return(remote_call_events(&q, on_change, &o, &e), &e, err);
}
