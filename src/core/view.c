/* Words and JSON for what records and keepers hold; see view.h. */
#include "core/view.h"

#include "base/fd.h"

#include <string.h>

enum { ROW_JSON_MAX = 256 << 10 };

const char *box_state_name(enum box_state state)
{
	static const char *const names[] = {
		[BOX_CREATED] = "created", [BOX_RUNNING] = "running", [BOX_STOPPED] = "stopped"};

	return names[state];
}

const char *persistence_name(enum persistence p)
{
	return p == PERSIST_BOX ? "box" : "workspace";
}

void core_put_labels(struct json *j, const struct spec *s)
{
	json_key(j, "labels");
	json_object_begin(j);
	for (size_t i = 0; i < s->label_count; i++) {
		const char *equals = strchr(s->labels[i], '=');
		size_t len = (size_t)(equals - s->labels[i]);
		autofree char *name = strndup(s->labels[i], len);

		if (name && strcmp(name, CORE_REQUEST_LABEL) == 0)
			continue;
		json_kv_str(j, name ? name : "", equals + 1);
	}
	json_object_end(j);
}

char *view_row_json(const struct wire_named_field *fields, const void *row)
{
	struct buf text;
	struct json j;
	char *copy;

	buf_init(&text, ROW_JSON_MAX);
	json_init(&j, &text);
	json_object_begin(&j);
	wire_fields_json(&j, fields, row);
	json_object_end(&j);
	copy = j.error ? NULL : strdup(buf_cstr(&text));
	buf_done(&text);
	return copy;
}

void view_known_u64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	if (v)
		json_u64(j, v);
	else
		json_nil(j);
}

/* clang-format off */
#define A(name) FIELD_ALWAYS(cove_exec_info, name)
#define K(name) FIELD_KNOWN(cove_exec_info, name)
const struct wire_named_field view_exec_fields[] = {
	A(exec_id), A(command), A(state), K(shell), A(background), K(pid), K(started_ms),
	A(duration_ms), FIELD_IF(cove_exec_info, exit_code, has_exit), K(signal), K(cause),
	A(oom_killed), FIELD_SHOWN(cove_exec_info, "stdout_bytes", out_bytes, ALWAYS),
	FIELD_SHOWN(cove_exec_info, "stderr_bytes", err_bytes, ALWAYS), A(truncated),
	VIEW_USED(cove_exec_info), A(denied_count), {0}};

/* Every box that runs has some time, memory and a process: 0 of these is not known. */
#define STATS(X) \
	X(ALWAYS, uptime_ms) X(ALWAYS, paused) X(KNOWN, cpu_us) X(KNOWN, cpu_limit_milli) \
	X(COUNTED, throttled_us) X(KNOWN, mem_bytes) X(KNOWN, mem_peak_bytes) \
	X(KNOWN, mem_limit_bytes) X(COUNTED, oom_kills) X(KNOWN, pids) X(KNOWN, pids_limit) \
	X(COUNTED, pids_hits) X(COUNTED, disk_bytes) X(KNOWN, disk_limit_bytes) \
	X(KNOWN, disk_own_limit_bytes) X(COUNTED, disk_files) X(KNOWN, disk_files_limit) \
	X(COUNTED, io_read_bytes) X(COUNTED, io_write_bytes) X(ALWAYS, net_up_bytes) \
	X(ALWAYS, net_down_bytes) X(ALWAYS, net_conns) X(ALWAYS, execs_running) \
	X(ALWAYS, keeper_cpu_us) X(KNOWN, keeper_cpu_limit_milli) X(KNOWN, keeper_mem_bytes) \
	X(KNOWN, keeper_mem_limit_bytes) X(KNOWN, door_cpu_us) X(KNOWN, door_cpu_limit_milli) \
	X(KNOWN, door_mem_bytes) X(KNOWN, door_mem_limit_bytes)
#define SHOWN(how, name) FIELD_##how(cove_stats, name),
#define COPIED(how, name) .name = m->name,
const struct wire_named_field view_stats_fields[] = {STATS(SHOWN) {0}};
/* clang-format on */

void view_stats_fill(struct cove_stats *ret, const struct wire_stats *m)
{
	*ret = (struct cove_stats){STATS(COPIED)};
}
