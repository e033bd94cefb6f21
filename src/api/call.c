/*
 * A request from its head to its answer; see api.h.
 *
 *	READS --body is there--> RUNS --reply--> OVER
 *				   | begin, first byte	    | end, cut
 *				   +--> STREAMS ------------+
 *				   +--> SOCKET  ------------+
 *
 * JSON that is long is read in a thread, also where the handler is one of the loop.
 *
 * A client that goes leaves a call without a sink: what is under way in the loop is cancelled by
 * its on_gone, a thread sees it (`gone`, its pipes, cancel_fd) and the call ends when it has.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/ports.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits_server.h"
#include "base/rand.h"
#include "base/str.h"
#include "http/sse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void call_leave(struct api_call *c)
{
	c->api->streams -= c->state == API_STREAMS;
	c->api->sockets -= c->state == API_SOCKET;
	c->state = API_OVER;
}

static void call_log(struct api_call *c)
{
	call_leave(c);
	api_trail_note(c);
	api_call_count(c);
	if (c->api->options.on_log)
		c->api->options.on_log(c->api->options.arg, c);
}

static void call_reply_now(struct api_call *c)
{
	struct api_sink *s = c->sink;

	call_log(c);
	if (s)
		s->on_reply(s, c);
	else
		api_call_free(c);
}

void api_reply(struct api_call *c, int r, const struct err *e)
{
	ASSERT(c->state <= API_RUNS);
	if (r == 0 && c->json.error == 0 && c->status == 0)
		c->status = 200;
	if (r == 0 && c->json.error < 0) {
		struct err full;

		r = err_errno(&full, -c->json.error, "write the answer");
		api_error(c, &full);
	} else if (r < 0) {
		api_error(c, e);
	} else if (!c->is_exact) {
		api_caller_hide(c, &c->out);
	}
	call_reply_now(c);
}

void api_begin(struct api_call *c, unsigned status, const char *type)
{
	ASSERT(c->state == API_RUNS && c->sink);
	c->state = API_STREAMS;
	c->api->streams++;
	c->status = status;
	c->has_begun = true;
	api_trail_note(c);
	c->type = type;
	c->sink->on_begin(c->sink, c);
}

bool api_bytes(struct api_call *c, const void *p, size_t n)
{
	ASSERT(c->state == API_STREAMS && c->sink);
	return c->sink->on_bytes(c->sink, c, p, n);
}

void api_body_room(struct api_call *c)
{
	if (c->sink)
		c->sink->on_body_room(c->sink, c);
}

void api_end(struct api_call *c, bool cut)
{
	ASSERT(c->state == API_STREAMS);
	call_log(c);
	c->sink->on_end(c->sink, c, cut);
}

/* ---- sockets ---- */

bool api_wants_socket(const struct api_call *c)
{
	return http_head_has_token(&c->head, "Upgrade", "websocket");
}

int api_socket(struct api_call *c, struct err *e)
{
	int r = c->sink->on_socket(c->sink, c, e);

	if (r == 0) {
		c->state = API_SOCKET;
		c->api->sockets++;
		c->status = 101;
		c->has_begun = true;
		api_trail_note(c);
	}
	return r;
}

bool api_message(struct api_call *c, bool is_text, const void *p, size_t n)
{
	ASSERT(c->state == API_SOCKET && c->sink);
	return c->sink->on_message(c->sink, c, is_text, p, n);
}

void api_socket_room(struct api_call *c)
{
	c->is_full = false;
	if (c->sink)
		c->sink->on_body_room(c->sink, c);
}

void api_socket_end(struct api_call *c, unsigned code, const char *reason)
{
	ASSERT(c->state == API_SOCKET && c->sink);
	call_log(c);
	c->sink->on_socket_end(c->sink, c, code, reason);
}

bool api_event(struct api_call *c, const char *event, const char *id, const char *data)
{
	struct buf b;
	bool more = false;

	buf_init(&b, API_OUT_MAX);
	if (sse_event_write(&b, &(struct sse_event){event, id, data, strlen(data)}) == 0)
		more = api_bytes(c, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return more;
}

/* ---- the handler ---- */

static void call_run(struct api_call *c)
{
	struct err e = {0};
	int r;

	c->state = API_RUNS;
	if (c->route->work) {
		r = api_work_start(c, &e);
		if (r == 0)
			return;
	} else {
		r = c->route->now(c, &e);
		if (r == API_LATER)
			return;
	}
	api_reply(c, r, &e);
}

int api_call_decode(struct api_call *c, struct err *e)
{
	int r = 0;

	if (buf_len(&c->text) > 0)
		r = api_in_parse((const char *)buf_data(&c->text), buf_len(&c->text), &c->body, e);
	buf_done(&c->text);
	buf_init(&c->text, 0);
	return r == 0 && c->route->take ? c->route->take(c, e) : r;
}

void api_call_decoded(struct api_call *c)
{
	if (c->on_decoded) {
		c->on_decoded(c);
	} else if (!c->sink) {
		c->result = err_set(&c->error, ERR_INTERRUPTED, ECANCELED, "the client has gone");
		api_call_gone_ends(c);
	} else if (c->result < 0) {
		api_reply(c, c->result, &c->error);
	} else {
		call_run(c);
	}
}

static void call_take_json(struct api_call *c)
{
	struct err e = {0};
	int r;

	if (c->route->work) {
		call_run(c); /* its thread decodes */
		return;
	}
	c->state = API_RUNS;
	if (buf_len(&c->text) <= API_JSON_HERE_MAX) {
		c->result = api_call_decode(c, &c->error);
		api_call_decoded(c);
		return;
	}
	r = api_work_decode(c, &e);
	if (r < 0) /* else the result is the thread's */
		api_reply(c, r, &e);
}

size_t api_call_body(struct api_call *c, const void *p, size_t n)
{
	struct err e;
	int r;

	if (c->state == API_OVER)
		return n;
	if (c->route->body == API_BODY_BYTES && c->state <= API_STREAMS)
		return api_work_feed(c, p, n);
	if (c->route->body == API_BODY_STREAM)
		return c->on_body(c, p, n);
	if (c->state != API_READS || n == 0)
		return n;
	r = api_body_hold(c, buf_len(&c->text) + n, &e);
	if (r == 0 && buf_append(&c->text, p, n) < 0)
		r = err_set(&e, ERR_LIMIT, EMSGSIZE, "the request's body is longer than %zu bytes",
			    c->text.max);
	if (r < 0)
		api_reply(c, r, &e);
	return n;
}

void api_call_end_body(struct api_call *c)
{
	if (c->state == API_OVER)
		return;
	if (c->route->body == API_BODY_BYTES)
		api_work_end_body(c);
	else if (c->route->body == API_BODY_STREAM)
		c->on_body_end(c);
	else if (c->state == API_READS)
		call_take_json(c);
}

bool api_call_wants_body(const struct api_call *c)
{
	return c->state == API_READS || (c->state <= API_STREAMS && c->wants_body) ||
	       (c->state <= API_STREAMS && c->route && c->route->body == API_BODY_BYTES);
}

void api_call_has_room(struct api_call *c)
{
	if (c->stream_pipe)
		api_work_read(c);
	else if (c->on_room)
		c->on_room(c);
}

void api_call_message(struct api_call *c, bool is_text, const void *p, size_t n)
{
	if (c->state == API_SOCKET && c->on_message)
		c->on_message(c, is_text, p, n);
}

/* ---- begin and end ---- */

/* Authority before knowledge: without a key no route is shown to be there. */
static int call_admit(struct api_call *c, struct err *e)
{
	struct err why = {0};
	int r, found;

	if (api_port_is_named(c))
		return api_port_admit(c, e);
	r = api_caller_find(c, &c->client, e);
	found = api_route_find(c, &why);
	if (found == 0 && c->route->scope == 0)
		return 0;
	if (r == 0 && found < 0) {
		*e = why;
		r = found;
	}
	return r < 0 ? r : api_caller_may(&c->who, c->route->scope, e);
}

struct api_call *api_call_new(struct api *a, struct api_sink *sink, struct http_head *head_take,
			      const struct api_client_info *client)
{
	struct api_call *c = calloc(1, sizeof(*c));
	struct err e = {0};
	int r;

	if (!c)
		return NULL;
	c->api = a;
	c->sink = sink;
	c->head = *head_take;
	*head_take = (struct http_head){0};
	c->client = *client;
	c->client.address = api_memory_printf(&c->memory, "%s", client->address);
	c->began_ms = ev_now(a->ev);
	c->began_ns = clock_mono_ns();
	c->length = API_LENGTH_UNKNOWN;
	c->min_wall = a->options.min_wall;
	c->cancel_fd = c->body_fd = c->stream_fd = -1;
	c->next = a->calls;
	c->at = &a->calls;
	if (c->next)
		c->next->at = &c->next;
	a->calls = c;
	rand_hex(c->id, 8);
	buf_init(&c->out, API_OUT_MAX);
	json_init(&c->json, &c->out);
	c->method = c->head.method;
	api_trace_take(&c->trace, http_head_find(&c->head, "traceparent"));
	r = call_admit(c, &e);
	if (r == 0)
		r = api_account_enter(c, &e);
	c->asked = c->route;
	if (r < 0) {
		c->route = NULL;
		api_reply(c, r, &e);
		return c;
	}
	buf_init(&c->text, c->route->body_max ? c->route->body_max : API_JSON_MAX);
	/* Of empty ones nothing is moved. */
	if (c->route->secret &&
	    (buf_set_secret(&c->text, true) < 0 || buf_set_secret(&c->out, true) < 0))
		ASSERT(!"buffers that hold nothing");
	/* Of a stranger no body is kept, nor awaited. */
	if (c->route->body >= API_BODY_BYTES || c->route->scope == 0)
		call_run(c);
	return c;
}

void api_call_gone(struct api_call *c)
{
	struct err e;

	atomic_store(&c->gone, true);
	c->sink = NULL;
	if (c->state == API_READS) {
		err_set(&e, ERR_INTERRUPTED, ECANCELED, "the client has gone");
		api_error(c, &e); /* for the logs: nothing was done */
	}
	if (c->job.on_run) {
		call_leave(c);
		api_work_gone(c);
		return;
	}
	call_log(c);
	if (c->on_gone)
		c->on_gone(c);
	api_call_free(c);
}

void api_call_gone_ends(struct api_call *c)
{
	if (c->result < 0 && !c->has_begun) /* whatever the handler was about to say */
		api_error(c, &c->error);
	call_log(c);
	api_call_free(c);
}

void api_call_free(struct api_call *c)
{
	ASSERT(!c->job.on_run);
	api_work_done(c);
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	http_head_done(&c->head);
	http_head_done(&c->trailers);
	json_decref(c->body);
	buf_done(&c->text);
	buf_done(&c->out);
	api_charge_end(&c->charge);
	api_caller_done(&c->who);
	api_memory_done(&c->memory);
	free(c);
}

/* ---- for handlers ---- */

const char *api_param(const struct api_call *c, const char *name)
{
	for (size_t i = 0; i < c->param_count; i++)
		if (strlen(name) == c->params[i].name_len &&
		    memcmp(name, c->params[i].name, c->params[i].name_len) == 0)
			return c->params[i].value;
	ASSERT(!"a parameter that the route's pattern has");
	return NULL;
}

struct json *api_json(struct api_call *c, unsigned status)
{
	c->status = status;
	return &c->json;
}

int api_json_take(struct api_call *c, unsigned status, char *text, struct err *e)
{
	int r = text ? buf_append_str(&c->out, text) : -ENOMEM;

	free(text);
	c->status = status;
	return r < 0 ? err_errno(e, -r, "write the answer") : 0;
}

int api_no_content(struct api_call *c)
{
	c->status = 204;
	return 0;
}

void api_field(struct api_call *c, const char *name, const char *value)
{
	ASSERT(c->field_count < API_FIELDS_MAX);
	c->fields[c->field_count++] = (struct http_field){name, value};
}

int api_failed(int r, const struct cove_error *err, struct err *e)
{
	e->kind = (enum err_kind)err->kind;
	e->code = err->code;
	str_copy(e->msg, sizeof(e->msg), err->message);
	return r;
}
