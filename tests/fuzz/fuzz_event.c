/*
 * Event lines. Whatever text a user or a box puts into one, it stays one line: a newline at its end
 * and nowhere else, no control bytes, and nothing that begins a second "[cove]" line.
 */
#include "fuzz.h"

#include "store/event.h"

#include <stdio.h>

/* The next field: bytes up to a separator, NULL for an empty one. */
static const char *field(char **at)
{
	char *text = *at, *end = text ? strchr(text, '|') : NULL;

	if (end)
		*end = '\0';
	*at = end ? end + 1 : NULL;
	return text && *text ? text : NULL;
}

static void copy(char *dst, size_t size, const char *text)
{
	snprintf(dst, size, "%s", text ? text : "");
}

static void check_line(const struct buf *b)
{
	MUST(buf_len(b) > 1 && buf_data(b)[buf_len(b) - 1] == '\n');
	for (size_t i = 0; i + 1 < buf_len(b); i++)
		MUST(buf_data(b)[i] >= 0x20 && buf_data(b)[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	struct event ev = {.kind = (enum event_kind)(input_byte(&in) % (EVENT_RESUME + 1))};
	struct exec_record x = {0};
	uint8_t bits = input_byte(&in);
	char *text = input_text(&in), *at = text;
	struct buf line, json;

	ev.box = field(&at);
	ev.image = field(&at);
	ev.workspace = field(&at);
	ev.command = field(&at);
	copy(x.shell, sizeof(x.shell), field(&at));
	x.cwd = field(&at);
	copy(x.cause, sizeof(x.cause), ev.cause = field(&at));
	ev.by = field(&at);
	x.has_exit = bits & 1;
	ev.cwd_changed = bits & 2;
	ev.seq = bits & 4;
	x.exit_code = bits;
	x.signal = bits >> 3;
	x.stdout_bytes = (uint64_t)bits << 33;
	ev.exec = bits & 8 ? NULL : &x;
	buf_init(&line, 8 * n + 4096);
	buf_init(&json, 8 * n + 4096);
	if (event_format(&ev, &line) == 0)
		check_line(&line);
	if (event_format_json(&ev, &json) == 0)
		check_line(&json);
	buf_done(&line);
	buf_done(&json);
	free(text);
	return 0;
}
