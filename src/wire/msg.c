/* Control messages as field tables; see msg.h. */
#include "wire/msg.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum field_type { FIELD_END = 0, FIELD_U64, FIELD_STR, FIELD_LIST };

/* Tags are positions in the table, counted from 1: a table only ever grows at its end. */
struct field {
	uint8_t type;
	uint16_t offset;
};

/* clang-format off */
#define U64(m, f)  {FIELD_U64, offsetof(struct wire_##m, f)}
#define STR(m, f)  {FIELD_STR, offsetof(struct wire_##m, f)}
#define LIST(m, f) {FIELD_LIST, offsetof(struct wire_##m, f)}

static const struct field hello_fields[] = {
	U64(hello, version), U64(hello, pid), STR(hello, name),
	STR(hello, notes), U64(hello, revision), {0}};
static const struct field error_fields[] = {
	U64(error, kind), U64(error, code), STR(error, msg), {0}};
static const struct field credit_fields[] = {U64(credit, bytes), {0}};
static const struct field exec_fields[] = {
	LIST(exec, argv), STR(exec, line), STR(exec, shell), LIST(exec, env), STR(exec, cwd),
	STR(exec, user), U64(exec, timeout_ms), U64(exec, pty), U64(exec, rows), U64(exec, cols),
	U64(exec, has_stdin), U64(exec, background), U64(exec, inline_max), {0}};
static const struct field started_fields[] = {U64(started, exec_id), U64(started, pid), {0}};
static const struct field queued_fields[] = {U64(queued, exec_id), {0}};
static const struct field exit_fields[] = {
	U64(exit, exec_id), U64(exit, exit_code), U64(exit, has_exit), U64(exit, signal),
	U64(exit, timed_out), U64(exit, oom_killed), U64(exit, stdout_bytes),
	U64(exit, stderr_bytes), U64(exit, truncated), U64(exit, duration_ms),
	U64(exit, shell_state), STR(exit, cwd), STR(exit, cause), U64(exit, cpu_us),
	U64(exit, mem_peak_bytes), U64(exit, io_read_bytes), U64(exit, io_write_bytes), {0}};
static const struct field signal_fields[] = {
	U64(signal, exec_id), U64(signal, signal), U64(signal, tree), {0}};
static const struct field resize_fields[] = {U64(resize, rows), U64(resize, cols), {0}};
static const struct field file_fields[] = {
	U64(file, op), STR(file, path), STR(file, to), STR(file, user), U64(file, mode),
	U64(file, recursive), U64(file, follow), {0}};
static const struct field entry_fields[] = {
	U64(entry, type), STR(entry, path), STR(entry, target), U64(entry, mode), U64(entry, size),
	U64(entry, mtime_ns), U64(entry, uid), U64(entry, gid), {0}};
static const struct field attach_fields[] = {
	U64(attach, exec_id), U64(attach, stdout_from), U64(attach, stderr_from),
	U64(attach, follow), U64(attach, inline_max), U64(attach, input), {0}};
static const struct field info_fields[] = {
	U64(info, exec_id), STR(info, command), STR(info, state), STR(info, shell), U64(info, pid),
	U64(info, started_ms), U64(info, has_exit), U64(info, exit_code), U64(info, signal),
	U64(info, stdout_bytes), U64(info, stderr_bytes), U64(info, duration_ms), STR(info, cause),
	U64(info, background), U64(info, truncated), U64(info, oom_killed), U64(info, cpu_us),
	U64(info, mem_peak_bytes), U64(info, io_read_bytes), U64(info, io_write_bytes), {0}};
static const struct field status_fields[] = {
	U64(status, started_ms), U64(status, execs_running), U64(status, clients),
	U64(status, init_pid), STR(status, notes), STR(status, ids), U64(status, paused),
	STR(status, storage), STR(status, walls), STR(status, network), U64(status, door),
	U64(status, init_revision), {0}};
static const struct field stop_fields[] = {
	STR(stop, by), U64(stop, remove), U64(stop, grace_ms), {0}};
static const struct field pause_fields[] = {U64(pause, on), STR(pause, by), U64(pause, for_ms),
					    {0}};
static const struct field stats_fields[] = {
	U64(stats, uptime_ms), U64(stats, paused), U64(stats, cpu_us), U64(stats, cpu_limit_milli),
	U64(stats, throttled_us), U64(stats, mem_bytes), U64(stats, mem_peak_bytes),
	U64(stats, mem_limit_bytes), U64(stats, oom_kills), U64(stats, pids),
	U64(stats, pids_limit), U64(stats, pids_hits), U64(stats, disk_bytes),
	U64(stats, disk_limit_bytes), U64(stats, disk_files), U64(stats, disk_files_limit),
	U64(stats, io_read_bytes), U64(stats, io_write_bytes), U64(stats, execs_running),
	U64(stats, disk_own_limit_bytes), U64(stats, net_up_bytes), U64(stats, net_down_bytes),
	U64(stats, net_conns), U64(stats, keeper_cpu_us), U64(stats, keeper_mem_bytes),
	U64(stats, keeper_mem_limit_bytes), U64(stats, door_cpu_us), U64(stats, door_mem_bytes),
	U64(stats, door_mem_limit_bytes), U64(stats, keeper_cpu_limit_milli),
	U64(stats, door_cpu_limit_milli), {0}};
static const struct field name_fields[] = {STR(name, name), {0}};
static const struct field connect_fields[] = {STR(connect, host), U64(connect, port),
					      U64(connect, proxy), U64(connect, exec_id), {0}};
static const struct field port_fields[] = {U64(port, port), {0}};
static const struct field door_fields[] = {LIST(door, argv), STR(door, by), {0}};
static const struct field say_fields[] = {STR(say, text), {0}};
/* clang-format on */

static void put_le(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_le(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static int put_field(struct buf *out, unsigned tag, const void *p, size_t n)
{
	uint8_t head[5] = {(uint8_t)tag};
	int r;

	put_le(head + 1, n, 4);
	r = buf_append(out, head, sizeof(head));
	return r < 0 ? r : buf_append(out, p, n);
}

/* Zero, NULL and empty are not sent. */
static int encode_field(struct buf *out, unsigned tag, const struct field *f, const void *m)
{
	const void *at = (const char *)m + f->offset;
	const struct wire_list *list = at;
	const char *s;
	uint8_t number[8];
	uint64_t v;

	switch (f->type) {
	case FIELD_U64:
		memcpy(&v, at, sizeof(v));
		put_le(number, v, 8);
		return v ? put_field(out, tag, number, 8) : 0;
	case FIELD_STR:
		memcpy(&s, at, sizeof(s));
		return s ? put_field(out, tag, s, strlen(s) + 1) : 0;
	default:
		return list->bytes ? put_field(out, tag, list->data, list->bytes) : 0;
	}
}

static int encode(struct buf *out, enum wire_type type, uint32_t id, uint8_t stream,
		  const struct field *fields, const void *m)
{
	size_t at;
	int r = wire_encode_begin(out, &at);

	if (r < 0)
		return r;
	for (unsigned i = 0; fields[i].type != FIELD_END && r == 0; i++)
		r = encode_field(out, i + 1, &fields[i], m);
	if (r < 0) {
		out->len = at;
		return r;
	}
	return wire_encode_end(out, at, type, stream, id);
}

static int decode_field(const struct field *f, void *m, const uint8_t *p, uint32_t n)
{
	void *at = (char *)m + f->offset;
	struct wire_list list = {.data = (const char *)p, .bytes = n};
	uint64_t v;

	switch (f->type) {
	case FIELD_U64:
		if (n != 8)
			return -EBADMSG;
		v = get_le(p, 8);
		memcpy(at, &v, sizeof(v));
		return 0;
	case FIELD_STR:
		if (n == 0 || memchr(p, 0, n) != p + n - 1)
			return -EBADMSG;
		memcpy(at, &list.data, sizeof(list.data));
		return 0;
	default:
		if (n > 0 && p[n - 1] != 0)
			return -EBADMSG;
		for (uint32_t i = 0; i < n; i++)
			list.count += p[i] == 0;
		memcpy(at, &list, sizeof(list));
		return 0;
	}
}

static int decode(const struct wire_frame *frame, const struct field *fields, void *m)
{
	const uint8_t *p = frame->payload;
	uint32_t left = frame->len, seen = 0;
	unsigned known = 0;

	while (fields[known].type != FIELD_END)
		known++;
	while (left > 0) {
		uint32_t n;
		unsigned tag;
		int r;

		if (left < 5)
			return -EBADMSG;
		tag = p[0];
		n = (uint32_t)get_le(p + 1, 4);
		if (n > left - 5 || tag == 0)
			return -EBADMSG;
		if (tag <= known) {
			if (seen & 1u << tag)
				return -EBADMSG;
			seen |= 1u << tag;
			r = decode_field(&fields[tag - 1], m, p + 5, n);
			if (r < 0)
				return r;
		}
		p += 5 + n;
		left -= 5 + n;
	}
	return 0;
}

#define WIRE_DEFINE(name, frame_type)                                                    \
	int wire_##name##_encode(struct buf *out, uint32_t id, uint8_t stream,           \
				 const struct wire_##name *m)                            \
	{                                                                                \
		return encode(out, frame_type, id, stream, name##_fields, m);            \
	}                                                                                \
	int wire_##name##_decode(const struct wire_frame *f, struct wire_##name *ret)    \
	{                                                                                \
		*ret = (struct wire_##name){0};                                          \
		return f->type == frame_type ? decode(f, name##_fields, ret) : -EBADMSG; \
	}
WIRE_MESSAGES(WIRE_DEFINE)

int wire_list_add(struct buf *b, const char *item)
{
	return buf_append(b, item, strlen(item) + 1);
}

struct wire_list wire_list_of(const struct buf *b)
{
	struct wire_list l = {.data = (const char *)buf_data(b), .bytes = (uint32_t)buf_len(b)};

	for (uint32_t i = 0; i < l.bytes; i++)
		l.count += l.data[i] == 0;
	return l;
}

const char *wire_list_next(const struct wire_list *l, uint32_t *pos)
{
	const char *item;

	if (*pos >= l->bytes)
		return NULL;
	item = l->data + *pos;
	*pos += (uint32_t)strlen(item) + 1;
	return item;
}
