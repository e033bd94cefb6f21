/* A command's result as JSON, and its end; for libcove and for whoever has one from a server. */
#include "base/json.h"
#include "base/str.h"
#include "core/plain.h"
#include "core/result.h"
#include "core/view.h"

enum { JSON_RESULT_MAX = 16 << 20 };

void cove_result_free(struct cove_result *result)
{
	if (!result)
		return;
	free(result->out);
	free(result->err_out);
	free(result->cwd);
	free(result->denied);
	memset(result, 0, sizeof(*result));
}

/* clang-format off */
#define A(name) FIELD_ALWAYS(cove_result, name)
#define N(name) FIELD_NAMED(cove_result, name)
#define K(name) FIELD_KNOWN(cove_result, name)
const struct wire_named_field view_result_before[] = {
	A(exec_id), FIELD_IF(cove_result, exit_code, has_exit), FIELD_KNOWN(cove_result, signal),
	{0}};
const struct wire_named_field view_result_after[] = {
	{"cwd", {FIELD_STR, offsetof(struct cove_result, cwd), 0}, SHOW_ALWAYS, 0}, A(duration_ms),
	A(timed_out), A(oom_killed), A(truncated), N(never_started),
	FIELD_SHOWN(cove_result, "stdout_bytes", out_bytes, ALWAYS),
	FIELD_SHOWN(cove_result, "stderr_bytes", err_bytes, ALWAYS), A(shell), A(cause),
	K(limit), K(limit_value), K(remedy),
	VIEW_USED(cove_result), N(denied_more), {0}};
const struct wire_named_field view_denial_fields[] = {
	FIELD_ALWAYS(cove_denial, host), FIELD_SHOWN(cove_denial, "port", port, KNOWN),
	FIELD_NAMED(cove_denial, method), FIELD_ALWAYS(cove_denial, reason),
	FIELD_NAMED(cove_denial, why), FIELD_NAMED(cove_denial, remedy),
	FIELD_NAMED(cove_denial, shared), {0}};
/* clang-format on */

static void put_denials(struct json *j, const struct cove_result *result)
{
	json_key(j, "denied");
	json_array_begin(j);
	for (size_t i = 0; i < result->denied_count; i++) {
		json_object_begin(j);
		wire_fields_json(j, view_denial_fields, &result->denied[i]);
		json_object_end(j);
	}
	json_array_end(j);
}

/* ---- the files that went with it ---- */

/* A path is bytes; where they are no text they are given whole besides. */
static void put_path(struct json *j, const char *key, const char *key64, const char *path)
{
	json_kv_bytes(j, key, key64, path ? path : "-", strlen(path ? path : "-"));
}

static void put_items(struct json *j, const char *key, struct cove_transfer *items, size_t count)
{
	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < count; i++) {
		const struct cove_transfer *t =
			(const void *)((const char *)items + i * items->size);

		json_object_begin(j);
		put_path(j, "path", "path_base64", t->from);
		put_path(j, "to", "to_base64", t->to);
		json_kv_u64(j, "bytes", t->bytes);
		json_kv_u64(j, "files", t->files);
		json_kv_u64(j, "left_out", t->left_out);
		json_key(j, "error");
		if (t->error.kind == COVE_OK) {
			json_nil(j);
		} else {
			json_object_begin(j);
			json_kv_str(j, "kind", cove_error_name(t->error.kind));
			json_kv_str(j, "message", t->error.message);
			json_object_end(j);
		}
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_files(struct json *j, const struct cove_files *files)
{
	struct cove_files f;

	if (!files || core_copy_sized(&f, sizeof(f), files, NULL) < 0)
		return;
	put_items(j, "inputs", f.inputs, f.input_count);
	put_items(j, "outputs", f.outputs, f.output_count);
}

char *cove_result_json(const struct cove_result *result)
{
	struct json j;
	struct buf b;
	char *text = NULL;

	buf_init(&b, JSON_RESULT_MAX);
	json_init(&j, &b);
	json_object_begin(&j);
	wire_fields_json(&j, view_result_before, result);
	json_kv_bytes(&j, "stdout", "stdout_base64", result->out, result->out_len);
	json_kv_bytes(&j, "stderr", "stderr_base64", result->err_out, result->err_len);
	wire_fields_json(&j, view_result_after, result);
	put_denials(&j, result);
	put_files(&j, result->files);
	json_object_end(&j);
	if (j.error == 0 && buf_cstr(&b))
		text = strdup(buf_cstr(&b));
	buf_done(&b);
	return text;
}
