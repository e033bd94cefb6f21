/*
 * Builds: an image from a Dockerfile. What it is built of comes as
 *
 *	multipart/form-data	parts `options` (JSON), `context` (a tar), `secret.ID` (its value)
 *	application/json	the options, `text` (the Dockerfile) among them: without a context
 *	anything else		the context; the options are in the query
 *
 * The context is unpacked by libcove where nothing else is, and goes with the call; a client that
 * goes away ends the build.
 */
#include "api/form.h"
#include "api/handlers.h"
#include "api/quota.h"

#include "base/fd.h"
#include "base/limits_build.h"
#include "core/core.h"

#include <errno.h>
#include <unistd.h>

enum { OUTPUT_KEPT = 64 << 10, OUTPUT_EVENT_MAX = 1 << 20 };

struct build_in {
	struct cove_build_options o;
	const char *const *names; /* the first is what it is built as */
};
#define BO(name, kind)                                                  \
	{                                                               \
#name, API_IN_##kind, offsetof(struct build_in, o.name) \
	}
#define BO_AS(key, name, kind)                                        \
	{                                                             \
		key, API_IN_##kind, offsetof(struct build_in, o.name) \
	}
/* clang-format off */
static const struct api_in_field build_fields[] = {
	API_IN(build_in, names, LIST), BO(name, STR), BO_AS("dockerfile", file, STR), BO(text, STR),
	BO(args, PAIRS), BO(target, STR), BO(no_cache, BOOL), BO(platform, STR), BO(net, STR),
	BO(wall, STR), BO_AS("mem", mem_bytes, SIZE), BO_AS("cpus", cpu_milli, MILLI),
	BO(pids, U64), BO_AS("disk", disk_bytes, SIZE), BO_AS("timeout", timeout_ms, MS),
	BO(best_effort, BOOL), {NULL, 0, 0}};
/* clang-format on */

struct building {
	struct api_progress p;
	struct api_form form;
	struct build_in in;
	struct buf output; /* the end of what the step printed, for an answer without events */
	const char *names[API_PARTS_MAX + 1];
};

/* ---- what it is ---- */

/* The query's options, as the JSON that they stand for. */
static int query_options(struct api_call *c, json_t **ret, struct err *e)
{
	static const char *const texts[] = {"name", "dockerfile", "target", "platform", "net",
					    "wall", "mem",	  "cpus",   "disk",	"timeout"};
	json_t *o = json_object(), *args = NULL;
	const char *value;
	bool no_cache;
	int r = o ? api_query_bool(c, "no_cache", &no_cache, e)
		  : err_errno(e, ENOMEM, "read the request");

	for (size_t i = 0; r == 0 && i < sizeof(texts) / sizeof(texts[0]); i++) {
		r = api_query(c, texts[i], &value, e);
		if (r == 0 && value && json_object_set_new(o, texts[i], json_string(value)) < 0)
			r = err_set(e, ERR_INVALID, EINVAL, "the query's '%s' is no text",
				    texts[i]);
	}
	if (r == 0 && no_cache)
		json_object_set_new(o, "no_cache", json_true());
	if (r == 0)
		r = api_query(c, "args", &value, e);
	if (r == 0 && value)
		r = api_in_parse(value, strlen(value), &args, e);
	if (args)
		json_object_set_new(o, "args", args);
	json_decref(c->body);
	c->body = o;
	*ret = o;
	return r;
}

/* Secrets are given as files of this process, which are none. */
static int take_secrets(struct api_call *c, struct building *b, struct err *e)
{
	const char **list = api_memory_get(&c->memory, (b->form.count + 1) * sizeof(*list));
	size_t n = 0;

	if (!list)
		return err_errno(e, ENOMEM, "read the request");
	for (size_t i = 0; i < b->form.count; i++) {
		const struct api_part *p = &b->form.parts[i];
		const char *id = p->name + strlen(API_PART_SECRET);

		if (!p->is_secret)
			continue;
		if (strchr(id, ',') || strchr(id, '='))
			return err_set(e, ERR_INVALID, EINVAL, "'%.60s' is no name of a secret",
				       p->name);
		if (lseek(p->fd, 0, SEEK_SET) < 0)
			return err_errno(e, errno, "read a secret");
		list[n] = api_memory_printf(&c->memory, "id=%s,src=/proc/self/fd/%d", id, p->fd);
		if (!list[n++])
			return err_errno(e, ENOMEM, "read the request");
	}
	b->in.o.secrets = list;
	return 0;
}

static int take_form(struct api_call *c, struct cove *cove, struct building *b, json_t **ret,
		     struct err *e)
{
	const struct api_part *context;
	int r = api_form_read(c, cove, BUILD_CONTEXT_BYTES_MAX, &b->form, e);

	if (r == 0)
		r = api_part_json(c, api_form_find(&b->form, "options"), ret, e);
	if (r == 0)
		r = take_secrets(c, b, e);
	if (r < 0)
		return r;
	context = api_form_find(&b->form, "context");
	if (context && lseek(context->fd, 0, SEEK_SET) < 0)
		return err_errno(e, errno, "read the context");
	b->in.o.context_fd = context ? context->fd : 0;
	return 0;
}

static int take_body(struct api_call *c, struct cove *cove, struct building *b, struct err *e)
{
	const struct api_in_table tables[] = {{build_fields, &b->in}, {NULL, NULL}};
	json_t *options = NULL;
	int r;

	if (api_body_is(c, "multipart/form-data")) {
		r = take_form(c, cove, b, &options, e);
	} else if (api_body_is(c, "application/json")) {
		r = api_body_json(c, API_JSON_MAX, &options, e);
	} else {
		r = query_options(c, &options, e);
		b->in.o.context_fd = c->body_fd;
	}
	if (r == 0)
		r = api_in_take(&c->memory, options, tables, e);
	if (r == 0 && !b->in.o.context_fd && !b->in.o.text)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "there is neither a context nor a 'text' of a Dockerfile");
	if (r == 0 && !b->in.o.context_fd && b->in.o.file)
		r = err_set(e, ERR_INVALID, EINVAL, "'dockerfile' is a file of a context");
	return r;
}

/* All names that it gets, on this machine. */
static int take_names(struct api_call *c, struct building *b, struct err *e)
{
	const char *const *more = b->in.names;
	size_t n = 0;
	int r = 0;

	if (b->in.o.name)
		r = api_own_image(c, b->in.o.name, &b->names[n++], e);
	for (; r == 0 && more && *more; more++) {
		if (n == API_PARTS_MAX)
			return err_set(e, ERR_LIMIT, E2BIG, "an image has too many 'names'");
		r = api_own_image(c, *more, &b->names[n++], e);
	}
	if (r == 0 && n == 0 && !c->who.is_operator)
		r = err_set(e, ERR_INVALID, EINVAL, "the image's 'name' is missing");
	b->in.o.name = b->names[0];
	return r;
}

/* Each RUN is a box of the caller's, and no more than a box may be. */
static int take_limits(struct api_call *c, struct cove *cove, struct building *b, struct err *e)
{
	struct build_in *in = &b->in;
	struct cove_box_options box = {.size = sizeof(box),
				       .mem_bytes = in->o.mem_bytes,
				       .cpu_milli = in->o.cpu_milli,
				       .pids = in->o.pids,
				       .disk_bytes = in->o.disk_bytes,
				       .best_effort = in->o.best_effort,
				       .net = in->o.net,
				       .wall = in->o.wall};
	int r = api_box_options_check(c, cove, &box, e);

	if (r < 0)
		return r;
	in->o.wall = box.wall;
	in->o.owner = box.owner;
	return api_quota_hold_build(c, cove, &box, b->names, e);
}

/* ---- how it goes ---- */

static void keep_output(struct building *b, const struct cove_build_event *ev)
{
	const char *data = ev->data;
	size_t len = ev->len;

	if (len > OUTPUT_KEPT) {
		data += len - OUTPUT_KEPT;
		len = OUTPUT_KEPT;
	}
	if (buf_len(&b->output) + len > OUTPUT_KEPT)
		buf_consume(&b->output, buf_len(&b->output) + len - OUTPUT_KEPT);
	(void)buf_append(&b->output, data, len);
}

static void on_build(void *arg, const struct cove_build_event *ev)
{
	static const char *const words[] = {
		[COVE_BUILD_STEP] = "step",  [COVE_BUILD_CACHED] = "cached",
		[COVE_BUILD_OUT] = "stdout", [COVE_BUILD_ERR] = "stderr",
		[COVE_BUILD_DONE] = "done",  [COVE_BUILD_NOTE] = "note"};
	struct building *b = arg;
	struct json *j;

	if (ev->type == COVE_BUILD_STEP)
		buf_clear(&b->output);
	if (ev->type == COVE_BUILD_OUT || ev->type == COVE_BUILD_ERR)
		keep_output(b, ev);
	j = api_progress_json(&b->p);
	json_object_begin(j);
	json_kv_u64(j, "step", ev->step);
	json_kv_u64(j, "steps", ev->steps);
	if (ev->line)
		json_kv_u64(j, "line", ev->line);
	if (ev->stage)
		json_kv_str(j, "stage", ev->stage);
	if (ev->data)
		api_put_output(j, ev->data, ev->len);
	else if (ev->text)
		json_kv_str(j, "text", ev->text);
	if (ev->type == COVE_BUILD_DONE)
		json_kv_u64(j, "duration_ms", ev->duration_ms);
	json_object_end(j);
	/* A client that has gone is seen by cancel_fd. */
	(void)api_progress_tell(&b->p, words[ev->type]);
}

static void put_built(struct json *j, const struct building *b,
		      const struct cove_build_result *result)
{
	json_object_begin(j);
	json_kv_str(j, "name", result->name);
	json_key(j, "names");
	json_array_begin(j);
	json_str(j, result->name);
	for (size_t i = 1; b->names[0] && b->names[i]; i++)
		json_str(j, b->names[i]);
	json_array_end(j);
	json_kv_str(j, "id", result->id);
	json_kv_u64(j, "steps", result->steps);
	json_kv_u64(j, "cached", result->cached);
	json_kv_u64(j, "bytes", result->bytes);
	json_object_end(j);
}

static int tag_more(struct cove *cove, const struct building *b, struct cove_error *err)
{
	int r = 0;

	for (size_t i = 1; r == 0 && b->names[0] && b->names[i]; i++)
		r = cove_image_tag(cove, b->names[0], b->names[i], err);
	return r;
}

/* Without events what the step printed is with the error: it says what is wrong. */
static int failed_with_output(struct api_call *c, struct building *b, int r, struct err *e)
{
	struct buf details;
	struct json j;

	if (b->p.fd >= 0 || buf_len(&b->output) == 0)
		return r;
	buf_init(&details, OUTPUT_EVENT_MAX);
	json_init(&j, &details);
	json_object_begin(&j);
	json_key(&j, "output");
	json_object_begin(&j);
	api_put_output(&j, buf_data(&b->output), buf_len(&b->output));
	json_object_end(&j);
	json_object_end(&j);
	if (j.error == 0 && buf_cstr(&details))
		r = api_error_with(c, e, buf_cstr(&details));
	buf_done(&details);
	return r;
}

static int run_build(struct api_call *c, struct cove *cove, struct building *b, struct err *e)
{
	struct cove_build_result result = {0};
	struct cove_error err;
	int r = api_progress_begin(c, &b->p, e);

	if (r < 0)
		return r;
	b->in.o.size = sizeof(b->in.o);
	b->in.o.cancel_fd = b->p.cancel_fd;
	b->in.o.on_event = on_build;
	b->in.o.arg = b;
	buf_init(&b->output, 2 * OUTPUT_KEPT);
	r = cove_image_build(cove, &b->in.o, &result, &err);
	if (r >= 0)
		r = tag_more(cove, b, &err);
	if (r < 0)
		api_failed(r, &err, e);
	else
		put_built(api_progress_json(&b->p), b, &result);
	r = api_progress_end(&b->p, 201, r, e);
	if (r < 0)
		r = failed_with_output(c, b, r, e);
	buf_done(&b->output);
	return r;
}

static int build_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct building *b = api_memory_get(&c->memory, sizeof(*b));
	int r = b ? take_body(c, cove, b, e) : err_errno(e, ENOMEM, "begin a build");

	if (r == 0)
		r = take_names(c, b, e);
	if (r == 0)
		r = take_limits(c, cove, b, e);
	if (r == 0) {
		r = run_build(c, cove, b, e);
		api_quota_release(c);
	}
	if (b)
		api_form_done(&b->form);
	return r;
}

/* clang-format off */
const struct api_route api_build_routes[] = {
	{"POST", "/v1/builds", "buildImage", KEY_IMAGES, API_BODY_BYTES, .work = build_image,
	 .streams = true, .secret = true},
	{0}};
/* clang-format on */
