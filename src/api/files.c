/*
 * Files of a box, by its init. Bytes go through pipes, so a file of any size costs no memory here;
 * a directory comes and goes as a tar. All paths are in the query: `path`.
 */
#include "api/handlers.h"

#include "core/core.h"
#include "http/range.h"

#include <errno.h>
#include <unistd.h>

/* A box that does not run is up for this one operation. */
int api_visit(struct api_call *c, struct cove *cove, struct cove_box **ret, const char **ret_path,
	      struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = api_box(c, &name, e);

	if (r == 0)
		r = api_query(c, "path", ret_path, e);
	if (r == 0 && (!*ret_path || !**ret_path))
		r = err_set(e, ERR_INVALID, EINVAL, "the query's 'path' is missing");
	if (r == 0) {
		r = cove_visit(cove, name, ret, &err);
		if (r < 0)
			api_failed(r, &err, e);
	}
	return r;
}

static bool on_progress(void *arg, uint64_t bytes, uint64_t files)
{
	return api_goes_on(arg);
}

/* What could not be read in a directory is said after the rest of it, in trailers: how much, and
 * the first names. None is so long that a client does not take it. */
enum { LEFT_OUT_NAMED = 64, LEFT_OUT_TEXT = 900 };

static void on_skipped(void *arg, const char *path, const char *why)
{
	struct api_call *c = arg;
	struct buf text;

	if (c->left_out++ >= LEFT_OUT_NAMED)
		return;
	buf_init(&text, LEFT_OUT_TEXT);
	if (http_query_add(&text, "path", path) == 0 && http_query_add(&text, "why", why) == 0)
		(void)http_head_add(&c->trailers, "Cove-Left-Out-Name", buf_cstr(&text));
	buf_done(&text);
}

static int say_left_out(struct api_call *c, struct err *e)
{
	char count[24];
	int r = 0;

	snprintf(count, sizeof(count), "%llu", (unsigned long long)c->left_out);
	if (c->left_out)
		r = http_head_add(&c->trailers, "Cove-Left-Out", count);
	return r < 0 ? err_errno(e, -r, "write the answer") : 0;
}

static int how_of(struct api_call *c, struct cove_copy *ret, struct err *e)
{
	*ret = (struct cove_copy){.size = sizeof(*ret), .progress = on_progress, .arg = c};
	return api_query(c, "user", &ret->user, e);
}

static void info_done(struct cove_file_info *i)
{
	free(i->name);
	free(i->target);
}

/* ---- content ---- */

/* What the request wants of a file of a known size. 1: an answer is there, 416. */
static int take_range(struct api_call *c, const struct cove_file_info *info, struct cove_copy *how,
		      struct err *e)
{
	const char *tag =
		api_memory_printf(&c->memory, "\"%llx-%llx\"", (unsigned long long)info->mtime_ns,
				  (unsigned long long)info->size);
	const char *unless = http_head_find(&c->head, "If-Range");
	const char *said = http_head_find(&c->head, "Range"), *stretch;
	uint64_t from = 0, count = 0;
	int r = 0;

	if (!tag)
		return err_errno(e, ENOMEM, "read the request");
	if (http_head_count(&c->head, "Range") == 1 && (!unless || strcmp(unless, tag) == 0))
		r = http_range_parse(said, info->size, &from, &count);
	if (r < 0)
		stretch = api_memory_printf(&c->memory, "bytes */%llu",
					    (unsigned long long)info->size);
	else
		stretch = api_memory_printf(
			&c->memory, "bytes %llu-%llu/%llu", (unsigned long long)from,
			(unsigned long long)(from + count - 1), (unsigned long long)info->size);
	if (!stretch)
		return err_errno(e, ENOMEM, "read the request");
	api_field(c, "Accept-Ranges", "bytes");
	if (r != 0)
		api_field(c, "Content-Range", stretch);
	if (r < 0) {
		struct err none;

		err_set(&none, ERR_INVALID, ERANGE, "the file has %llu bytes",
			(unsigned long long)info->size);
		api_error_with(c, &none, NULL);
		c->status = 416;
		return 1;
	}
	api_field(c, "ETag", tag);
	c->length = r > 0 ? count : info->size;
	c->status = r > 0 ? 206 : 200;
	how->from = from;
	how->bytes = count;
	return 0;
}

/* The size is known before; a file that changes meanwhile is cut, and the client sees that. One of
 * /proc says that it has none, and is as long as it comes. */
static int send_content(struct api_call *c, struct cove_box *box, const char *path,
			struct cove_copy *how, struct err *e)
{
	bool is_head = strcmp(c->method, "HEAD") == 0;
	struct cove_file_info info;
	struct cove_error err;
	int fd, r = core_stat_target(box, path, how->user, &info, e);

	if (r < 0)
		return r;
	if (info.type == 'f' && info.size > 0)
		r = take_range(c, &info, how, e);
	/* To HTTP/1.0 it cannot be said: there it ends the copy. */
	if (info.type == 'd' && c->head.minor > 0) {
		api_field(c, "Trailer", "Cove-Left-Out, Cove-Left-Out-Name");
		how->on_skipped = on_skipped;
	}
	if (r == 0)
		r = api_stream_open(c, &fd, e);
	if (r == 0) {
		c->type = info.type == 'd' ? "application/x-tar" : "application/octet-stream";
		if (!is_head)
			r = cove_get_fd(box, path, fd, how, &err);
		if (r < 0)
			api_failed(r, &err, e);
		else
			r = say_left_out(c, e);
	}
	info_done(&info);
	return r < 0 ? r : 0;
}

static int file_get(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_box *box = NULL;
	struct cove_copy how;
	const char *path;
	int r = how_of(c, &how, e);

	if (r == 0)
		r = api_visit(c, cove, &box, &path, e);
	if (r < 0)
		return r;
	r = send_content(c, box, path, &how, e);
	cove_box_free(box);
	return r;
}

/* NULL: *ret stays what it is. */
static int take_mode(const char *text, unsigned *ret, struct err *e)
{
	return !text || str_parse_octal(text, 07777, ret)
		       ? 0
		       : err_set(e, ERR_INVALID, EINVAL, "'mode' is octal, as \"644\"");
}

static int file_put(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_box *box = NULL;
	struct cove_copy how;
	struct cove_error err;
	const char *path, *mode_text;
	unsigned mode = 0644;
	int r = how_of(c, &how, e);

	if (r == 0)
		r = api_query(c, "mode", &mode_text, e);
	if (r == 0)
		r = take_mode(mode_text, &mode, e);
	if (r == 0)
		r = api_visit(c, cove, &box, &path, e);
	if (r < 0)
		return r;
	r = cove_put_fd(box, c->body_fd, path, mode, &how, &err);
	cove_box_free(box);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "path", path);
	json_kv_u64(&c->json, "left_out", (uint64_t)r);
	json_object_end(&c->json);
	return 0;
}

/* ---- what is there ---- */

static void put_info(struct json *j, const struct cove_file_info *i, const char *name)
{
	static const struct {
		char type;
		const char *word;
	} words[] = {{'f', "file"}, {'d', "directory"}, {'l', "link"}};
	const char *word = "other";

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		if (words[w].type == i->type)
			word = words[w].word;
	json_object_begin(j);
	json_kv_str(j, "name", name);
	json_kv_str(j, "type", word);
	json_kv_u64(j, "size", i->size);
	json_kv_u64(j, "mode", i->mode);
	json_kv_u64(j, "uid", i->uid);
	json_kv_u64(j, "gid", i->gid);
	json_kv_u64(j, "mtime_ns", i->mtime_ns);
	json_kv_str(j, "target", i->target);
	json_object_end(j);
}

static int file_stat(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_file_info info;
	struct cove_box *box = NULL;
	struct cove_error err;
	const char *path;
	int r = api_visit(c, cove, &box, &path, e);

	if (r < 0)
		return r;
	r = cove_stat(box, path, &info, &err);
	cove_box_free(box);
	if (r < 0)
		return api_failed(r, &err, e);
	c->is_exact = true;
	put_info(api_json(c, 200), &info, path);
	info_done(&info);
	return 0;
}

static int file_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_file_info *list = NULL;
	struct cove_box *box = NULL;
	struct cove_error err;
	const char *path;
	int count, r = api_visit(c, cove, &box, &path, e);

	if (r < 0)
		return r;
	count = cove_list_dir(box, path, &list, &err);
	cove_box_free(box);
	if (count < 0)
		return api_failed(count, &err, e);
	c->is_exact = true;
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "entries");
	json_array_begin(&c->json);
	for (int i = 0; i < count; i++)
		put_info(&c->json, &list[i], list[i].name);
	json_array_end(&c->json);
	json_object_end(&c->json);
	cove_file_info_free(list, (size_t)count);
	return 0;
}

/* ---- changes ---- */

struct change_in {
	const char *to;
	const char *mode;
};
static const struct api_in_field change_fields[] = {
	API_IN(change_in, to, STR), API_IN(change_in, mode, STR), {NULL, 0, 0}};

enum change { MAKE_DIR, MOVE, SET_MODE, REMOVE };

static int change(struct api_call *c, struct cove *cove, enum change what, struct err *e)
{
	struct change_in in = {0};
	const struct api_in_table tables[] = {{change_fields, &in}, {NULL, NULL}};
	struct cove_box *box = NULL;
	struct cove_error err;
	const char *path;
	unsigned mode = 0755;
	bool recursive;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = take_mode(in.mode, &mode, e);
	if (r == 0 && ((what == MOVE && !in.to) || (what == SET_MODE && !in.mode)))
		r = err_set(e, ERR_INVALID, EINVAL, "'%s' is missing",
			    what == MOVE ? "to" : "mode");
	if (r == 0)
		r = api_query_bool(c, "recursive", &recursive, e);
	if (r == 0)
		r = api_visit(c, cove, &box, &path, e);
	if (r < 0)
		return r;
	r = what == MAKE_DIR   ? cove_mkdir(box, path, mode, &err)
	    : what == MOVE     ? cove_move(box, path, in.to, &err)
	    : what == SET_MODE ? cove_chmod(box, path, mode, &err)
			       : cove_unlink(box, path, recursive, &err);
	cove_box_free(box);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

static int file_mkdir(struct api_call *c, struct cove *cove, struct err *e)
{
	return change(c, cove, MAKE_DIR, e);
}

static int file_move(struct api_call *c, struct cove *cove, struct err *e)
{
	return change(c, cove, MOVE, e);
}

static int file_chmod(struct api_call *c, struct cove *cove, struct err *e)
{
	return change(c, cove, SET_MODE, e);
}

static int file_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	return change(c, cove, REMOVE, e);
}

/* clang-format off */
const struct api_route api_file_routes[] = {
	{"GET", "/v1/boxes/{box}/files", "readFile", KEY_RUN, .work = file_get, .streams = true,
	 .head = true},
	{"PUT", "/v1/boxes/{box}/files", "writeFile", KEY_RUN, API_BODY_BYTES, .work = file_put},
	{"DELETE", "/v1/boxes/{box}/files", "removeFile", KEY_RUN, .work = file_remove},
	{"GET", "/v1/boxes/{box}/files/stat", "statFile", KEY_RUN, .work = file_stat},
	{"GET", "/v1/boxes/{box}/files/list", "listFiles", KEY_RUN, .work = file_list},
	{"POST", "/v1/boxes/{box}/files/mkdir", "makeDirectory", KEY_RUN, API_BODY_JSON,
	 .work = file_mkdir},
	{"POST", "/v1/boxes/{box}/files/move", "moveFile", KEY_RUN, API_BODY_JSON,
	 .work = file_move},
	{"POST", "/v1/boxes/{box}/files/chmod", "setFileMode", KEY_RUN, API_BODY_JSON,
	 .work = file_chmod},
	{0}};
/* clang-format on */
