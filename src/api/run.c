/*
 * A command in a fresh, one-time box, with files both ways, in one call. What it brings along comes
 * in the JSON, or as parts of a form; what it left goes back in the JSON, or as parts. Of the box
 * nothing is left, and a client that goes away ends it.
 */
#include "api/form.h"
#include "api/handlers.h"
#include "api/quota.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/rand.h"
#include "core/admission.h"
#include "core/core.h"
#include "core/result.h"
#include "http/multipart.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUN_JSON_MAX = 64 << 20, RUN_OUT_JSON_MAX = 24 << 20, POLL_MS = 500 };
#define RUN_BYTES_MAX ((uint64_t)4 << 30) /* of all inputs, and of all outputs */

struct run_in {
	struct cove_box_options box;
	json_t *command, *in;
	const char *const *out;
};
static const struct api_in_field run_fields[] = {API_IN(run_in, command, JSON),
						 API_IN(run_in, in, JSON),
						 API_IN(run_in, out, LIST),
						 {NULL, 0, 0}};

struct input_in {
	const char *to, *text, *base64;
};
static const struct api_in_field input_fields[] = {API_IN(input_in, to, STR),
						   API_IN(input_in, text, STR),
						   API_IN(input_in, base64, STR),
						   {NULL, 0, 0}};

struct run_call {
	struct api_call *c;
	struct run_in in;
	struct api_command command;
	struct api_form form;
	struct cove_transfer inputs[TRANSFERS_MAX], outputs[TRANSFERS_MAX];
	char types[TRANSFERS_MAX]; /* of outputs: 'f', 'd', 0 */
	struct cove_files files;
	struct cove_copy how;
	struct cove *cove;
	uint64_t in_bytes; /* of those in the JSON */
	bool is_too_large; /* outputs are more than is taken, or than the disk has room for */
};

/* ---- what comes ---- */

static int add_input(struct run_call *run, const char *to, int fd, struct err *e)
{
	struct cove_transfer *t = &run->inputs[run->files.input_count];

	if (run->files.input_count == TRANSFERS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "at most %u inputs go with a command",
			       TRANSFERS_MAX);
	*t = (struct cove_transfer){.size = sizeof(*t), .to = to, .fd = fd};
	run->files.input_count++;
	return lseek(fd, 0, SEEK_SET) < 0 ? err_errno(e, errno, "read an input") : 0;
}

static int take_input(struct run_call *run, struct cove *cove, json_t *object, struct err *e)
{
	struct input_in in = {0};
	const struct api_in_table tables[] = {{input_fields, &in}, {NULL, NULL}};
	struct api_memory *m = &run->c->memory;
	const void *data = "";
	ssize_t len = 0;
	int fd, r = api_in_take(m, object, tables, e);

	if (r == 0 && (!in.to || !in.text == !in.base64))
		r = err_set(e, ERR_INVALID, EINVAL,
			    "an input is {\"to\", and \"text\" or \"base64\"}");
	if (r < 0)
		return r;
	if (in.text) {
		data = in.text;
		len = (ssize_t)strlen(in.text);
	} else {
		size_t n = strlen(in.base64);
		void *bytes = api_memory_get(m, n / 4 * 3 + 3);

		if (!bytes)
			return err_errno(e, ENOMEM, "read the request");
		data = bytes;
		len = base64_decode(in.base64, n, bytes);
	}
	if (len < 0)
		return err_set(e, ERR_INVALID, EINVAL, "an input's 'base64' is not base64");
	fd = api_spool_open(cove, false, e);
	if (fd < 0)
		return fd;
	/* The form's parts are where all these are closed. */
	run->form.parts[run->form.count++] = (struct api_part){.name = "in", .fd = fd};
	run->in_bytes += (uint64_t)len;
	if (run->in_bytes > api_spool_max(run->c, RUN_BYTES_MAX))
		return err_set(e, ERR_LIMIT, EMSGSIZE,
			       "the inputs are larger than the key's quota of disk");
	r = core_disk_check(cove, e);
	if (r < 0)
		return r;
	r = fd_write_full(fd, data, (size_t)len);
	return r < 0 ? err_errno(e, -r, "keep an input") : add_input(run, in.to, fd, e);
}

static int take_form(struct run_call *run, struct cove *cove, json_t **ret, struct err *e)
{
	int r = api_form_read(run->c, cove, RUN_BYTES_MAX, &run->form, e);

	if (r == 0)
		r = api_part_json(run->c, api_form_find(&run->form, "run"), ret, e);
	for (size_t i = 0; r == 0 && i < run->form.count; i++) {
		struct api_part *p = &run->form.parts[i];

		if (strcmp(p->name, "run") == 0)
			continue;
		if (strcmp(p->name, "in") != 0 || !p->filename || !*p->filename)
			return err_set(e, ERR_INVALID, EINVAL,
				       "the form's parts are 'run' and 'in', whose filename says "
				       "where it goes in the box, not '%.60s'",
				       p->name);
		r = add_input(run, p->filename, p->fd, e);
	}
	return r;
}

static int take_request(struct run_call *run, struct cove *cove, struct err *e)
{
	const struct api_in_table tables[] = {
		{api_box_fields, &run->in.box}, {run_fields, &run->in}, {NULL, NULL}};
	json_t *object = NULL;
	bool is_form = api_body_is(run->c, "multipart/form-data");
	int r = is_form ? take_form(run, cove, &object, e)
			: api_body_json(run->c, RUN_JSON_MAX, &object, e);

	if (r == 0)
		r = api_in_take(&run->c->memory, object, tables, e);
	if (r == 0 && !run->in.command)
		r = err_set(e, ERR_INVALID, EINVAL, "'command' is missing");
	if (r == 0 && run->in.box.name)
		r = err_set(e, ERR_INVALID, EINVAL, "a one-time box has no 'name' of yours");
	if (r == 0)
		r = api_command_take(run->c, run->in.command, &run->command, e);
	if (r == 0 && (run->command.c.background || run->command.c.pty ||
		       run->command.c.stream_input || run->command.c.shell))
		r = err_set(e, ERR_INVALID, EINVAL,
			    "a one-time box's command has no background, pty, stream_input, shell");
	if (r == 0 && run->in.in && !json_is_array(run->in.in))
		r = err_set(e, ERR_INVALID, EINVAL, "'in' is a list");
	if (r == 0 && json_array_size(run->in.in) > TRANSFERS_MAX)
		r = err_set(e, ERR_LIMIT, E2BIG, "at most %u inputs go with a command",
			    TRANSFERS_MAX);
	for (size_t i = 0; r == 0 && i < json_array_size(run->in.in); i++)
		r = run->form.count == API_PARTS_MAX
			    ? err_set(e, ERR_LIMIT, E2BIG, "too many inputs")
			    : take_input(run, cove, json_array_get(run->in.in, i), e);
	return r;
}

static int open_outputs(struct run_call *run, struct cove *cove, struct err *e)
{
	for (const char *const *p = run->in.out; p && *p; p++) {
		struct cove_transfer *t = &run->outputs[run->files.output_count];
		int fd;

		if (run->files.output_count == TRANSFERS_MAX)
			return err_set(e, ERR_LIMIT, E2BIG, "at most %u outputs go with a command",
				       TRANSFERS_MAX);
		fd = api_spool_open(cove, false, e);
		if (fd < 0)
			return fd;
		*t = (struct cove_transfer){.size = sizeof(*t), .from = *p, .fd = fd};
		run->files.output_count++;
	}
	return 0;
}

/* ---- the command ---- */

static bool on_copied(void *arg, uint64_t bytes, uint64_t files)
{
	struct run_call *run = arg;

	run->is_too_large = bytes > api_spool_max(run->c, RUN_BYTES_MAX) ||
			    (bytes > 0 && core_disk_check(run->cove, NULL) < 0);
	return !run->is_too_large && api_goes_on(run->c);
}

static int run_command(struct run_call *run, struct cove_box *box, struct cove_result *ret,
		       struct err *e)
{
	struct cove_exec *x = NULL;
	struct cove_event ev;
	struct cove_error err;
	struct collect got;
	bool ended = false;
	int r = cove_exec_start(box, &run->command.c, &x, &err);

	if (run->command.max_output)
		collect_init_ends(&got, (size_t)run->command.max_output);
	else
		collect_init(&got, 1 << 20);
	while (r >= 0 && !ended) {
		r = cove_exec_next(x, POLL_MS, &ev, &err);
		if (r >= 0 && !api_goes_on(run->c)) {
			r = err_set(e, ERR_INTERRUPTED, ECANCELED, "the client has gone");
			break;
		}
		if (r <= 0) {
			if (r < 0)
				api_failed(r, &err, e);
			continue;
		}
		ended = ev.type == COVE_EVENT_EXIT;
		if (ev.type == COVE_EVENT_OUT || ev.type == COVE_EVENT_ERR)
			(void)collect_add(&got, ev.type == COVE_EVENT_ERR, ev.data, ev.len);
		else if (ended && result_collected(&ev.result, &got, ret) < 0)
			r = err_errno(e, ENOMEM, "keep the command's result");
	}
	if (r < 0 && !x)
		api_failed(r, &err, e);
	collect_done(&got);
	cove_exec_free(x);
	return r < 0 ? r : 0;
}

/* A directory comes as a tar, and that is to be said. */
static void find_types(struct run_call *run, struct cove_box *box)
{
	for (size_t i = 0; i < run->files.output_count; i++) {
		const char *path = run->outputs[i].from;
		struct cove_file_info info;
		char full[BOX_PATH_MAX];

		if (run->files.cwd && path[0] != '/' && path[0] != '~') {
			if (!path_join(full, sizeof(full), run->files.cwd, path))
				continue;
			path = full;
		}
		if (cove_stat(box, path, &info, NULL) < 0)
			continue;
		run->types[i] = info.type;
		free(info.name);
		free(info.target);
	}
}

static int run_in_box(struct run_call *run, struct cove *cove, struct cove_result *ret,
		      struct err *e)
{
	struct cove_box *box = NULL;
	struct cove_error err;
	int r = api_quota_hold(run->c, cove, &run->in.box, e);

	if (r < 0)
		return r;
	r = cove_create(cove, &run->in.box, &box, &err);
	if (r >= 0)
		r = cove_put_files(box, &run->files, &err);
	api_quota_release(run->c);
	if (r < 0)
		api_failed(r, &err, e);
	else
		r = run_command(run, box, ret, e);
	if (r == 0 && run->files.output_count) {
		find_types(run, box);
		if (cove_get_files(box, &run->files, &err) < 0)
			r = api_failed(-err.code, &err, e);
	}
	cove_box_free(box);
	return r;
}

/* ---- what goes back ---- */

static const char *type_word(char type)
{
	return type == 'd' ? "directory" : type ? "file" : NULL;
}

static bool came_whole(const struct cove_transfer *t)
{
	return t->error.kind == COVE_OK;
}

static uint64_t size_of(const struct cove_transfer *t)
{
	struct stat st;

	return fstat(t->fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

/* All of a small file. */
static int put_content(struct json *j, const struct cove_transfer *t, uint64_t size)
{
	autofree char *data = malloc((size_t)size + 1);
	ssize_t n = data ? pread(t->fd, data, (size_t)size, 0) : -1;

	if (n < 0)
		return -ENOMEM;
	json_key(j, "base64");
	json_base64(j, data, (size_t)n);
	return 0;
}

static int put_output(struct run_call *run, struct json *j, size_t i, bool with_content,
		      uint64_t *left)
{
	const struct cove_transfer *t = &run->outputs[i];
	uint64_t size = size_of(t);
	bool fits = size <= *left;
	int r = 0;

	json_object_begin(j);
	json_kv_str(j, "from", t->from);
	json_kv_str(j, "type", type_word(run->types[i]));
	json_kv_u64(j, "bytes", size);
	if (with_content && fits && (came_whole(t) || size > 0)) {
		*left -= size;
		r = put_content(j, t, size);
	}
	if (!came_whole(t) || (with_content && !fits)) {
		json_key(j, "error");
		json_object_begin(j);
		json_kv_str(j, "code",
			    came_whole(t) ? "too_large" : cove_error_name(t->error.kind));
		json_kv_str(
			j, "message",
			came_whole(t) ? "it is too long for JSON: ask for Accept: "
					"multipart/form-data"
			: run->is_too_large
				? "the outputs are more than is taken, or than there is room for"
				: t->error.message);
		json_object_end(j);
	}
	json_object_end(j);
	return r;
}

static int put_answer(struct run_call *run, struct json *j, const struct cove_result *result,
		      bool with_content, struct err *e)
{
	uint64_t left = RUN_OUT_JSON_MAX;
	char *text = cove_result_json(result);
	int r = text ? 0 : -ENOMEM;

	json_object_begin(j);
	json_key(j, "result");
	json_raw(j, text ? text : "null");
	json_key(j, "outputs");
	json_array_begin(j);
	for (size_t i = 0; r == 0 && i < run->files.output_count; i++)
		r = put_output(run, j, i, with_content, &left);
	json_array_end(j);
	json_object_end(j);
	free(text);
	return r < 0 || j->error < 0 ? err_errno(e, ENOMEM, "write the answer") : 0;
}

/* What is in b goes out. */
static int send_text(int to, struct buf *b, struct err *e)
{
	int r = fd_write_full(to, buf_data(b), buf_len(b));

	buf_clear(b);
	return r < 0 ? err_errno(e, -r, "send an output") : 0;
}

/* What is in b goes out, and the file after it. */
static int send_part(int to, struct buf *b, const char *boundary, const struct multipart_part *part,
		     int fd, struct err *e)
{
	int r = multipart_part_write(b, boundary, part);

	r = r < 0 ? err_errno(e, -r, "write the answer") : send_text(to, b, e);
	if (r == 0)
		r = api_spool_copy(fd, to, e);
	if (r == 0 && (r = multipart_part_end_write(b)) < 0)
		err_errno(e, -r, "write the answer");
	return r;
}

static int send_form(struct run_call *run, const struct cove_result *result, struct err *e)
{
	struct api_call *c = run->c;
	char token[33], boundary[48];
	struct buf b;
	struct json j;
	int to = -1, r;

	rand_hex(token, 16);
	snprintf(boundary, sizeof(boundary), "cove-%s", token);
	c->type = api_memory_printf(&c->memory, "multipart/form-data; boundary=%s", boundary);
	buf_init(&b, RUN_JSON_MAX);
	r = c->type ? multipart_part_write(
			      &b, boundary,
			      &(struct multipart_part){.name = "result",
						       .content_type = "application/json"})
		    : -ENOMEM;
	json_init(&j, &b);
	r = r < 0 ? err_errno(e, -r, "write the answer") : put_answer(run, &j, result, false, e);
	if (r == 0)
		r = api_stream_open(c, &to, e);
	if (r == 0 && (r = multipart_part_end_write(&b)) < 0)
		err_errno(e, -r, "write the answer");
	for (size_t i = 0; r == 0 && i < run->files.output_count; i++) {
		const struct cove_transfer *t = &run->outputs[i];
		const struct multipart_part part = {
			.name = "out",
			.filename = t->from,
			.content_type = run->types[i] == 'd' ? "application/x-tar"
							     : "application/octet-stream"};

		if (came_whole(t) || size_of(t) > 0)
			r = send_part(to, &b, boundary, &part, t->fd, e);
	}
	if (r == 0 && (r = multipart_end_write(&b, boundary)) < 0)
		err_errno(e, -r, "write the answer");
	if (r == 0)
		r = send_text(to, &b, e);
	buf_done(&b);
	return r;
}

static int answer(struct run_call *run, const struct cove_result *result, struct err *e)
{
	run->c->is_exact = true;
	if (http_head_has_token(&run->c->head, "Accept", "multipart/form-data"))
		return send_form(run, result, e);
	return put_answer(run, api_json(run->c, 200), result, true, e);
}

static int run_once(struct api_call *c, struct cove *cove, struct err *e)
{
	struct run_call *run = api_memory_get(&c->memory, sizeof(*run));
	struct cove_result result = {0};
	int r;

	if (!run)
		return err_errno(e, ENOMEM, "begin a command");
	run->c = c;
	run->cove = cove;
	r = take_request(run, cove, e);
	if (r == 0)
		r = open_outputs(run, cove, e);
	if (r == 0)
		r = api_box_options_check(c, cove, &run->in.box, e);
	if (r == 0) {
		run->in.box.one_shot = true;
		run->how = (struct cove_copy){.size = sizeof(run->how),
					      .user = run->command.c.user,
					      .progress = on_copied,
					      .arg = run};
		run->files.size = sizeof(run->files);
		run->files.inputs = run->inputs;
		run->files.outputs = run->outputs;
		run->files.cwd = run->command.c.cwd;
		run->files.how = &run->how;
		r = run_in_box(run, cove, &result, e);
	}
	if (r == 0)
		r = answer(run, &result, e);
	cove_result_free(&result);
	for (size_t i = 0; i < run->files.output_count; i++)
		fd_close(&run->outputs[i].fd);
	api_form_done(&run->form);
	return r;
}

/* clang-format off */
const struct api_route api_run_routes[] = {
	{"POST", "/v1/run", "run", KEY_RUN, API_BODY_BYTES, RUN_JSON_MAX,
	 .work = run_once, .streams = true},
	{0}};
/* clang-format on */
