/*
 * Events as a human-readable line and as a line of JSON; see event.h.
 *
 * How it works: numbers and words of ours are printed, everything that came from outside goes
 * through str_escape or the JSON writer, both of which let no byte end the line. A line that does
 * not fit the buffer is taken back as a whole.
 */
#include "store/event.h"

#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "wire/field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_SHOWN_MAX = 80 };

static const char *const kind_names[] = {
	[EVENT_OPEN] = "open",	       [EVENT_COMMAND] = "command", [EVENT_RESULT] = "result",
	[EVENT_TIMEOUT] = "timeout",   [EVENT_FAIL] = "fail",	    [EVENT_CLOSE] = "close",
	[EVENT_PAUSE] = "pause",       [EVENT_RESUME] = "resume",   [EVENT_DOOR] = "door",
	[EVENT_SNAPSHOT] = "snapshot",
};

static int put_text(struct buf *out, const char *before, const char *text)
{
	int r = buf_append_str(out, before);

	return r == 0 ? str_escape(out, text, strlen(text)) : r;
}

/* The longest prefix of at most max bytes that does not end inside a UTF-8 sequence. */
static size_t cut_utf8(const char *s, size_t n, size_t max)
{
	size_t cut = max;

	if (n <= max)
		return n;
	while (cut > 0 && max - cut < 3 && ((uint8_t)s[cut] & 0xc0) == 0x80)
		cut--;
	/* Three or more continuation bytes in a row after the cut are no text of anybody's. */
	return ((uint8_t)s[cut] & 0xc0) == 0x80 ? max : cut;
}

static int put_command(struct buf *out, const char *command)
{
	size_t line = strcspn(command, "\n"), cut = cut_utf8(command, line, COMMAND_SHOWN_MAX);
	int r = buf_append_str(out, "$ ");

	if (r == 0)
		r = str_escape(out, command, cut);
	if (r == 0 && (cut < line || (command[line] && command[line + 1])))
		r = buf_append_str(out, "…");
	return r;
}

static int put_seconds(struct buf *out, const char *before, uint64_t ms)
{
	return buf_printf(out, "%s%" PRIu64 ".%" PRIu64 " s", before, ms / 1000, ms % 1000 / 100);
}

static int put_how_ended(struct buf *out, const struct exec_record *x)
{
	const char *name = x->signal ? str_signal_name(x->signal) : NULL;

	if (x->has_exit)
		return buf_printf(out, "-> exit %d", x->exit_code);
	if (name)
		return buf_printf(out, "-> signal %s", name);
	if (x->signal)
		return buf_printf(out, "-> signal %d", x->signal);
	return put_text(out, "-> ", x->cause[0] ? x->cause : "unknown");
}

static int put_result(struct buf *out, const struct event *ev, const struct exec_record *x)
{
	bool stopped = strcmp(x->cause, "stopped") == 0 && (x->has_exit || x->signal);
	int r = put_how_ended(out, x);

	if (r == 0 && stopped)
		r = buf_append_str(out, " (stopped)");
	if (r == 0)
		r = buf_printf(out, ", %" PRIu64 " B out, %" PRIu64 " B err", x->stdout_bytes,
			       x->stderr_bytes);
	if (r == 0)
		r = put_seconds(out, ", ", x->duration_ms);
	if (r == 0 && x->cwd)
		r = put_text(out, ", cwd ", x->cwd);
	if (r == 0 && x->cwd && ev->cwd_changed)
		r = buf_append_str(out, " (changed)");
	return r;
}

static int put_open(struct buf *out, const struct event *ev)
{
	int r = put_text(out, "open   ", ev->box ? ev->box : "");

	if (r == 0 && ev->image)
		r = put_text(out, "  image=", ev->image);
	if (r == 0 && ev->workspace)
		r = put_text(out, " workspace=", ev->workspace);
	return r;
}

static int put_change(struct buf *out, const struct event *ev)
{
	bool has_cause = ev->cause && *ev->cause;
	int r = buf_printf(out, "%-6s ", kind_names[ev->kind]);

	if (r == 0)
		r = put_text(out, "", ev->box ? ev->box : "");
	if (r == 0 && has_cause)
		r = put_text(out, "  ", ev->cause);
	if (r == 0 && ev->by && *ev->by)
		r = put_text(out, has_cause ? " by " : "  by ", ev->by);
	return r;
}

static const struct exec_record *exec_of(const struct event *ev)
{
	static const struct exec_record none;

	return ev->exec ? ev->exec : &none;
}

static const char *command_of(const struct event *ev)
{
	return ev->command ? ev->command : exec_of(ev)->command;
}

static int put_line(struct buf *out, const struct event *ev)
{
	switch (ev->kind) {
	case EVENT_OPEN:
		return put_open(out, ev);
	case EVENT_COMMAND:
		return put_command(out, command_of(ev));
	case EVENT_RESULT:
		return put_result(out, ev, exec_of(ev));
	case EVENT_TIMEOUT:
		return put_seconds(out, "timeout after ", exec_of(ev)->duration_ms);
	case EVENT_FAIL:
		return put_text(out, "fail   ", ev->cause ? ev->cause : "");
	case EVENT_CLOSE:
	case EVENT_PAUSE:
	case EVENT_RESUME:
	case EVENT_DOOR:
	case EVENT_SNAPSHOT:
		return put_change(out, ev);
	}
	return -EINVAL;
}

int event_format(const struct event *ev, struct buf *out)
{
	size_t before = buf_len(out);
	int r = buf_append_str(out, "[cove] ");

	if (r == 0)
		r = put_line(out, ev);
	if (r == 0)
		r = buf_append(out, "\n", 1);
	if (r < 0)
		out->len = before;
	return r;
}

/* clang-format off */
#define V(name) FIELD_NAMED(event, name)
static const struct wire_named_field number_fields[] = {V(seq), FIELD_ALWAYS(event, at_ms), {0}};
static const struct wire_named_field box_fields[] = {V(box), V(image), V(workspace), {0}};
static const struct wire_named_field end_fields[] = {V(cause), V(by), V(cpu_us), {0}};

/* What an event shows of its command, around what the event says itself. */
#define A(name) FIELD_ALWAYS(exec_record, name)
#define R(name) FIELD_NAMED(exec_record, name)
static const struct wire_named_field exec_fields[][2][8] = {
	[EVENT_COMMAND] = {{A(exec_id)}, {R(shell), R(cause)}},
	[EVENT_RESULT] = {{A(exec_id), FIELD_IF(exec_record, exit_code, has_exit),
		FIELD_KNOWN(exec_record, signal), A(stdout_bytes), A(stderr_bytes), R(shell),
		R(cwd)}, {A(duration_ms), R(cause), R(denied_count)}},
	[EVENT_TIMEOUT] = {{A(exec_id), FIELD_IF(exec_record, exit_code, has_exit),
		FIELD_KNOWN(exec_record, signal)}, {A(duration_ms), R(cause), R(denied_count)}},
};
/* clang-format on */

static void json_command(struct json *j, const char *command)
{
	size_t n = strlen(command), cut = cut_utf8(command, n, EVENT_COMMAND_MAX);

	json_key(j, "command");
	json_strn(j, command, cut);
	if (cut < n)
		json_kv_bool(j, "command_truncated", true);
}

int event_format_json(const struct event *ev, struct buf *out)
{
	bool of_exec =
		ev->kind == EVENT_COMMAND || ev->kind == EVENT_RESULT || ev->kind == EVENT_TIMEOUT;
	struct exec_record x = *exec_of(ev);
	size_t before = buf_len(out);
	struct json j;
	int r;

	if ((unsigned)ev->kind >= sizeof(kind_names) / sizeof(kind_names[0]))
		return -EINVAL;
	x.exit_code = exec_status(&x);
	x.has_exit = x.exit_code >= 0;
	json_init(&j, out);
	json_object_begin(&j);
	wire_fields_json(&j, number_fields, ev);
	json_kv_str(&j, "event", kind_names[ev->kind]);
	wire_fields_json(&j, box_fields, ev);
	if (of_exec) {
		wire_fields_json(&j, exec_fields[ev->kind][0], &x);
		if (ev->kind == EVENT_COMMAND)
			json_command(&j, command_of(ev));
		if (ev->kind == EVENT_RESULT && x.cwd)
			json_kv_bool(&j, "cwd_changed", ev->cwd_changed);
		wire_fields_json(&j, exec_fields[ev->kind][1], &x);
	}
	wire_fields_json(&j, end_fields, ev);
	json_object_end(&j);
	r = j.error ? j.error : buf_append(out, "\n", 1);
	if (r < 0)
		out->len = before;
	return r;
}

uint64_t event_row_seq(const char *row)
{
	static const char key[] = "{\"seq\":";

	return strncmp(row, key, sizeof(key) - 1) == 0 ? strtoull(row + sizeof(key) - 1, NULL, 10)
						       : 0;
}
