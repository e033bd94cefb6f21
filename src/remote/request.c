/*
 * Requests to the server and their answers; see remote.h.
 *
 *	remote_begin -> query, object -> remote_call ... (open -> next ... -> done)
 *
 * What the server says is untrusted: its head and body go through the strict reader of src/http,
 * everything that is kept has a maximum, and JSON is an object or an error.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"
#include "http/reply.h"
#include "http/sse_read.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 16 << 20, TARGET_MAX = 64 << 10, PIECE = 128 << 10, FIELDS_MAX = 16 };

static const struct http_limits limits = {.head_max = 64 << 10, .fields_max = 100};

/* ---- filling in ---- */

void remote_note(struct remote_request *q, int r)
{
	if (r < 0 && q->error == 0)
		q->error = r;
}

static void put_segment(struct remote_request *q, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "-._~";

	/* One that others would resolve is no name of anything. */
	if (!*text || strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
		remote_note(q, -EINVAL);
	for (; *text; text++)
		remote_note(q, strchr(plain, *text)
				       ? buf_append(&q->path, text, 1)
				       : buf_printf(&q->path, "%%%02X", (uint8_t)*text));
}

void remote_begin(struct remote_request *q, struct cove *cove, const char *method, const char *path,
		  ...)
{
	va_list ap;

	*q = (struct remote_request){
		.cove = cove, .method = method, .repeats = strcmp(method, "GET") == 0};
	buf_init(&q->path, TARGET_MAX);
	buf_init(&q->body, BODY_MAX);
	remote_note(q, buf_append_str(&q->path, cove->host.prefix));
	va_start(ap, path);
	for (; *path; path++) {
		if (path[0] == '{' && path[1] == '}') {
			put_segment(q, va_arg(ap, const char *));
			path++;
		} else {
			remote_note(q, buf_append(&q->path, path, 1));
		}
	}
	va_end(ap);
}

void remote_query(struct remote_request *q, const char *name, const char *value)
{
	struct buf one;

	if (!value)
		return;
	buf_init(&one, TARGET_MAX);
	remote_note(q, http_query_add(&one, name, value));
	remote_note(q, buf_append(&q->path, q->has_query ? "&" : "?", 1));
	remote_note(q, buf_append(&q->path, buf_data(&one), buf_len(&one)));
	buf_done(&one);
	q->has_query = true;
}

void remote_query_u64(struct remote_request *q, const char *name, uint64_t value)
{
	char text[24];

	/* A server's numbers end where JSON's do. */
	snprintf(text, sizeof(text), "%llu",
		 value > INT64_MAX ? (unsigned long long)INT64_MAX : (unsigned long long)value);
	remote_query(q, name, value ? text : NULL);
}

void remote_query_bool(struct remote_request *q, const char *name, bool value)
{
	remote_query(q, name, value ? "true" : NULL);
}

struct json *remote_object(struct remote_request *q)
{
	if (!q->has_json) {
		json_init(&q->json, &q->body);
		json_object_begin(&q->json);
	}
	q->has_json = true;
	return &q->json;
}

void remote_put_list(struct json *j, const char *key, const char *const *list)
{
	if (!list || !*list)
		return;
	json_key(j, key);
	json_array_begin(j);
	for (; *list; list++)
		json_str(j, *list);
	json_array_end(j);
}

void remote_put_str(struct json *j, const char *key, const char *s)
{
	if (s)
		json_kv_str(j, key, s);
}

void remote_put_amount(struct json *j, const char *key, uint64_t v)
{
	if (v == COVE_UNLIMITED)
		json_kv_i64(j, key, -1);
	else if (v)
		json_kv_u64(j, key, v);
}

void remote_put_bool(struct json *j, const char *key, bool v)
{
	if (v)
		json_kv_bool(j, key, true);
}

static void request_done(struct remote_request *q)
{
	buf_done(&q->path);
	buf_done(&q->body);
}

/* ---- sending ---- */

static int write_head(const struct remote_request *q, struct buf *out, struct err *e)
{
	struct cove *cove = q->cove;
	struct http_field fields[FIELDS_MAX] = {{"Host", cove->host.authority},
						{"User-Agent", "cove/" COVE_VERSION}};
	struct http_head head = {.method = q->method, .fields = fields, .field_count = 2};
	bool has_body = strcmp(q->method, "GET") != 0;
	char *bearer = NULL, length[24];
	int r;

	ASSERT(q->field_count + 6 <= FIELDS_MAX);
	head.target = buf_cstr((struct buf *)&q->path);
	snprintf(length, sizeof(length), "%zu", buf_len(&q->body));
	if (cove->key && asprintf(&bearer, "Bearer %s", cove->key) < 0)
		return err_errno(e, ENOMEM, "write a request");
	if (bearer)
		fields[head.field_count++] = (struct http_field){"Authorization", bearer};
	if (q->accept)
		fields[head.field_count++] = (struct http_field){"Accept", q->accept};
	if (q->uploads)
		fields[head.field_count++] = (struct http_field){"Transfer-Encoding", "chunked"};
	else if (has_body)
		fields[head.field_count++] = (struct http_field){"Content-Length", length};
	if (q->has_json || q->uploads)
		fields[head.field_count++] = (struct http_field){
			"Content-Type",
			q->has_json ? "application/json" : "application/octet-stream"};
	for (size_t i = 0; i < q->field_count; i++)
		fields[head.field_count++] = q->fields[i];
	r = head.target ? http_head_write(&head, out) : -ENOMEM;
	if (bearer)
		explicit_bzero(bearer, strlen(bearer));
	free(bearer);
	return r < 0 ? err_errno(e, -r, "write a request") : 0;
}

/* Whoever asked wants no answer any more? */
static int given_up(int cancel_fd, struct err *e)
{
	if (cancel_fd <= 0 || !fd_is_cancelled(cancel_fd))
		return 0;
	return err_set(e, ERR_INTERRUPTED, ECANCELED, "it was given up");
}

static int await_head(struct remote_conn *c, const struct remote_request *q,
		      struct remote_answer *ret, struct err *e)
{
	for (;;) {
		size_t used = 0;
		int r = http_response_parse(&ret->head, buf_data(&c->in), buf_len(&c->in), &limits,
					    false, &used, e);
		ssize_t n;

		if (r > 0) {
			buf_consume(&c->in, used);
			if (ret->head.status >= 200 || ret->head.status == 101)
				return 0;
			http_head_done(&ret->head); /* 100 and its like */
			continue;
		}
		if (r < 0)
			return err_set(e, ERR_PROTOCOL, EPROTO,
				       "what answers at COVE_HOST is no Cove server");
		n = remote_conn_read(c,
				     q->waits	  ? -1
				     : q->head_ms ? q->head_ms
						  : REMOTE_HEAD_MS,
				     q->cancel_fd, e);
		if (n == -EAGAIN && given_up(q->cancel_fd, e) < 0)
			return -ECANCELED;
		if (n == -EAGAIN)
			return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the server does not answer");
		if (n < 0)
			return (int)n;
		if (n == 0 && buf_len(&c->in) > 0)
			return err_set(e, ERR_PROTOCOL, EPROTO, "the server's answer was cut");
		if (n == 0) {
			err_set(e, ERR_INTERRUPTED, 0,
				"the server ended the connection before it answered");
			return -ECONNRESET;
		}
	}
}

/* One that is idle and was not closed meanwhile, or a fresh one. */
static int get_conn(const struct remote_request *q, struct ev *ev, struct remote_conn **ret,
		    struct err *e)
{
	struct cove *cove = q->cove;
	struct remote_conn *c = cove->idle;

	if (c && ev == cove->ev) {
		cove->idle = NULL;
		if (remote_conn_read(c, 0, 0, e) == -EAGAIN) {
			*ret = c;
			return 0;
		}
		remote_conn_free(c);
	}
	return remote_conn_open(cove, ev, q->connect_ms ? q->connect_ms : -1, ret, e);
}

/* The request goes out; what it uploads comes after that. */
static int send_request(struct remote_request *q, struct ev *ev, struct remote_conn **ret,
			struct err *e)
{
	struct buf out;
	int r;

	buf_init(&out, BODY_MAX + TARGET_MAX + (64 << 10));
	r = buf_set_secret(&out, q->is_secret);
	if (r == 0)
		r = write_head(q, &out, e);
	if (r == 0)
		r = buf_append(&out, buf_data(&q->body), buf_len(&q->body));
	if (r == 0)
		r = get_conn(q, ev, ret, e);
	if (r == 0)
		r = remote_conn_write(*ret, buf_data(&out), buf_len(&out), e);
	buf_done(&out);
	return r;
}

/* Takes c. */
static int take_head(struct remote_request *q, struct remote_conn *c, struct remote_answer *ret,
		     struct err *e)
{
	int r;

	*ret = (struct remote_answer){.cove = q->cove, .cancel_fd = q->cancel_fd};
	r = await_head(c, q, ret, e);
	if (r == 0 && ret->head.status != 101) {
		r = http_body_init_response(&ret->body, &ret->head, q->method, &limits, e);
		ret->has_body = r == 0;
		ret->ended = ret->body.ended;
	}
	if (r < 0) {
		http_head_done(&ret->head);
		remote_conn_free(c);
		return r;
	}
	q->cove->reached = true;
	ret->conn = c;
	return 0;
}

static int exchange(struct remote_request *q, struct ev *ev, struct remote_answer *ret,
		    struct err *e)
{
	struct remote_conn *c = NULL;
	int r = send_request(q, ev, &c, e);

	/* Lost while it was sent: the answer may be there all the same. */
	if (r == 0 || (remote_is_lost(r) && c))
		return take_head(q, c, ret, e);
	remote_conn_free(c);
	return r;
}

/* ---- answers ---- */

int remote_answer_next(struct remote_answer *a, int timeout_ms, const void **p, size_t *n,
		       struct err *e)
{
	struct remote_conn *c = a->conn;

	buf_consume(&c->in, a->used);
	a->used = 0;
	while (!a->ended) {
		const uint8_t *data = NULL;
		size_t used = 0, len = 0;
		ssize_t got;
		int r = http_body_feed(&a->body, buf_data(&c->in), buf_len(&c->in), &used, &data,
				       &len, e);

		if (r < 0)
			return err_set(e, ERR_PROTOCOL, EPROTO, "the server's answer is broken");
		a->ended = r > 0;
		if (len > 0) {
			a->used = used;
			*p = data;
			*n = len;
			return 1;
		}
		buf_consume(&c->in, used);
		if (a->ended || used > 0)
			continue;
		got = remote_conn_read(c, timeout_ms, a->cancel_fd, e);
		if (got == 0 && http_body_close(&a->body, NULL) == 0) {
			a->ended = true;
		} else if (got == 0) {
			err_set(e, ERR_INTERRUPTED, 0, "the server's answer was cut");
			return -ECONNRESET;
		} else if (got < 0) {
			return (int)got;
		}
	}
	return 0;
}

void remote_answer_done(struct remote_answer *a)
{
	struct remote_conn *c = take_ptr(a->conn);

	if (c)
		buf_consume(&c->in, a->used);
	if (c && a->ended && !a->cove->idle && c->ev == a->cove->ev && http_keep_alive(&a->head) &&
	    a->body.framing != HTTP_UNTIL_CLOSE && buf_len(&c->in) == 0 && !c->ended)
		a->cove->idle = c;
	else
		remote_conn_free(c);
	if (a->has_body)
		http_body_done(&a->body);
	http_head_done(&a->head);
	*a = (struct remote_answer){0};
}

/* All of it, at most max. */
static int read_all(struct remote_answer *a, bool waits, struct buf *out, struct err *e)
{
	const void *p;
	size_t n;
	int r;

	while ((r = remote_answer_next(a, waits ? -1 : REMOTE_STALL_MS, &p, &n, e)) > 0)
		if (buf_append(out, p, n) < 0)
			return err_set(e, ERR_LIMIT, EMSGSIZE,
				       "the server's answer is longer than %zu bytes", out->max);
	if (r == -EAGAIN && given_up(a->cancel_fd, e) < 0)
		return -ECANCELED;
	if (r == -EAGAIN)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			       "the rest of the server's answer does "
			       "not come");
	return r;
}

static enum err_kind kind_of(const char *code)
{
	if (strcmp(code, "unauthorized") == 0)
		return ERR_DENIED;
	if (strcmp(code, "too_large") == 0)
		return ERR_LIMIT;
	if (strcmp(code, "method_not_allowed") == 0)
		return ERR_UNSUPPORTED;
	return err_kind_find(code);
}

int remote_error(const struct cove *cove, unsigned status, const void *p, size_t n, struct err *e)
{
	json_t *o = json_loadb(p, n, 0, NULL);
	const json_t *said = json_object_get(o, "error");
	const char *code = remote_text(said, "code"), *message = remote_text(said, "message");
	const char *name = remote_text(said, "errno");
	char where[300];

	if (code && message && *message) {
		*e = (struct err){.kind = kind_of(code), .code = name ? err_code_find(name) : 0};
		str_copy(e->msg, sizeof(e->msg), message);
		if (status == 401)
			err_prefix(e, cove->key ? "the server refuses this API key"
						: "COVE_API_KEY is not set");
		json_decref(o);
		return e->code ? -e->code : -EIO;
	}
	json_decref(o);
	/* It is a Cove server's, and the request was none of its own: a text says why. */
	if (status == 421 && n > 0) {
		const char *end = memchr(p, '\n', n);

		return err_set(e, ERR_DENIED, EACCES, "%.80s: %.*s", remote_name(cove, where),
			       (int)(end ? (size_t)(end - (const char *)p) : n), (const char *)p);
	}
	return err_set(e, status == 401 || status == 403 ? ERR_DENIED : ERR_PROTOCOL,
		       status == 401 || status == 403 ? EACCES : EPROTO,
		       "%.150s answered %u %s, which is no answer of a Cove server",
		       remote_name(cove, where), status, http_reason(status));
}

/* What a conflict says beside its error; owned. NULL: nothing. */
static json_t *details_of(unsigned status, const void *p, size_t n)
{
	json_t *o = status == 409 ? json_loadb(p, n, 0, NULL) : NULL;
	json_t *details = json_object_get(json_object_get(o, "error"), "details");

	details = json_is_object(details) ? json_incref(details) : NULL;
	json_decref(o);
	return details;
}

/* The server's own error, in place of the answer. */
static int take_refusal(struct remote_answer *a, json_t **ret_details, struct err *e)
{
	struct buf text;
	int r;

	buf_init(&text, REMOTE_ERROR_MAX);
	r = read_all(a, false, &text, e);
	if (r == 0 || r == -EMSGSIZE)
		r = remote_error(a->cove, a->head.status, buf_data(&text), buf_len(&text), e);
	if (ret_details)
		*ret_details = details_of(a->head.status, buf_data(&text), buf_len(&text));
	buf_done(&text);
	remote_answer_done(a);
	return r;
}

/* What is said is whole, or why not; then the request is freed. */
static int seal(struct remote_request *q, struct err *e)
{
	int r = q->error;

	if (r == 0 && q->has_json) {
		json_object_end(&q->json);
		r = q->json.error;
	}
	if (r == 0)
		return 0;
	request_done(q);
	/* What was said last is the error, whatever else was noted. */
	if (e->kind != ERR_NONE)
		return e->code ? -e->code : r;
	return r == -EINVAL ? err_set(e, ERR_INVALID, EINVAL, "'' and '..' are no names")
			    : err_set(e, ERR_LIMIT, E2BIG, "the request is too long");
}

static void say_lost(int r, struct err *e)
{
	if (remote_is_lost(r))
		err_set(e, ERR_INTERRUPTED, ECONNRESET,
			"the connection to the server was lost: whether it did this is not known");
}

int remote_open(struct remote_request *q, struct ev *ev, struct remote_answer *ret, struct err *e)
{
	int r = seal(q, e), pause = 50;

	if (r < 0)
		return r;
	ev = ev ? ev : q->cove->ev;
	for (int i = 0;; i++, pause *= 4) {
		r = exchange(q, ev, ret, e);
		if (!remote_is_lost(r) || !q->repeats || i == REMOTE_REPEATS)
			break;
		(void)remote_wait(ev, pause, q->cancel_fd);
	}
	if (!q->repeats)
		say_lost(r, e);
	request_done(q);
	if (r == 0 && ret->head.status >= 300)
		r = take_refusal(ret, q->ret_details, e);
	return r;
}

/* ---- bodies that come piece by piece ---- */

int remote_upload_begin(struct remote_request *q, struct remote_upload *ret, struct err *e)
{
	int r;

	q->uploads = true;
	r = seal(q, e);
	if (r < 0)
		return r;
	*ret = (struct remote_upload){.q = *q};
	buf_init(&ret->out, PIECE + 64);
	r = send_request(&ret->q, q->cove->ev, &ret->conn, e);
	if (r == 0)
		return 0;
	say_lost(r, e);
	remote_upload_drop(ret);
	return r;
}

int remote_upload_piece(struct remote_upload *u, const void *p, size_t n, struct err *e)
{
	const uint8_t *at = p;
	int r = 0;

	for (size_t part; r == 0 && n > 0 && !u->answered; at += part, n -= part) {
		part = n < PIECE ? n : PIECE;
		buf_clear(&u->out);
		r = http_body_write(HTTP_CHUNKED, &u->out, at, part);
		if (r == 0)
			r = remote_conn_write(u->conn, buf_data(&u->out), buf_len(&u->out), e);
		/* An answer is here already: why it takes no more. */
		u->answered = remote_is_lost(r) || buf_len(&u->conn->in) > 0 ||
			      (r == 0 && remote_conn_read(u->conn, 0, 0, e) > 0);
	}
	return u->answered ? 1 : r;
}

void remote_upload_drop(struct remote_upload *u)
{
	remote_conn_free(u->conn);
	u->conn = NULL;
	buf_done(&u->out);
	request_done(&u->q);
}

int remote_upload_end(struct remote_upload *u, struct remote_answer *ret, struct err *e)
{
	int r = 0;

	buf_clear(&u->out);
	if (!u->answered) {
		r = http_body_write_end(HTTP_CHUNKED, NULL, &u->out);
		if (r == 0)
			r = remote_conn_write(u->conn, buf_data(&u->out), buf_len(&u->out), e);
	}
	if (r == 0 || remote_is_lost(r)) {
		r = take_head(&u->q, take_ptr(u->conn), ret, e);
		say_lost(r, e);
		/* Nothing more goes over a connection that was not taken to its end. */
		if (r == 0 && u->answered)
			ret->conn->ended = true;
	}
	remote_upload_drop(u);
	if (r == 0 && ret->head.status >= 300)
		r = take_refusal(ret, NULL, e);
	return r;
}

int remote_answer_json(struct remote_answer *a, json_t **ret, struct err *e)
{
	json_t *o = NULL;
	struct buf text;
	int r;

	buf_init(&text, REMOTE_ANSWER_MAX);
	r = read_all(a, false, &text, e);
	say_lost(r, e);
	/* An older server has nothing to say where a newer one has. */
	if (r == 0 && a->head.status == 204)
		o = json_object();
	else if (r == 0)
		o = json_loadb((const char *)buf_data(&text), buf_len(&text),
			       JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	buf_done(&text);
	remote_answer_done(a);
	if (r == 0 && !json_is_object(o)) {
		json_decref(o);
		return err_set(e, ERR_PROTOCOL, EPROTO, "the server's answer is no object");
	}
	if (r == 0)
		*ret = o;
	return r;
}

/* ---- whole answers ---- */

/* Read, so that the connection can be used again. It is done, however its answer ends. */
static void pass_over(struct remote_answer *a)
{
	struct err ignored = {0};
	const void *p;
	size_t n;
	int r = 1;

	while (a->head.status != 204 && r > 0)
		r = remote_answer_next(a, REMOTE_STALL_MS, &p, &n, &ignored);
	remote_answer_done(a);
}

int remote_call(struct remote_request *q, json_t **ret, struct err *e)
{
	struct remote_answer a;
	int r;

	q->ret_details = q->keeps_details ? ret : NULL;
	r = remote_open(q, NULL, &a, e);
	/* The refusal that was kept. */
	if (r < 0 && q->ret_details && *ret) {
		*e = (struct err){0};
		return 0;
	}
	if (r < 0)
		return r;
	if (ret)
		return remote_answer_json(&a, ret, e);
	pass_over(&a);
	return 0;
}

int remote_call_text(struct remote_request *q, char **ret, struct err *e)
{
	json_t *o = NULL;
	int r = remote_call(q, &o, e);

	if (r < 0)
		return r;
	*ret = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return *ret ? 0 : err_errno(e, ENOMEM, "keep the server's answer");
}

static int take_events(struct remote_answer *a, struct sse_reader *s, remote_on_event *on_event,
		       void *arg, struct err *e)
{
	const void *p;
	size_t n;
	int r;

	while ((r = remote_answer_next(a, -1, &p, &n, e)) > 0) {
		const char *at = p;
		struct sse_event event;
		size_t used;

		while ((r = sse_reader_feed(s, at, n, &used, &event, e)) > 0) {
			at += used;
			n -= used;
			if (event.name && strcmp(event.name, "error") == 0)
				return remote_error(a->cove, 0, event.data, event.len, e);
			if (!on_event(arg, event.name ? event.name : "", event.data, event.len))
				return 0;
		}
		if (r < 0)
			return r;
	}
	return r == -EAGAIN ? 0 : r;
}

int remote_call_events(struct remote_request *q, remote_on_event *on_event, void *arg,
		       struct err *e)
{
	struct remote_answer a;
	struct sse_reader s;
	int r;

	q->accept = "text/event-stream";
	q->waits = true;
	r = remote_open(q, NULL, &a, e);
	if (r < 0)
		return r;
	sse_reader_init(&s, REMOTE_EVENT_MAX);
	r = take_events(&a, &s, on_event, arg, e);
	sse_reader_done(&s);
	remote_answer_done(&a);
	return r;
}
