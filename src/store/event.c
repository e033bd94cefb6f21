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

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_SHOWN_MAX = 80 };

static const char *const kind_names[] = {
	[EVENT_OPEN] = "open",	     [EVENT_COMMAND] = "command", [EVENT_RESULT] = "result",
	[EVENT_TIMEOUT] = "timeout", [EVENT_FAIL] = "fail",	  [EVENT_CLOSE] = "close",
	[EVENT_PAUSE] = "pause",     [EVENT_RESUME] = "resume",	  [EVENT_DOOR] = "door",
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
	int r = put_how_ended(out, x);

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

static int put_change(struct buf *out, const char *what, const struct event *ev)
{
	bool has_cause = ev->cause && *ev->cause;
	int r = put_text(out, what, ev->box ? ev->box : "");

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
		return put_change(out, "close  ", ev);
	case EVENT_PAUSE:
		return put_change(out, "pause  ", ev);
	case EVENT_RESUME:
		return put_change(out, "resume ", ev);
	case EVENT_DOOR:
		return put_change(out, "door   ", ev);
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

static void json_text(struct json *j, const char *key, const char *text)
{
	if (text)
		json_kv_str(j, key, text);
}

static void json_command(struct json *j, const char *command)
{
	size_t n = strlen(command), cut = cut_utf8(command, n, EVENT_COMMAND_MAX);

	json_key(j, "command");
	json_strn(j, command, cut);
	if (cut < n)
		json_kv_bool(j, "command_truncated", true);
}

static void json_result(struct json *j, const struct exec_record *x)
{
	json_key(j, "exit_code");
	if (x->has_exit)
		json_i64(j, x->exit_code);
	else
		json_null(j);
	if (x->signal)
		json_kv_i64(j, "signal", x->signal);
	json_kv_u64(j, "stdout_bytes", x->stdout_bytes);
	json_kv_u64(j, "stderr_bytes", x->stderr_bytes);
}

static void json_exec(struct json *j, const struct event *ev)
{
	const struct exec_record *x = exec_of(ev);
	bool is_result = ev->kind == EVENT_RESULT;

	json_kv_u64(j, "exec_id", x->exec_id);
	if (ev->kind == EVENT_COMMAND)
		json_command(j, command_of(ev));
	if (is_result)
		json_result(j, x);
	if (ev->kind != EVENT_TIMEOUT)
		json_text(j, "shell", x->shell[0] ? x->shell : NULL);
	if (is_result && x->cwd) {
		json_kv_str(j, "cwd", x->cwd);
		json_kv_bool(j, "cwd_changed", ev->cwd_changed);
	}
	if (ev->kind != EVENT_COMMAND)
		json_kv_u64(j, "duration_ms", x->duration_ms);
	json_text(j, "cause", x->cause[0] ? x->cause : NULL);
}

int event_format_json(const struct event *ev, struct buf *out)
{
	bool of_exec =
		ev->kind == EVENT_COMMAND || ev->kind == EVENT_RESULT || ev->kind == EVENT_TIMEOUT;
	size_t before = buf_len(out);
	struct json j;
	int r;

	if ((unsigned)ev->kind >= sizeof(kind_names) / sizeof(kind_names[0]))
		return -EINVAL;
	json_init(&j, out);
	json_object_begin(&j);
	if (ev->seq)
		json_kv_u64(&j, "seq", ev->seq);
	json_kv_u64(&j, "at_ms", ev->at_ms);
	json_kv_str(&j, "event", kind_names[ev->kind]);
	json_text(&j, "box", ev->box);
	json_text(&j, "image", ev->image);
	json_text(&j, "workspace", ev->workspace);
	if (of_exec)
		json_exec(&j, ev);
	json_text(&j, "cause", ev->cause);
	json_text(&j, "by", ev->by);
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
