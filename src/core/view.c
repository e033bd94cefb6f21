/* Words and JSON for what records and keepers hold; see view.h. */
#include "core/view.h"

#include <stddef.h>
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

const char *expiry_name(enum expiry e)
{
	return e == EXPIRE_REMOVE ? "remove" : "stop";
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
		json_null(j);
}

void view_counted(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	if (v == COVE_UNKNOWN)
		json_null(j);
	else
		json_u64(j, v);
}

void view_text(struct json *j, const char *key, const char *s)
{
	json_kv_str(j, key, s[0] ? s : NULL);
}

void view_usage(struct json *j, uint64_t cpu_us, uint64_t mem_peak_bytes, uint64_t io_read_bytes,
		uint64_t io_write_bytes)
{
	/* Up: what ran used something. */
	view_known_u64(j, "cpu_ms", cpu_us / 1000 + (cpu_us % 1000 != 0));
	view_known_u64(j, "mem_peak_bytes", mem_peak_bytes);
	view_counted(j, "io_read_bytes", io_read_bytes);
	view_counted(j, "io_write_bytes", io_write_bytes);
}

void view_exec(struct json *j, const struct cove_exec_info *x)
{
	json_kv_u64(j, "exec_id", x->exec_id);
	json_kv_str(j, "command", x->command);
	json_kv_str(j, "state", x->state);
	view_text(j, "shell", x->shell);
	json_kv_bool(j, "background", x->background);
	view_known_u64(j, "pid", (uint64_t)x->pid);
	view_known_u64(j, "started_ms", x->started_ms);
	json_kv_u64(j, "duration_ms", x->duration_ms);
	json_key(j, "exit_code");
	if (x->has_exit)
		json_i64(j, x->exit_code);
	else
		json_null(j);
	view_known_u64(j, "signal", (uint64_t)x->signal);
	view_text(j, "cause", x->cause);
	json_kv_bool(j, "oom_killed", x->oom_killed);
	json_kv_u64(j, "stdout_bytes", x->out_bytes);
	json_kv_u64(j, "stderr_bytes", x->err_bytes);
	json_kv_bool(j, "truncated", x->truncated);
	view_usage(j, x->cpu_us, x->mem_peak_bytes, x->io_read_bytes, x->io_write_bytes);
}

/* Every box that runs has some time, memory and a process: 0 means that nobody counts it. */
void view_stats(struct json *j, const struct cove_stats *s)
{
	json_kv_u64(j, "uptime_ms", s->uptime_ms);
	json_kv_bool(j, "paused", s->paused);
	view_known_u64(j, "cpu_us", s->cpu_us);
	view_known_u64(j, "cpu_limit_milli", s->cpu_limit_milli);
	json_kv_u64(j, "throttled_us", s->throttled_us);
	view_known_u64(j, "mem_bytes", s->mem_bytes);
	view_known_u64(j, "mem_peak_bytes", s->mem_peak_bytes);
	view_known_u64(j, "mem_limit_bytes", s->mem_limit_bytes);
	json_kv_u64(j, "oom_kills", s->oom_kills);
	view_known_u64(j, "pids", s->pids);
	view_known_u64(j, "pids_limit", s->pids_limit);
	json_kv_u64(j, "pids_hits", s->pids_hits);
	view_counted(j, "disk_bytes", s->disk_bytes);
	view_known_u64(j, "disk_limit_bytes", s->disk_limit_bytes);
	view_known_u64(j, "disk_own_limit_bytes", s->disk_own_limit_bytes);
	view_counted(j, "disk_files", s->disk_files);
	view_known_u64(j, "disk_files_limit", s->disk_files_limit);
	view_counted(j, "io_read_bytes", s->io_read_bytes);
	view_counted(j, "io_write_bytes", s->io_write_bytes);
	json_kv_u64(j, "net_up_bytes", s->net_up_bytes);
	json_kv_u64(j, "net_down_bytes", s->net_down_bytes);
	json_kv_u64(j, "net_conns", s->net_conns);
	json_kv_u64(j, "execs_running", s->execs_running);
	json_kv_u64(j, "keeper_cpu_us", s->keeper_cpu_us);
	view_known_u64(j, "keeper_cpu_limit_milli", s->keeper_cpu_limit_milli);
	view_known_u64(j, "keeper_mem_bytes", s->keeper_mem_bytes);
	view_known_u64(j, "keeper_mem_limit_bytes", s->keeper_mem_limit_bytes);
	view_known_u64(j, "door_cpu_us", s->door_cpu_us);
	view_known_u64(j, "door_cpu_limit_milli", s->door_cpu_limit_milli);
	view_known_u64(j, "door_mem_bytes", s->door_mem_bytes);
	view_known_u64(j, "door_mem_limit_bytes", s->door_mem_limit_bytes);
}
