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

void view_exit_code(struct json *j, bool has_exit, int code)
{
	json_key(j, "exit_code");
	if (has_exit)
		json_i64(j, code);
	else
		json_null(j);
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
	view_exit_code(j, x->has_exit, x->exit_code);
	view_known_u64(j, "signal", (uint64_t)x->signal);
	view_text(j, "cause", x->cause);
	json_kv_bool(j, "oom_killed", x->oom_killed);
	json_kv_u64(j, "stdout_bytes", x->out_bytes);
	json_kv_u64(j, "stderr_bytes", x->err_bytes);
	json_kv_bool(j, "truncated", x->truncated);
	view_usage(j, x->cpu_us, x->mem_peak_bytes, x->io_read_bytes, x->io_write_bytes);
}

/* A number that is always there, one that is not known where it is 0, one that is not counted where
 * it is COVE_UNKNOWN. Every box that runs has some time, memory and a process. */
enum stat_form { STAT_PLAIN, STAT_KNOWN, STAT_COUNTED };

#define STAT(form, name)                                                                     \
	{                                                                                    \
#name, offsetof(struct wire_stats, name), offsetof(struct cove_stats, name), \
			STAT_##form                                                          \
	}

/* clang-format off */
static const struct {
	const char *key;
	size_t from, at;
	enum stat_form form;
} stats[] = {
	STAT(KNOWN, cpu_us), STAT(KNOWN, cpu_limit_milli), STAT(PLAIN, throttled_us),
	STAT(KNOWN, mem_bytes), STAT(KNOWN, mem_peak_bytes), STAT(KNOWN, mem_limit_bytes),
	STAT(PLAIN, oom_kills), STAT(KNOWN, pids), STAT(KNOWN, pids_limit), STAT(PLAIN, pids_hits),
	STAT(COUNTED, disk_bytes), STAT(KNOWN, disk_limit_bytes), STAT(KNOWN, disk_own_limit_bytes),
	STAT(COUNTED, disk_files), STAT(KNOWN, disk_files_limit), STAT(COUNTED, io_read_bytes),
	STAT(COUNTED, io_write_bytes), STAT(PLAIN, net_up_bytes), STAT(PLAIN, net_down_bytes),
	STAT(PLAIN, net_conns), STAT(PLAIN, execs_running), STAT(PLAIN, keeper_cpu_us),
	STAT(KNOWN, keeper_cpu_limit_milli), STAT(KNOWN, keeper_mem_bytes),
	STAT(KNOWN, keeper_mem_limit_bytes), STAT(KNOWN, door_cpu_us),
	STAT(KNOWN, door_cpu_limit_milli), STAT(KNOWN, door_mem_bytes),
	STAT(KNOWN, door_mem_limit_bytes),
};
/* clang-format on */

void view_stats_fill(struct cove_stats *ret, const struct wire_stats *m)
{
	*ret = (struct cove_stats){.uptime_ms = m->uptime_ms, .paused = m->paused != 0};
	for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++)
		memcpy((char *)ret + stats[i].at, (const char *)m + stats[i].from,
		       sizeof(uint64_t));
}

void view_stats(struct json *j, const struct cove_stats *s)
{
	json_kv_u64(j, "uptime_ms", s->uptime_ms);
	json_kv_bool(j, "paused", s->paused);
	for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++) {
		uint64_t v;

		memcpy(&v, (const char *)s + stats[i].at, sizeof(v));
		if (stats[i].form == STAT_COUNTED)
			view_counted(j, stats[i].key, v);
		else if (stats[i].form == STAT_KNOWN)
			view_known_u64(j, stats[i].key, v);
		else
			json_kv_u64(j, stats[i].key, v);
	}
}
