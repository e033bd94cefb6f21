/* Boxes: making, listing, their life. */
#include "api/gather.h"
#include "api/handlers.h"
#include "api/quota.h"

#include "base/sha.h"
#include "core/core.h"
#include "core/view.h"

#include <errno.h>

/* What is said of a box without asking its keeper. */
int api_put_box(struct api_call *c, struct cove *cove, const char *name, struct err *e)
{
	struct json *j = &c->json;
	struct record record;
	const char *shown = name, *workspace = NULL;
	int r = record_load(&cove->state, name, &record, e);

	if (r < 0)
		return r;
	api_name_shown(c, KEY_OF_BOX, name, &shown);
	json_kv_str(j, "name", shown);
	json_kv_str(j, "state", record.paused ? "paused" : box_state_name(record.state));
	json_kv_str(j, "image", record.spec.image);
	json_kv_str(j, "wall", record.spec.wall);
	if (record.spec.workspace)
		api_name_shown(c, KEY_OF_WORKSPACE, record.spec.workspace, &workspace);
	json_kv_str(j, "workspace", workspace);
	json_kv_u64(j, "created_ms", record.spec.created_ms);
	core_put_labels(j, &record.spec);
	record_done(&record);
	return 0;
}

/* ---- create ---- */

struct create_in {
	struct cove_box_options box;
	json_t *command;
	uint64_t admission_wait_ms;
};

static const struct api_in_field create_fields[] = {
	API_IN(create_in, command, JSON),
	API_IN_AS(create_in, "admission_wait", admission_wait_ms, MS),
	{NULL, 0, 0}};

/*
 * A request with an Idempotency-Key makes one box however often it comes. Where the caller named
 * none its name is made of that key, and a label keeps what was asked for (repeats.c).
 */
static int take_idempotency(struct api_call *c, struct create_in *in, const char **ret_label,
			    struct err *e)
{
	const char *key = http_head_find(&c->head, "Idempotency-Key");
	const char **labels, *label;
	char *text, hex[65];
	size_t n = 0;

	*ret_label = NULL;
	if (!key)
		return 0;
	if (strlen(key) < 1 || strlen(key) > 255)
		return err_set(e, ERR_INVALID, EINVAL, "an Idempotency-Key has 1 to 255 bytes");
	if (!in->box.name) {
		sha256_hex(key, strlen(key), hex);
		in->box.name = api_memory_printf(&c->memory, "i-%.24s", hex);
		if (!in->box.name)
			return err_errno(e, ENOMEM, "read the request");
	}
	text = c->body ? json_dumps(c->body, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
	label = api_repeat_label(c, key, text ? text : "", e);
	free(text);
	if (!label)
		return -ENOMEM;
	while (in->box.labels && in->box.labels[n])
		n++;
	labels = api_memory_get(&c->memory, (n + 2) * sizeof(*labels));
	if (!labels)
		return err_errno(e, ENOMEM, "read the request");
	for (size_t i = 0; i < n; i++)
		labels[i] = in->box.labels[i];
	labels[n] = label;
	in->box.labels = labels;
	*ret_label = label;
	return 0;
}

/* 200 and no box: it is there, made by this very request before. */
static int make_box(struct api_call *c, struct cove *cove, const struct cove_box_options *o,
		    const char *label, struct cove_box **ret, struct err *e)
{
	struct cove_error err;
	int r = api_quota_hold(c, cove, o, e);

	if (r < 0)
		return r;
	r = cove_create(cove, o, ret, &err);
	api_quota_release(c);
	if (r >= 0) {
		str_copy(c->made, sizeof(c->made), cove_box_name(*ret));
		api_gather_hint(c->api, cove, c->made);
	}
	c->status = 201;
	if (r != -EEXIST || !label)
		return r < 0 ? api_failed(r, &err, e) : 0;
	c->status = 200;
	return api_repeat_made(cove, o->name, label) ? 0 : api_repeat_conflict(e);
}

static int run_first(struct api_call *c, struct cove_box *box, const struct api_command *cmd,
		     struct err *e)
{
	struct cove_result result;
	struct cove_error err;
	char *text;
	int r = cove_run(box, &cmd->c, &result, &err);

	if (r < 0)
		return api_failed(r, &err, e);
	text = cove_result_json(&result);
	cove_result_free(&result);
	json_key(&c->json, "result");
	if (!text)
		return err_errno(e, ENOMEM, "write the answer");
	json_raw(&c->json, text);
	free(text);
	return 0;
}

static int box_create(struct api_call *c, struct cove *cove, struct err *e)
{
	struct create_in in = {.box.size = sizeof(in.box), .admission_wait_ms = API_WAIT_DEFAULT};
	const struct api_in_table tables[] = {
		{api_box_fields, &in.box}, {create_fields, &in}, {NULL, NULL}};
	struct api_command cmd;
	struct cove_box *box = NULL;
	const char *label = NULL;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && in.command)
		r = api_command_take(c, in.command, &cmd, e);
	if (r == 0)
		r = api_patience(c, cove, in.admission_wait_ms, e);
	if (r == 0)
		r = take_idempotency(c, &in, &label, e);
	if (r == 0)
		r = api_box_options_check(c, cove, &in.box, e);
	if (r < 0)
		return r;
	in.box.runs_soon = in.command;
	r = label ? api_repeat_begin(c, cove, label, in.box.name, e) : 0;
	if (r < 0)
		return r;
	r = make_box(c, cove, &in.box, label, &box, e);
	if (label)
		api_repeat_end(c, label, in.box.name);
	if (r < 0)
		return r;
	json_object_begin(&c->json);
	r = api_put_box(c, cove, box ? cove_box_name(box) : in.box.name, e);
	if (r == 0 && in.command && box) {
		c->is_exact = true;
		r = run_first(c, box, &cmd, e);
	}
	json_object_end(&c->json);
	/* Who asked does not know its name: without it the box would be left behind. */
	if (r < 0 && box && !in.box.name)
		cove_remove(cove, cove_box_name(box), true, NULL);
	cove_box_free(box);
	return r;
}

/* ---- list ---- */

static bool has_label(struct cove *cove, const char *name, const char *label)
{
	struct record record;
	bool has = false;

	if (record_load(&cove->state, name, &record, NULL) < 0)
		return false;
	for (size_t i = 0; i < record.spec.label_count; i++) {
		size_t n = strlen(label);

		has = has || strcmp(record.spec.labels[i], label) == 0 ||
		      (!strchr(label, '=') && strncmp(record.spec.labels[i], label, n) == 0 &&
		       record.spec.labels[i][n] == '=');
	}
	record_done(&record);
	return has;
}

/* In the order of names; `after` is the last one of the page before. */
static int box_list(struct api_call *c, struct cove *cove, struct err *e)
{
	const char *label, *state, *after, *shown, *last = NULL;
	struct cove_box_info *infos = NULL;
	struct cove_error err;
	uint64_t limit, n = 0;
	bool more = false;
	int count, r = api_query(c, "label", &label, e);

	if (r == 0)
		r = api_query(c, "state", &state, e);
	if (r == 0)
		r = api_query_page(c, API_ROWS_MAX, &limit, &after, e);
	if (r < 0)
		return r;
	count = cove_list(cove, &infos, &err);
	if (count < 0)
		return api_failed(count, &err, e);
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "boxes");
	json_array_begin(&c->json);
	for (int i = 0; i < count && !more; i++) {
		if (!api_name_shown(c, KEY_OF_BOX, infos[i].name, &shown) ||
		    (after && strcmp(shown, after) <= 0) ||
		    (state && strcmp(infos[i].state, state) != 0) ||
		    (label && !has_label(cove, infos[i].name, label)))
			continue;
		more = n == limit;
		if (more)
			break;
		json_object_begin(&c->json);
		wire_fields_json(&c->json, view_box_fields, &infos[i]);
		json_object_end(&c->json);
		last = shown;
		n++;
	}
	json_array_end(&c->json);
	json_kv_str(&c->json, "next", more ? last : NULL);
	json_object_end(&c->json);
	free(infos);
	return 0;
}

/* ---- one of them ---- */

static int box_inspect(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	char *text = NULL;
	int r = api_box(c, &name, e);

	if (r < 0)
		return r;
	r = cove_inspect(cove, name, &text, &err);
	return r < 0 ? api_failed(r, &err, e) : api_json_take(c, 200, text, e);
}

static int box_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	bool force;
	int r = api_box(c, &name, e);

	if (r == 0)
		r = api_query_bool(c, "force", &force, e);
	if (r < 0)
		return r;
	/* What it did is read from its log, which goes with it. */
	api_gather_hint(c->api, cove, name);
	r = cove_remove(cove, name, force, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

static int answer_box(struct api_call *c, struct cove *cove, const char *name, int r,
		      const struct cove_error *err, struct err *e)
{
	if (r < 0)
		return api_failed(r, err, e);
	json_object_begin(api_json(c, 200));
	r = api_put_box(c, cove, name, e);
	json_object_end(&c->json);
	return r;
}

struct start_in {
	uint64_t admission_wait_ms;
};
static const struct api_in_field start_fields[] = {
	API_IN_AS(start_in, "admission_wait", admission_wait_ms, MS), {NULL, 0, 0}};

static int box_start(struct api_call *c, struct cove *cove, struct err *e)
{
	struct start_in in = {API_WAIT_DEFAULT};
	const struct api_in_table tables[] = {{start_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *name;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = api_patience(c, cove, in.admission_wait_ms, e);
	if (r == 0)
		r = api_box(c, &name, e);
	return r < 0 ? r : answer_box(c, cove, name, cove_start(cove, name, &err), &err, e);
}

struct stop_in {
	uint64_t grace_ms;
};
static const struct api_in_field stop_fields[] = {API_IN_AS(stop_in, "grace", grace_ms, MS),
						  {NULL, 0, 0}};

static int box_stop(struct api_call *c, struct cove *cove, struct err *e)
{
	struct stop_in in = {.grace_ms = COVE_GRACE_MS};
	const struct api_in_table tables[] = {{stop_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *name;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = api_box(c, &name, e);
	if (r < 0)
		return r;
	r = cove_stop(cove, name, c->who.by, in.grace_ms, &err);
	return answer_box(c, cove, name, r, &err, e);
}

static int box_pause(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = api_box(c, &name, e);

	return r < 0 ? r : answer_box(c, cove, name, cove_pause(cove, name, &err), &err, e);
}

static int box_resume(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = api_box(c, &name, e);

	return r < 0 ? r : answer_box(c, cove, name, cove_resume(cove, name, &err), &err, e);
}

struct times_in {
	uint64_t ttl_ms, idle_ms;
};
static const struct api_in_field times_fields[] = {API_IN_AS(times_in, "ttl", ttl_ms, MS),
						   API_IN_AS(times_in, "idle", idle_ms, MS),
						   {NULL, 0, 0}};

static int box_set_times(struct api_call *c, struct cove *cove, struct err *e)
{
	struct times_in in = {0};
	const struct api_in_table tables[] = {{times_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *name;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.ttl_ms && !in.idle_ms)
		r = err_set(e, ERR_INVALID, EINVAL, "give 'ttl', 'idle' or both");
	if (r == 0)
		r = api_box(c, &name, e);
	if (r < 0)
		return r;
	r = cove_set_ttl(cove, name, in.ttl_ms, in.idle_ms, &err);
	return answer_box(c, cove, name, r, &err, e);
}

static int box_stats(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_stats stats;
	struct cove_error err;
	const char *name;
	int r = api_box(c, &name, e);

	if (r < 0)
		return r;
	r = cove_stats(cove, name, &stats, &err);
	return r < 0 ? api_failed(r, &err, e)
		     : api_json_take(c, 200, view_row_json(view_stats_fields, &stats), e);
}

/* clang-format off */
const struct api_route api_box_routes[] = {
	{"POST", "/v1/boxes", "createBox", KEY_RUN, API_BODY_JSON, .work = box_create,
	 .lasts = true},
	{"GET", "/v1/boxes", "listBoxes", KEY_READ, .work = box_list},
	{"GET", "/v1/boxes/{box}", "getBox", KEY_READ, .work = box_inspect},
	{"DELETE", "/v1/boxes/{box}", "removeBox", KEY_RUN, .work = box_remove},
	{"PATCH", "/v1/boxes/{box}", "setBoxTimes", KEY_RUN, API_BODY_JSON,
	 .work = box_set_times},
	{"POST", "/v1/boxes/{box}/start", "startBox", KEY_RUN, API_BODY_JSON, .work = box_start,
	 .lasts = true},
	{"POST", "/v1/boxes/{box}/stop", "stopBox", KEY_RUN, API_BODY_JSON, .work = box_stop,
	 .lasts = true},
	{"POST", "/v1/boxes/{box}/pause", "pauseBox", KEY_RUN, API_BODY_JSON, .work = box_pause},
	{"POST", "/v1/boxes/{box}/resume", "resumeBox", KEY_RUN, API_BODY_JSON,
	 .work = box_resume},
	{"GET", "/v1/boxes/{box}/stats", "getBoxStats", KEY_READ, .work = box_stats},
	{0}};
/* clang-format on */
