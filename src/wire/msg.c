/* Control messages as field tables; see msg.h. */
#include "wire/msg.h"

#include "wire/field.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Tags are positions in a table, counted from 1: a table only ever grows at its end. */
/* clang-format off */
#define F(m, name) FIELD_OF(wire_##m, name)
#define R(name)	   FIELD_OF(exec_record, name)

static const struct wire_field hello_fields[] = {
	F(hello, lowest), F(hello, pid), F(hello, name),
	F(hello, notes), F(hello, revision), F(hello, highest), F(hello, features), {0}};
static const struct wire_field error_fields[] = {
	F(error, kind), F(error, code), F(error, msg), {0}};
static const struct wire_field credit_fields[] = {F(credit, bytes), {0}};
static const struct wire_field exec_fields[] = {
	F(exec, argv), F(exec, line), F(exec, shell), F(exec, env), F(exec, cwd),
	F(exec, user), F(exec, timeout_ms), F(exec, pty), F(exec, rows), F(exec, cols),
	F(exec, has_stdin), F(exec, background), F(exec, inline_max), F(exec, token),
	F(exec, grace_ms), F(exec, login), F(exec, merge), {0}};
static const struct wire_field started_fields[] = {F(started, exec_id), F(started, pid), {0}};
static const struct wire_field queued_fields[] = {F(queued, exec_id), {0}};
static const struct wire_field exit_fields[] = {
	R(exec_id), R(exit_code), R(has_exit), R(signal), R(timed_out), R(oom_killed),
	R(stdout_bytes), R(stderr_bytes), R(truncated), R(duration_ms), R(shell_state), R(cwd),
	R(cause), R(cpu_us), R(mem_peak_bytes), R(io_read_bytes), R(io_write_bytes), R(denied),
	R(denied_more), R(limit_value), {0}};
static const struct wire_field denied_fields[] = {
	F(denied, exec_id), F(denied, host), F(denied, port), F(denied, method),
	F(denied, reason), F(denied, remedy), F(denied, why), {0}};
static const struct wire_field signal_fields[] = {
	F(signal, exec_id), F(signal, signal), F(signal, tree), {0}};
static const struct wire_field resize_fields[] = {F(resize, rows), F(resize, cols), {0}};
static const struct wire_field file_fields[] = {
	F(file, op), F(file, path), F(file, to), F(file, user), F(file, mode),
	F(file, recursive), F(file, follow), F(file, skip), F(file, links), F(file, holes),
	F(file, from), F(file, count), F(file, bytes), F(file, line_bytes), F(file, time_ms),
	F(file, pattern), F(file, glob), F(file, regex), F(file, ignore_case), F(file, context),
	F(file, any_type), F(file, binary), F(file, edits), F(file, if_sha256),
	F(file, if_mtime_ns), F(file, if_size), {0}};
static const struct wire_field entry_fields[] = {
	F(entry, type), F(entry, path), F(entry, target), F(entry, mode), F(entry, size),
	F(entry, mtime_ns), F(entry, uid), F(entry, gid), F(entry, links), {0}};
static const struct wire_field attach_fields[] = {
	F(attach, exec_id), F(attach, stdout_from), F(attach, stderr_from),
	F(attach, follow), F(attach, inline_max), F(attach, input), {0}};
static const struct wire_field info_fields[] = {
	R(exec_id), R(command), FIELD_STATE_OF(exec_record, state), R(shell), R(pid),
	R(started_ms), R(has_exit), R(exit_code), R(signal), R(stdout_bytes), R(stderr_bytes),
	R(duration_ms), R(cause), R(background), R(truncated), R(oom_killed), R(cpu_us),
	R(mem_peak_bytes), R(io_read_bytes), R(io_write_bytes), R(timed_out), R(shell_state),
	R(token), R(denied_count), R(limit_value), {0}};
static const struct wire_field status_fields[] = {
	F(status, started_ms), F(status, execs_running), F(status, clients),
	F(status, init_pid), F(status, notes), F(status, ids), F(status, paused),
	F(status, storage), F(status, walls), F(status, network), F(status, door),
	F(status, init_revision), F(status, pinned), {0}};
static const struct wire_field stop_fields[] = {
	F(stop, by), F(stop, remove), F(stop, grace_ms), F(stop, rollback), {0}};
static const struct wire_field pause_fields[] = {F(pause, on), F(pause, by), F(pause, for_ms),
					    F(pause, hold), {0}};
static const struct wire_field times_fields[] = {F(times, ttl_ms), F(times, idle_ms), {0}};
static const struct wire_field stats_fields[] = {
	F(stats, uptime_ms), F(stats, paused), F(stats, cpu_us), F(stats, cpu_limit_milli),
	F(stats, throttled_us), F(stats, mem_bytes), F(stats, mem_peak_bytes),
	F(stats, mem_limit_bytes), F(stats, oom_kills), F(stats, pids),
	F(stats, pids_limit), F(stats, pids_hits), F(stats, disk_bytes),
	F(stats, disk_limit_bytes), F(stats, disk_files), F(stats, disk_files_limit),
	F(stats, io_read_bytes), F(stats, io_write_bytes), F(stats, execs_running),
	F(stats, disk_own_limit_bytes), F(stats, net_up_bytes), F(stats, net_down_bytes),
	F(stats, net_conns), F(stats, keeper_cpu_us), F(stats, keeper_mem_bytes),
	F(stats, keeper_mem_limit_bytes), F(stats, door_cpu_us), F(stats, door_mem_bytes),
	F(stats, door_mem_limit_bytes), F(stats, keeper_cpu_limit_milli),
	F(stats, door_cpu_limit_milli), {0}};
static const struct wire_field name_fields[] = {F(name, name), {0}};
static const struct wire_field connect_fields[] = {F(connect, host), F(connect, port),
					      F(connect, proxy), F(connect, exec_id), {0}};
static const struct wire_field port_fields[] = {F(port, port), {0}};
static const struct wire_field door_fields[] = {F(door, argv), F(door, by), {0}};
static const struct wire_field say_fields[] = {F(say, text), {0}};
static const struct wire_field cut_fields[] = {F(cut, connections), {0}};
static const struct wire_field ask_fields[] = {
	F(ask, id), F(ask, host), F(ask, port), F(ask, method), F(ask, path), F(ask, query),
	F(ask, rule), F(ask, exec_id), F(ask, since_ms), F(ask, left_ms), F(ask, requests), {0}};
static const struct wire_field door_status_fields[] = {
	F(door_status, running), F(door_status, policy), F(door_status, trouble),
	F(door_status, connections), F(door_status, connections_max), F(door_status, bytes_up),
	F(door_status, bytes_down), F(door_status, bytes_max), F(door_status, asks),
	F(door_status, memory_locked), {0}};
static const struct wire_field shell_fields[] = {
	F(shell, remove), F(shell, name), F(shell, user), F(shell, state), F(shell, cwd),
	F(shell, pid), F(shell, exec_id), F(shell, queued), F(shell, login), {0}};
static const struct wire_field ctl_fields[] = {
	F(ctl, verb), F(ctl, json), F(ctl, name), F(ctl, uid), {0}};
static const struct wire_field ctl_answer_fields[] = {
	F(ctl_answer, kind), F(ctl_answer, code), F(ctl_answer, text), {0}};
static const struct wire_field match_fields[] = {
	F(match, path), F(match, line), F(match, column), F(match, text), F(match, text_column),
	F(match, is_cut), F(match, is_context), {0}};
static const struct wire_field change_fields[] = {
	F(change, kind), F(change, path), F(change, to), F(change, is_dir), {0}};
static const struct wire_field summary_fields[] = {
	F(summary, truncated), F(summary, count), F(summary, files), F(summary, left_out),
	F(summary, first), F(summary, last), F(summary, total), F(summary, at_end),
	F(summary, is_binary), F(summary, cut_lines), F(summary, size), F(summary, mtime_ns),
	F(summary, sha256), {0}};
static const struct wire_field subscribe_fields[] = {F(subscribe, from), {0}};
static const struct wire_field event_fields[] = {
	F(event, seq), F(event, missed), F(event, text), {0}};
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
static int encode_field(struct buf *out, unsigned tag, const struct wire_field *f, const void *m)
{
	struct wire_list list;
	const char *s;
	uint8_t number[8];
	uint64_t v;

	switch (f->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_BOOL:
		v = wire_field_number(f, m);
		put_le(number, v, 8);
		return v ? put_field(out, tag, number, 8) : 0;
	case FIELD_LIST:
		memcpy(&list, (const char *)m + f->offset, sizeof(list));
		return list.bytes ? put_field(out, tag, list.data, list.bytes) : 0;
	default:
		s = wire_field_text(f, m);
		return s ? put_field(out, tag, s, strlen(s) + 1) : 0;
	}
}

static int encode(struct buf *out, enum wire_type type, uint32_t id, uint8_t stream,
		  const struct wire_field *fields, const void *m)
{
	size_t at;
	int r = wire_encode_begin(out, &at);

	if (r < 0)
		return r;
	for (unsigned i = 0; fields[i].kind != FIELD_END && r == 0; i++)
		r = encode_field(out, i + 1, &fields[i], m);
	if (r < 0) {
		out->len = at;
		return r;
	}
	return wire_encode_end(out, at, type, stream, id);
}

static int decode_field(const struct wire_field *f, void *m, const uint8_t *p, uint32_t n)
{
	struct wire_list list = {.data = (const char *)p, .bytes = n};

	switch (f->kind) {
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_BOOL:
		return n == 8 && wire_field_put_number(f, m, get_le(p, 8)) ? 0 : -EBADMSG;
	case FIELD_LIST:
		if (n > 0 && p[n - 1] != 0)
			return -EBADMSG;
		for (uint32_t i = 0; i < n; i++)
			list.count += p[i] == 0;
		memcpy((char *)m + f->offset, &list, sizeof(list));
		return 0;
	default:
		if (n == 0 || memchr(p, 0, n) != p + n - 1)
			return -EBADMSG;
		return wire_field_put_text(f, m, list.data) ? 0 : -EBADMSG;
	}
}

static int decode(const struct wire_frame *frame, const struct wire_field *fields, void *m)
{
	const uint8_t *p = frame->payload;
	uint32_t left = frame->len;
	uint64_t seen = 0;
	unsigned known = 0;

	while (fields[known].kind != FIELD_END)
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
			if (seen & 1ull << tag)
				return -EBADMSG;
			seen |= 1ull << tag;
			r = decode_field(&fields[tag - 1], m, p + 5, n);
			if (r < 0)
				return r;
		}
		p += 5 + n;
		left -= 5 + n;
	}
	return 0;
}

#define WIRE_DEFINE(name, frame_type, tag)                                               \
	int wire_##name##_encode(struct buf *out, uint32_t id, uint8_t stream,           \
				 const struct tag *m)                                    \
	{                                                                                \
		return encode(out, frame_type, id, stream, name##_fields, m);            \
	}                                                                                \
	int wire_##name##_decode(const struct wire_frame *f, struct tag *ret)            \
	{                                                                                \
		*ret = (struct tag){0};                                                  \
		return f->type == frame_type ? decode(f, name##_fields, ret) : -EBADMSG; \
	}
WIRE_MESSAGES(WIRE_DEFINE)

int wire_exit_merge(const struct wire_frame *f, struct exec_record *to)
{
	return f->type == WIRE_EXIT ? decode(f, exit_fields, to) : -EBADMSG;
}

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
