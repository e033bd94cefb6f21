/*
 * The server's log: lines of JSON on stderr, one per request and one per thing that happens to the
 * server. Never in it: bodies, queries, keys.
 */
#include "base/clock.h"
#include "base/json.h"
#include "server/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOG_LINE_MAX = 16 << 10, LOG_TEXT_MAX = 1024 };

static void line_begin(struct buf *b, struct json *j, const char *level)
{
	buf_init(b, LOG_LINE_MAX);
	json_init(j, b);
	json_object_begin(j);
	json_kv_u64(j, "time_ms", clock_wall_ms());
	json_kv_str(j, "level", level);
}

/* Whole or not at all: lines of other threads and processes do not mix with it. A log that cannot
 * be written stops no request. */
static void line_end(struct buf *b, struct json *j)
{
	json_object_end(j);
	if (j->error == 0 && buf_append_str(b, "\n") == 0 &&
	    write(STDERR_FILENO, buf_data(b), buf_len(b)) < 0)
		clearerr(stderr);
	buf_done(b);
}

void server_log_call(void *arg, const struct api_call *c)
{
	struct json j;
	struct buf b;

	line_begin(&b, &j, c->status >= 500 ? "error" : "info");
	json_kv_str(&j, "request_id", c->id);
	json_kv_str(&j, "method", c->method);
	json_kv_str(&j, "path", c->path ? c->path : "");
	if (c->route)
		json_kv_str(&j, "operation", c->route->id);
	json_kv_u64(&j, "status", c->status);
	json_kv_u64(&j, "ms", ev_now(c->api->ev) - c->began_ms);
	json_kv_str(&j, "by", c->who.by);
	if (atomic_load(&c->gone))
		json_kv_bool(&j, "gone", true);
	line_end(&b, &j);
}

void server_log_reaped(void *arg, const char *action, const char *box, const char *cause)
{
	struct json j;
	struct buf b;

	line_begin(&b, &j, strcmp(action, "failed") == 0 ? "error" : "info");
	json_kv_str(&j, "box", box);
	json_kv_str(&j, "action", action);
	json_kv_str(&j, "cause", cause);
	line_end(&b, &j);
}

void server_log_filled(void *arg, uint64_t made, uint64_t dropped, const char *why)
{
	struct json j;
	struct buf b;

	line_begin(&b, &j, why[0] ? "error" : "info");
	json_kv_str(&j, "action", "pool");
	json_kv_u64(&j, "made", made);
	json_kv_u64(&j, "dropped", dropped);
	if (why[0])
		json_kv_str(&j, "cause", why);
	line_end(&b, &j);
}

void server_log(const char *level, const char *fmt, ...)
{
	char text[LOG_TEXT_MAX];
	struct json j;
	struct buf b;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	line_begin(&b, &j, level);
	json_kv_str(&j, "message", text);
	line_end(&b, &j);
}
