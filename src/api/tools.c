/* What agents' file tools need, by init in the box: lines, edits, searches, watching. */
#include "api/handlers.h"

#include <errno.h>

static int query_size(struct api_call *c, const char *name, size_t *ret, struct err *e)
{
	uint64_t v;
	int r = api_query_u64(c, name, 0, &v, e);

	*ret = (size_t)v;
	return r;
}

static int read_lines(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_read_options o = {.size = sizeof(o)};
	struct cove_box *box = NULL;
	struct cove_lines lines;
	struct cove_error err;
	const char *path;
	int r = api_query(c, "user", &o.user, e);

	if (r == 0)
		r = api_query_u64(c, "from", 1, &o.from_line, e);
	if (r == 0)
		r = api_query_u64(c, "count", 0, &o.count, e);
	if (r == 0)
		r = api_query_bool(c, "binary", &o.binary, e);
	if (r == 0)
		r = query_size(c, "max_bytes", &o.max_bytes, e);
	if (r == 0)
		r = query_size(c, "max_line", &o.max_line_bytes, e);
	if (r == 0)
		r = api_query_u64(c, "timeout_ms", 0, &o.time_ms, e);
	if (r == 0)
		r = api_cancel_fd(c, &o.cancel_fd, e);
	if (r == 0)
		r = api_visit(c, cove, &box, &path, e);
	if (r < 0)
		return r;
	r = cove_read_lines(box, path, &o, &lines, &err);
	cove_box_free(box);
	if (r < 0)
		return api_failed(r, &err, e);
	c->is_exact = true;
	json_object_begin(api_json(c, 200));
	json_kv_bytes(&c->json, "text", "text_base64", lines.text, lines.text_len);
	json_kv_u64(&c->json, "first_line", lines.first_line);
	json_kv_u64(&c->json, "last_line", lines.last_line);
	json_key(&c->json, "total_lines");
	if (lines.total_lines == COVE_UNKNOWN)
		json_nil(&c->json);
	else
		json_u64(&c->json, lines.total_lines);
	json_kv_bool(&c->json, "at_end", lines.at_end);
	json_kv_bool(&c->json, "is_binary", lines.is_binary);
	json_kv_u64(&c->json, "cut_lines", lines.cut_lines);
	json_kv_u64(&c->json, "size", lines.file_size);
	json_kv_u64(&c->json, "mtime_ns", lines.mtime_ns);
	json_object_end(&c->json);
	cove_lines_done(&lines);
	return 0;
}

/* ---- edits ---- */

struct edit_in {
	json_t *edits;
	const char *if_sha256;
};
static const struct api_in_field edit_fields[] = {
	API_IN(edit_in, edits, JSON), API_IN(edit_in, if_sha256, STR), {NULL, 0, 0}};
static const struct api_in_field one_edit_fields[] = {API_IN_AS(cove_edit, "old", old_text, STR),
						      API_IN_AS(cove_edit, "new", new_text, STR),
						      API_IN(cove_edit, all, BOOL),
						      {NULL, 0, 0}};

static int take_edits(struct api_call *c, json_t *list, struct cove_edit_options *o, struct err *e)
{
	size_t count = json_array_size(list);
	struct cove_edit *edits;

	if (count == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'edits' is a list of {\"old\", \"new\", \"all\"}");
	edits = api_memory_get(&c->memory, count * sizeof(*edits));
	if (!edits)
		return err_errno(e, ENOMEM, "read the request");
	for (size_t i = 0; i < count; i++) {
		const struct api_in_table tables[] = {{one_edit_fields, &edits[i]}, {NULL, NULL}};
		int r = api_in_take(&c->memory, json_array_get(list, i), tables, e);

		if (r == 0 && (!edits[i].old_text || !edits[i].new_text))
			r = err_set(e, ERR_INVALID, EINVAL, "an edit has 'old' and 'new'");
		if (r < 0)
			return r;
	}
	o->edits = edits;
	o->count = count;
	return 0;
}

static int edit_file(struct api_call *c, struct cove *cove, struct err *e)
{
	struct edit_in in = {0};
	const struct api_in_table tables[] = {{edit_fields, &in}, {NULL, NULL}};
	struct cove_edit_options o = {.size = sizeof(o)};
	struct cove_box *box = NULL;
	struct cove_edited done;
	struct cove_error err;
	const char *path;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = take_edits(c, in.edits, &o, e);
	if (r == 0)
		r = api_query(c, "user", &o.user, e);
	if (r == 0)
		r = api_cancel_fd(c, &o.cancel_fd, e);
	if (r == 0)
		r = api_visit(c, cove, &box, &path, e);
	if (r < 0)
		return r;
	o.if_sha256 = in.if_sha256;
	r = cove_edit(box, path, &o, &done, &err);
	cove_box_free(box);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_u64(&c->json, "occurrences", done.occurrences);
	json_kv_u64(&c->json, "first_line", done.first_line);
	json_kv_u64(&c->json, "size", done.file_size);
	json_kv_u64(&c->json, "mtime_ns", done.mtime_ns);
	json_kv_str(&c->json, "sha256", done.sha256);
	json_object_end(&c->json);
	return 0;
}

/* ---- searches ---- */

/* The answer is as long as API_OUT_MAX: what does not fit ends the search. */
static int on_name(void *arg, const struct cove_file_info *file)
{
	struct api_call *c = arg;

	json_object_begin(&c->json);
	json_kv_bytes(&c->json, "path", "path_base64", file->name, strlen(file->name));
	json_kv_u64(&c->json, "size", file->size);
	json_kv_u64(&c->json, "mtime_ns", file->mtime_ns);
	json_kv_bool(&c->json, "is_dir", file->type == 'd');
	json_object_end(&c->json);
	return c->json.error < 0;
}

static int on_line_found(void *arg, const struct cove_match *m)
{
	struct api_call *c = arg;

	json_object_begin(&c->json);
	json_kv_bytes(&c->json, "path", "path_base64", m->path, strlen(m->path));
	json_kv_u64(&c->json, "line", m->line);
	if (!m->is_context)
		json_kv_u64(&c->json, "column", m->column);
	json_kv_bytes(&c->json, "text", "text_base64", m->text, strlen(m->text));
	json_kv_u64(&c->json, "text_column", m->text_column);
	json_kv_bool(&c->json, "is_cut", m->is_cut);
	json_kv_bool(&c->json, "is_context", m->is_context);
	json_object_end(&c->json);
	return c->json.error < 0;
}

/* What all searches are asked with. */
struct box_search {
	const char *path, *pattern, *user;
	uint64_t max_count, time_ms;
	int cancel_fd;
	struct cove_box *box; /* owned */
};

static int begin_search(struct api_call *c, struct cove *cove, struct box_search *ret,
			struct err *e)
{
	int r = api_query_u64(c, "max", 0, &ret->max_count, e);

	if (r == 0)
		r = api_query_u64(c, "timeout_ms", 0, &ret->time_ms, e);
	if (r == 0)
		r = api_query(c, "user", &ret->user, e);
	if (r == 0)
		r = api_query(c, "pattern", &ret->pattern, e);
	if (r == 0 && (!ret->pattern || !*ret->pattern))
		r = err_set(e, ERR_INVALID, EINVAL, "the query's 'pattern' is missing");
	if (r == 0)
		r = api_cancel_fd(c, &ret->cancel_fd, e);
	if (r == 0)
		r = api_visit(c, cove, &ret->box, &ret->path, e);
	if (r < 0)
		return r;
	c->is_exact = true;
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "matches");
	json_array_begin(&c->json);
	return 0;
}

/* r is what libcove said. */
static int end_search(struct api_call *c, struct box_search *s, int r,
		      const struct cove_found *found, const struct cove_error *err, struct err *e)
{
	cove_box_free(s->box);
	if (r < 0)
		return api_failed(r, err, e);
	json_array_end(&c->json);
	json_kv_u64(&c->json, "count", found->count);
	json_kv_u64(&c->json, "files", found->files);
	json_kv_u64(&c->json, "left_out", found->left_out);
	json_kv_str(&c->json, "truncated", found->truncated);
	json_object_end(&c->json);
	return 0;
}

static int glob_files(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_glob_options o = {.size = sizeof(o), .on_match = on_name, .arg = c};
	struct box_search s = {0};
	struct cove_found found;
	struct cove_error err;
	int r = api_query_bool(c, "any", &o.any_type, e);

	if (r == 0)
		r = begin_search(c, cove, &s, e);
	if (r < 0)
		return r;
	o.user = s.user;
	o.max_count = s.max_count;
	o.time_ms = s.time_ms;
	o.cancel_fd = s.cancel_fd;
	r = cove_glob(s.box, s.path, s.pattern, &o, &found, &err);
	return end_search(c, &s, r, &found, &err, e);
}

static int grep_files(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_grep_options o = {.size = sizeof(o), .on_match = on_line_found, .arg = c};
	struct box_search s = {0};
	struct cove_found found;
	struct cove_error err;
	int r = api_query_bool(c, "regex", &o.regex, e);

	if (r == 0)
		r = api_query_bool(c, "ignore_case", &o.ignore_case, e);
	if (r == 0)
		r = api_query(c, "glob", &o.glob, e);
	if (r == 0)
		r = api_query_u64(c, "context", 0, &o.context, e);
	if (r == 0)
		r = begin_search(c, cove, &s, e);
	if (r < 0)
		return r;
	o.user = s.user;
	o.max_count = s.max_count;
	o.time_ms = s.time_ms;
	o.cancel_fd = s.cancel_fd;
	r = cove_grep(s.box, s.path, s.pattern, &o, &found, &err);
	return end_search(c, &s, r, &found, &err, e);
}

/* ---- watching ---- */

static int on_change(void *arg, const struct cove_watch_event *event)
{
	static const char *const words[] = {
		[COVE_WATCH_READY] = "ready",	  [COVE_WATCH_CREATED] = "created",
		[COVE_WATCH_WRITTEN] = "written", [COVE_WATCH_REMOVED] = "removed",
		[COVE_WATCH_RENAMED] = "renamed", [COVE_WATCH_CHMOD] = "chmod",
		[COVE_WATCH_LOST] = "lost",	  [COVE_WATCH_UNWATCHED] = "unwatched"};
	struct json j;
	struct buf b;
	int r = -ENOMEM;

	buf_init(&b, API_JSON_MAX);
	json_init(&j, &b);
	json_object_begin(&j);
	json_kv_str(&j, "path", event->path);
	json_kv_str(&j, "to", event->to);
	json_kv_bool(&j, "is_dir", event->is_dir);
	json_object_end(&j);
	if (j.error == 0 && buf_cstr(&b))
		r = api_send_event(*(int *)arg, words[event->kind], NULL, buf_cstr(&b));
	buf_done(&b);
	return r < 0;
}

static int watch_files(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_watch_options o = {.size = sizeof(o), .on_event = on_change};
	struct cove_box *box = NULL;
	struct cove_error err;
	const char *path;
	int fd, r = api_query_bool(c, "recursive", &o.recursive, e);

	if (r == 0)
		r = api_query(c, "user", &o.user, e);
	if (r == 0)
		r = api_cancel_fd(c, &o.stop_fd, e);
	if (r == 0)
		r = api_stream_open(c, &fd, e);
	if (r == 0)
		r = api_visit(c, cove, &box, &path, e);
	if (r < 0)
		return r;
	o.arg = &fd;
	c->type = "text/event-stream";
	r = cove_watch(box, path, &o, &err);
	cove_box_free(box);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

/* clang-format off */
const struct api_route api_tool_routes[] = {
	{"GET", "/v1/boxes/{box}/files/lines", "readLines", KEY_RUN, .work = read_lines,
	 .cancels = true},
	{"POST", "/v1/boxes/{box}/files/edit", "editFile", KEY_RUN, API_BODY_JSON,
	 .work = edit_file, .cancels = true},
	{"GET", "/v1/boxes/{box}/files/glob", "globFiles", KEY_RUN, .work = glob_files,
	 .cancels = true, .lasts = true},
	{"GET", "/v1/boxes/{box}/files/grep", "grepFiles", KEY_RUN, .work = grep_files,
	 .cancels = true, .lasts = true},
	{"GET", "/v1/boxes/{box}/files/watch", "watchFiles", KEY_RUN, .work = watch_files,
	 .streams = true},
	{0}};
/* clang-format on */
