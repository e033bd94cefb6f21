/* Traces; see otlp.h. */
#include "server/otlp.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/url.h"
#include "server/post.h"
#include "server/server.h"
#include "store/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct otlp {
	struct ev *ev;
	struct ev_work *work; /* one thread */
	struct ev_timer timer;
	struct ev_job job;
	bool busy;
	char url[OTLP_URL_MAX + 16];
	char fields[OTLP_HEADERS_MAX + 64];

	pthread_mutex_t lock;
	char *spans[OTLP_SPANS_MAX]; /* owned; a ring */
	size_t first, count;
	uint64_t sent, dropped;
	bool failing; /* it was said in the log */
};

/* ---- spans ---- */

struct span {
	char trace[33], id[17], parent[17]; /* parent "": none */
	const char *name;
	unsigned kind; /* 2 server, 3 client */
	uint64_t begin_ns, end_ns;
	bool failed;
};

static void put_text(struct json *j, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	json_object_begin(j);
	json_kv_str(j, "key", key);
	json_key(j, "value");
	json_object_begin(j);
	json_kv_str(j, "stringValue", value);
	json_object_end(j);
	json_object_end(j);
}

/* 64-bit numbers are strings in this form. */
static void put_number(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	json_object_begin(j);
	json_kv_str(j, "key", key);
	json_key(j, "value");
	json_object_begin(j);
	json_kv_str(j, "intValue", text);
	json_object_end(j);
	json_object_end(j);
}

static void put_time(struct json *j, const char *key, uint64_t ns)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)ns);
	json_kv_str(j, key, text);
}

/* Up to its attributes, which follow. */
static void span_begin(struct json *j, const struct span *s)
{
	json_object_begin(j);
	json_kv_str(j, "traceId", s->trace);
	json_kv_str(j, "spanId", s->id);
	if (s->parent[0])
		json_kv_str(j, "parentSpanId", s->parent);
	json_kv_str(j, "name", s->name);
	json_kv_u64(j, "kind", s->kind);
	put_time(j, "startTimeUnixNano", s->begin_ns);
	put_time(j, "endTimeUnixNano", s->end_ns);
	json_key(j, "status");
	json_object_begin(j);
	json_kv_u64(j, "code", s->failed ? 2 : 0);
	json_object_end(j);
	json_key(j, "attributes");
	json_array_begin(j);
}

/* Takes what is in b. */
static void span_push(struct otlp *o, struct json *j, struct buf *b)
{
	char *text;

	json_array_end(j);
	json_object_end(j);
	text = j->error == 0 ? strndup((const char *)buf_data(b), buf_len(b)) : NULL;
	pthread_mutex_lock(&o->lock);
	if (text && o->count < OTLP_SPANS_MAX)
		o->spans[(o->first + o->count++) % OTLP_SPANS_MAX] = take_ptr(text);
	else
		o->dropped++;
	pthread_mutex_unlock(&o->lock);
	free(text);
}

static bool is_traced(const struct api_call *c)
{
	const struct api_route *r = c->asked;

	return r && (strstr(r->pattern, "/files") || strstr(r->pattern, "/exec") ||
		     strcmp(r->id, "createBox") == 0 || strcmp(r->id, "fork") == 0);
}

void otlp_call(struct otlp *o, const struct api_call *c)
{
	uint64_t took_ns = clock_mono_ns() - c->began_ns;
	struct span s = {.kind = 2, .failed = c->status >= 500};
	struct json j;
	struct buf b;

	if (!o || !is_traced(c))
		return;
	s.name = c->asked->id;
	s.end_ns = clock_ns_of(CLOCK_REALTIME);
	s.begin_ns = s.end_ns - took_ns;
	str_copy(s.trace, sizeof(s.trace), c->trace.trace);
	str_copy(s.id, sizeof(s.id), c->trace.span);
	str_copy(s.parent, sizeof(s.parent), c->trace.parent);
	if (!s.trace[0]) {
		rand_hex(s.trace, 16);
		rand_hex(s.id, 8);
	}
	buf_init(&b, OTLP_SPAN_BYTES);
	json_init(&j, &b);
	span_begin(&j, &s);
	put_text(&j, "http.request.method", c->method);
	put_text(&j, "http.route", c->asked->pattern);
	put_number(&j, "http.response.status_code", c->status);
	put_text(&j, "cove.request_id", c->id);
	for (size_t i = 0; i < c->param_count; i++)
		if (c->params[i].name_len == 3 && memcmp(c->params[i].name, "box", 3) == 0)
			put_text(&j, "cove.box", c->params[i].value);
	put_text(&j, "cove.box", c->made);
	put_text(&j, "cove.by", c->who.by);
	span_push(o, &j, &b);
	buf_done(&b);
}

void otlp_door(struct otlp *o, const char *box, const struct audit_row *row)
{
	struct span s = {.kind = 3, .name = "door"};
	struct json j;
	struct buf b;
	char name[32];

	if (!o || (strcmp(row->kind, "request") != 0 && strcmp(row->kind, "connect") != 0))
		return;
	snprintf(name, sizeof(name), "door %s", row->kind);
	s.name = name;
	s.begin_ns = row->time_ms * 1000000;
	s.end_ns = s.begin_ns + row->duration_ms * 1000000;
	s.failed = row->verdict && strcmp(row->verdict, "deny") == 0;
	rand_hex(s.trace, 16);
	rand_hex(s.id, 8);
	buf_init(&b, OTLP_SPAN_BYTES);
	json_init(&j, &b);
	span_begin(&j, &s);
	put_text(&j, "cove.box", box);
	put_text(&j, "server.address", row->host);
	put_number(&j, "server.port", row->port);
	put_text(&j, "http.request.method", row->method);
	put_text(&j, "cove.verdict", row->verdict);
	put_text(&j, "cove.rule", row->rule);
	put_text(&j, "cove.why", row->why);
	if (row->exec_id)
		put_number(&j, "cove.exec_id", row->exec_id);
	span_push(o, &j, &b);
	buf_done(&b);
}

/* ---- sending ---- */

static size_t take_batch(struct otlp *o, struct buf *body, uint64_t *ret_count)
{
	char *batch[OTLP_BATCH];
	size_t n = 0;
	int r = buf_append_str(
		body,
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":{\"stringValue\":\"cove\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":"
		"\"cove\"},\"spans\":[");

	pthread_mutex_lock(&o->lock);
	for (; o->count > 0 && n < OTLP_BATCH; o->count--) {
		batch[n++] = take_ptr(o->spans[o->first]);
		o->first = (o->first + 1) % OTLP_SPANS_MAX;
	}
	pthread_mutex_unlock(&o->lock);
	for (size_t i = 0; i < n; i++) {
		if (r == 0 && i > 0)
			r = buf_append_str(body, ",");
		if (r == 0)
			r = buf_append_str(body, batch[i]);
		free(batch[i]);
	}
	if (r == 0)
		r = buf_append_str(body, "]}]}]}");
	*ret_count = n;
	return r == 0 ? n : 0;
}

static int send_batch(struct otlp *o, struct poster *p)
{
	unsigned status = 0;
	uint64_t count;
	struct err e = {0};
	struct buf body;
	bool ok = false;

	buf_init(&body, OTLP_BATCH * (OTLP_SPAN_BYTES + 1) + 4096);
	if (take_batch(o, &body, &count) > 0)
		ok = p &&
		     post_send(p,
			       &(struct post){.url = o->url,
					      .fields = o->fields,
					      .body = buf_data(&body),
					      .len = buf_len(&body),
					      .cancel_fd = -1},
			       &status, &e) == 0 &&
		     status >= 200 && status < 300;
	buf_done(&body);
	pthread_mutex_lock(&o->lock);
	*(ok ? &o->sent : &o->dropped) += count;
	pthread_mutex_unlock(&o->lock);
	if (count > 0 && !ok && !o->failing)
		server_log("error", "traces cannot be sent: %s (status %u)", e.msg, status);
	o->failing = count > 0 ? !ok : o->failing;
	return ok ? 1 : 0;
}

static void on_run(struct ev_job *j, void *poster)
{
	struct otlp *o = container(j, struct otlp, job);

	while (send_batch(o, poster) > 0)
		;
}

static void on_run_done(struct ev_job *j)
{
	struct otlp *o = container(j, struct otlp, job);

	o->busy = false;
	ev_timer_set(o->ev, &o->timer, OTLP_EVERY_MS);
}

static void on_time(struct ev_timer *t)
{
	struct otlp *o = container(t, struct otlp, timer);
	size_t count;

	pthread_mutex_lock(&o->lock);
	count = o->count;
	pthread_mutex_unlock(&o->lock);
	o->busy = count > 0 && ev_work_push(o->work, &o->job) == 0;
	if (!o->busy)
		ev_timer_set(o->ev, t, OTLP_EVERY_MS);
}

void otlp_counts(struct otlp *o, uint64_t *ret_sent, uint64_t *ret_dropped)
{
	pthread_mutex_lock(&o->lock);
	*ret_sent = o->sent;
	*ret_dropped = o->dropped;
	pthread_mutex_unlock(&o->lock);
}

/* ---- begin and end ---- */

/* Lines "Name: value", as they go into a head; text is cut up. */
static int take_headers(struct otlp *o, char *text, const char *path, struct err *e)
{
	size_t at = strlen(o->fields);

	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		size_t n = strcspn(line, "\r"), name = strcspn(line, ":");

		line[n] = 0;
		if (n == 0 || line[0] == '#')
			continue;
		if (name == 0 || name == n || strcspn(line, " \t") < name)
			return err_set(e, ERR_INVALID, EINVAL, "'%s' has lines \"Name: value\"",
				       path);
		at += (size_t)snprintf(o->fields + at, sizeof(o->fields) - at, "%s\r\n", line);
	}
	return 0;
}

static int read_headers(struct otlp *o, const char *path, struct err *e)
{
	autofree char *text = NULL;
	size_t len;
	int r = fd_read_file(AT_FDCWD, path, OTLP_HEADERS_MAX / 2, &text, &len);

	if (r < 0)
		return err_errno(e, -r, "read '%s'", path);
	r = take_headers(o, text, path, e);
	explicit_bzero(text, len);
	return r;
}

static void *state_new(void *arg)
{
	struct poster *p = NULL;

	return poster_new(&p, NULL) < 0 ? NULL : p;
}

static void state_free(void *state)
{
	poster_free(state);
}

static int prepare(struct otlp *o, const char *url, const char *headers_file, struct err *e)
{
	struct url u;

	if (strlen(url) > OTLP_URL_MAX || url_parse(&u, url) < 0)
		return err_set(e, ERR_INVALID, EINVAL, "otlp: '%.100s' is no URL", url);
	snprintf(o->url, sizeof(o->url), "%s%s", url,
		 u.path[0] == 0		    ? "/v1/traces"
		 : strcmp(u.path, "/") == 0 ? "v1/traces"
					    : "");
	str_copy(o->fields, sizeof(o->fields), "Content-Type: application/json\r\n");
	return headers_file ? read_headers(o, headers_file, e) : 0;
}

int otlp_new(struct otlp **ret, struct ev *ev, const char *url, const char *headers_file,
	     struct err *e)
{
	const struct ev_work_options work = {.threads_max = 1,
					     .queue_max = 1,
					     .idle_ms = 10000,
					     .state_new = state_new,
					     .state_free = state_free};
	struct otlp *o = calloc(1, sizeof(*o));
	int r;

	if (!o)
		return err_errno(e, ENOMEM, "begin to send traces");
	o->ev = ev;
	o->timer.on_timer = on_time;
	o->job = (struct ev_job){.on_run = on_run, .on_done = on_run_done};
	pthread_mutex_init(&o->lock, NULL);
	r = prepare(o, url, headers_file, e);
	if (r == 0 && (r = ev_work_new(ev, &work, &o->work)) < 0)
		err_errno(e, -r, "begin to send traces");
	if (r < 0) {
		otlp_free(o);
		return r;
	}
	ev_timer_set(ev, &o->timer, OTLP_EVERY_MS);
	*ret = o;
	return 0;
}

void otlp_free(struct otlp *o)
{
	struct poster *p = NULL;

	if (!o)
		return;
	ev_timer_stop(o->ev, &o->timer);
	ev_work_free(o->work);
	if (o->count > 0 && poster_new(&p, NULL) == 0)
		while (send_batch(o, p) > 0)
			;
	poster_free(p);
	for (; o->count > 0; o->count--) {
		free(o->spans[o->first]);
		o->first = (o->first + 1) % OTLP_SPANS_MAX;
	}
	pthread_mutex_destroy(&o->lock);
	explicit_bzero(o->fields, sizeof(o->fields));
	free(o);
}
