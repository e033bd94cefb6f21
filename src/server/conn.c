/* Connections; see conn.h. */
#include "server/conn.h"

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSAL_MAX = 4096 };

static const struct http_limits limits = {.head_max = SERVER_HEAD_MAX,
					  .fields_max = SERVER_FIELDS_MAX};

static struct server_conn *conn_of(struct api_sink *s)
{
	return container(s, struct server_conn, sink);
}

void conn_set_timer(struct server_conn *c, uint64_t ms)
{
	ev_timer_set(c->server->ev, &c->timer, ms);
}

void conn_free(struct server_conn *c)
{
	struct server *s = c->server;

	conn_idle_leave(c);
	if (c->call && c->over)
		api_call_free(take_ptr(c->call));
	else if (c->call)
		api_call_gone(take_ptr(c->call));
	ev_timer_stop(s->ev, &c->timer);
	ev_timer_stop(s->ev, &c->ping);
	ev_defer_cancel(s->ev, &c->later);
	api_charge_end(&c->charge);
	channel_free(c->ch, false);
	http_head_done(&c->head);
	http_body_done(&c->body);
	if (c->ws)
		ws_end_done(c->ws);
	free(c->ws);
	buf_done(&c->in);
	buf_done(&c->out);
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	s->conn_count--;
	s->tcp_count -= !c->client.is_local;
	free(c);
	server_setup_drop_old(s);
	if (!s->ending)
		server_listen_again(s);
	else if (s->conn_count == 0)
		ev_quit(s->ev);
}

/* Not at once: whoever asks may be in the middle of it. */
void conn_kill(struct server_conn *c)
{
	c->dead = true;
	conn_idle_leave(c);
	channel_want(c->ch, 0);
	ev_defer(c->server->ev, &c->later);
}

static void on_later(struct ev_defer *d)
{
	struct server_conn *c = container(d, struct server_conn, later);

	if (c->dead)
		conn_free(c);
	else
		conn_go(c);
}

void conn_go_soon(struct server_conn *c)
{
	if (!c->busy)
		ev_defer(c->server->ev, &c->later);
}

/* ---- answers ---- */

static void write_head(struct server_conn *c, struct api_call *call, enum http_framing framing,
		       uint64_t length)
{
	const struct http_head *own = call->answer;
	const struct http_field *given = own ? own->fields : call->fields;
	size_t count = own ? own->field_count : call->field_count;
	struct http_field fields[SERVER_FIELDS_MAX + 2];
	struct http_response r = {.status = call->status,
				  .framing = framing,
				  .length = length,
				  .close = c->state != REQUEST_WAIT || c->server->ending,
				  .fields = fields};

	fields[r.field_count++] = (struct http_field){"X-Request-Id", call->id};
	if (framing != HTTP_NO_BODY && !own)
		fields[r.field_count++] = (struct http_field){
			"Content-Type", call->type ? call->type : "application/json"};
	ASSERT(count <= SERVER_FIELDS_MAX);
	for (size_t i = 0; i < count; i++)
		fields[r.field_count++] = given[i];
	c->begun = true;
	c->left = framing == HTTP_LENGTH ? length : UINT64_MAX;
	if (http_response_write(&c->out, &call->head, &r, &c->sent) < 0)
		conn_kill(c);
}

static void on_reply(struct api_sink *s, struct api_call *call)
{
	struct server_conn *c = conn_of(s);
	size_t n = buf_len(&call->out);
	bool has_body = call->status != 204;

	c->call = call;
	write_head(c, call, has_body ? HTTP_LENGTH : HTTP_NO_BODY, n);
	if (c->sent.framing == HTTP_LENGTH && n > 0 &&
	    http_body_write(HTTP_LENGTH, &c->out, buf_data(&call->out), n) < 0)
		conn_kill(c);
	buf_clear(&call->out);
	c->over = true;
	conn_go_soon(c);
}

static void on_begin(struct api_sink *s, struct api_call *call)
{
	struct server_conn *c = conn_of(s);
	bool known = call->length != API_LENGTH_UNKNOWN;
	enum http_framing framing = call->status == 101 ? HTTP_SWITCHED
				    : known		? HTTP_LENGTH
							: HTTP_CHUNKED;

	c->call = call;
	write_head(c, call, framing, known ? call->length : 0);
	if (framing == HTTP_SWITCHED)
		c->state = REQUEST_RAW;
	conn_set_timer(c, SERVER_STALL_MS);
	conn_go_soon(c);
}

static bool on_bytes(struct api_sink *s, struct api_call *call, const void *p, size_t n)
{
	struct server_conn *c = conn_of(s);

	/* More than was said: the other side would take it for the next answer. */
	if (n > c->left) {
		conn_kill(c);
		return false;
	}
	if (c->left != UINT64_MAX)
		c->left -= n;
	if (c->sent.framing != HTTP_NO_BODY && n > 0 &&
	    http_body_write(c->sent.framing, &c->out, p, n) < 0)
		conn_kill(c);
	c->waits = buf_len(&c->out) >= conn_out_high(c);
	conn_go_soon(c);
	return !c->waits;
}

static void on_end(struct api_sink *s, struct api_call *call, bool cut)
{
	struct server_conn *c = conn_of(s);
	bool is_short = c->left != UINT64_MAX && c->left > 0 && c->sent.framing == HTTP_LENGTH;

	c->over = true;
	/* What broke off must not look whole. */
	if (cut || is_short || c->state == REQUEST_RAW)
		c->sent.close = true;
	else if (c->sent.framing == HTTP_CHUNKED &&
		 http_body_write_end(HTTP_CHUNKED, &call->trailers, &c->out) < 0)
		conn_kill(c);
	conn_go_soon(c);
}

static void on_cut(struct api_sink *s, struct api_call *call)
{
	conn_kill(conn_of(s));
}

/* Not before the API takes the body, nor once some of it or an answer is there. */
static void write_continue(struct server_conn *c)
{
	if (!c->continues || !api_call_wants_body(c->call))
		return;
	c->continues = false;
	if (buf_len(&c->in) == 0 && !c->begun && http_continue_write(&c->out) < 0)
		conn_kill(c);
}

static void on_body_room(struct api_sink *s, struct api_call *call)
{
	struct server_conn *c = conn_of(s);

	/* In the middle of api_call_new there is no call yet. */
	if (c->call)
		write_continue(c);
	conn_go_soon(c);
}

/* How long an answer that is whole may take, so that it is not in memory for as long as its client
 * likes. */
static uint64_t time_to_read(const struct server_conn *c)
{
	return SERVER_STALL_MS + buf_len(&c->out) / SERVER_READ_MIN;
}

static void begin_rest(struct server_conn *c)
{
	conn_set_timer(c, buf_len(&c->in) > 0 ? SERVER_HEAD_MS
			  : c->is_known	      ? SERVER_IDLE_MS
					      : SERVER_STRANGER_MS);
}

/* The head, or the body of the request of this id, could not be read. */
static void refuse(struct server_conn *c, const char *id, const struct err *e)
{
	char own[sizeof(((struct api_call *)NULL)->id)];
	struct http_field fields[] = {{"X-Request-Id", id ? id : own},
				      {"Content-Type", "application/json"}};
	struct http_response r = {.status =
					  e->code >= 400 && e->code < 600 ? (unsigned)e->code : 400,
				  .framing = HTTP_LENGTH,
				  .close = true,
				  .fields = fields,
				  .field_count = 2};
	struct buf text;

	if (!id)
		rand_hex(own, 8);
	buf_init(&text, REFUSAL_MAX);
	if (api_refusal(&text, r.status, e->msg, fields[0].value) < 0)
		conn_kill(c);
	r.length = buf_len(&text);
	if (http_response_write(&c->out, NULL, &r, &c->sent) < 0 ||
	    buf_append(&c->out, buf_data(&text), buf_len(&text)) < 0)
		conn_kill(c);
	buf_done(&text);
	c->begun = false;
	c->state = REQUEST_LINGER;
	conn_set_timer(c, time_to_read(c));
}

/* ---- requests ---- */

/* A page of another site may make a browser ask us; it cannot know a key, and shall not even be
 * heard. Names that somebody else's DNS says are ours are not. */
static int check_site(struct server_conn *c, struct err *e)
{
	const char *origin = http_head_find(&c->head, "Origin");
	struct http_target target;
	int r = http_target_parse(&c->head, &target, e);

	if (r < 0)
		return r;
	if (c->client.is_local || api_host_is_port(c->server->api, target.host))
		return 0;
	if (!server_config_has_host(c->server->config, target.host))
		return err_set(e, ERR_DENIED, 421,
			       "this server is not called '%.100s': name it with --host-name",
			       target.host);
	if (origin &&
	    !server_config_has_origin(c->server->config, origin, &target, c->client.is_tls))
		return err_set(e, ERR_DENIED, 403,
			       "pages of '%.100s' may not ask this server: --origin lets them",
			       origin);
	return 0;
}

/* Ordinary ones again as soon as they are empty. */
static void keep_secret(struct server_conn *c, bool is_secret)
{
	struct buf *both[] = {&c->in, &c->out};

	for (size_t i = 0; i < 2; i++)
		if ((is_secret || buf_len(both[i]) == 0) && buf_set_secret(both[i], is_secret) < 0)
			conn_kill(c);
}

static bool step_head(struct server_conn *c)
{
	struct err e = {0};
	size_t used = 0;
	int r = 0;

	if (c->server->ending && buf_len(&c->in) == 0 && buf_len(&c->out) == 0)
		conn_kill(c);
	if (buf_len(&c->in) > 0)
		r = http_request_parse(&c->head, buf_data(&c->in), buf_len(&c->in), &limits, &used,
				       &e);
	if (r == 0)
		return false;
	if (r > 0)
		r = check_site(c, &e);
	if (r >= 0)
		r = http_body_init_request(&c->body, &c->head, &limits, &e);
	if (r < 0) {
		refuse(c, NULL, &e);
		return true;
	}
	buf_consume(&c->in, used);
	conn_idle_leave(c);
	c->begun = c->over = c->waits = false;
	c->state = c->body.framing == HTTP_NO_BODY ? REQUEST_WAIT : REQUEST_BODY;
	conn_set_timer(c, SERVER_STALL_MS);
	api_charge_end(&c->charge);
	c->client.connections_max = server_tcp_max(c->server);
	c->call = api_call_new(c->server->api, &c->sink, &c->head, &c->client);
	if (!c->call) {
		conn_kill(c);
		return false;
	}
	conn_idle_call(c);
	/* NULL: it was answered already. */
	keep_secret(c, c->call->route && c->call->route->secret);
	c->is_known = c->is_known || api_call_is_known(c->call);
	c->continues = c->state == REQUEST_BODY && http_expects_continue(&c->call->head);
	if (c->state == REQUEST_WAIT)
		api_call_end_body(c->call);
	else
		write_continue(c);
	return true;
}

/* Bytes of another protocol, as they come. */
static bool step_raw(struct server_conn *c)
{
	size_t taken = 0;

	if (buf_len(&c->in) > 0)
		taken = api_call_body(c->call, buf_data(&c->in), buf_len(&c->in));
	buf_consume(&c->in, taken);
	return taken > 0;
}

static void end_body(struct server_conn *c)
{
	c->state = c->state == REQUEST_BODY ? REQUEST_WAIT : c->state;
	if (!c->over)
		api_call_end_body(c->call);
}

/* True if something moved. */
static bool step_body(struct server_conn *c)
{
	struct err e = {0};
	size_t taken;
	int r;

	if (c->data_len == 0) {
		if (c->used > 0)
			buf_consume(&c->in, c->used);
		c->used = 0;
		if (c->body.ended) {
			end_body(c);
			return true;
		}
		if (buf_len(&c->in) == 0)
			return false;
		r = http_body_feed(&c->body, buf_data(&c->in), buf_len(&c->in), &c->used, &c->data,
				   &c->data_len, &e);
		if (r < 0) {
			if (c->begun) {
				conn_kill(c);
				return false;
			}
			refuse(c, c->call->id, &e);
			api_call_gone(take_ptr(c->call));
			return true;
		}
		if (c->data_len == 0)
			return c->used > 0 || c->body.ended;
	}
	taken = api_call_body(c->call, c->data, c->data_len);
	c->data += taken;
	c->data_len -= taken;
	if (taken > 0)
		conn_set_timer(c, SERVER_STALL_MS);
	return taken > 0;
}

/* The answer is whole, in `out` at least. */
static bool step_over(struct server_conn *c)
{
	bool unread = c->state == REQUEST_BODY;

	if (c->call)
		api_call_free(take_ptr(c->call));
	http_head_done(&c->head);
	http_body_done(&c->body);
	c->head = (struct http_head){0};
	c->body = (struct http_body){0};
	if (c->used > 0)
		buf_consume(&c->in, c->used);
	c->used = c->data_len = 0;
	keep_secret(c, false);
	c->begun = c->over = false;
	c->state = c->sent.close || unread ? REQUEST_LINGER : REQUEST_HEAD;
	if (c->state != REQUEST_HEAD || buf_len(&c->out) > 0)
		conn_set_timer(c, time_to_read(c));
	else
		begin_rest(c);
	return true;
}

static bool step_linger(struct server_conn *c)
{
	buf_clear(&c->in);
	if (buf_len(&c->out) > 0)
		return false;
	if (!c->begun && channel_finish(c->ch) != -EAGAIN) {
		c->begun = true; /* once */
		conn_set_timer(c, SERVER_LINGER_MS);
	}
	return false;
}

static bool conn_step(struct server_conn *c)
{
	if (c->over && c->state != REQUEST_LINGER && c->state != REQUEST_HEAD)
		return step_over(c);
	switch (c->state) {
	case REQUEST_HEAD:
		return buf_len(&c->out) < (c->charge.of ? SERVER_OUT_HIGH : 1u) && step_head(c);
	case REQUEST_BODY:
		return step_body(c);
	case REQUEST_SOCKET:
		conn_socket_read(c);
		return false;
	case REQUEST_RAW:
		return step_raw(c);
	case REQUEST_LINGER:
		return step_linger(c);
	case REQUEST_WAIT:
		break;
	}
	return false;
}

/* ---- bytes ---- */

static bool conn_write(struct server_conn *c)
{
	bool moved = false;

	while (buf_len(&c->out) > 0) {
		ssize_t n = channel_write(c->ch, buf_data(&c->out), buf_len(&c->out));

		if (n == -EAGAIN)
			break;
		if (n < 0) {
			conn_kill(c);
			return false;
		}
		buf_consume(&c->out, (size_t)n);
		moved = true;
	}
	if (moved && buf_len(&c->out) == 0 && c->out.cap > SERVER_KEEP_MAX)
		buf_done(&c->out);
	if (moved && c->call && !c->over)
		conn_set_timer(c, SERVER_STALL_MS);
	else if (moved && buf_len(&c->out) == 0 && c->state == REQUEST_HEAD)
		begin_rest(c);
	if (c->waits && buf_len(&c->out) < conn_out_high(c) / 2 && c->call && !c->over) {
		c->waits = false;
		api_call_has_room(c->call);
		return true;
	}
	return false;
}

/* A whole answer was awaited for as long as it takes: only who is to read or to send has a time. */
static void conn_want(struct server_conn *c)
{
	bool in = !c->in_ended && c->data_len == 0 && buf_len(&c->in) < SERVER_IN_MAX;
	bool awaited = (c->state == REQUEST_BODY && c->data_len == 0) || buf_len(&c->out) > 0 ||
		       c->state == REQUEST_LINGER || c->state == REQUEST_HEAD;

	channel_want(c->ch, (in ? CHANNEL_IN : 0u) | (buf_len(&c->out) > 0 ? CHANNEL_OUT : 0u));
	if (!awaited)
		ev_timer_stop(c->server->ev, &c->timer);
}

void conn_go(struct server_conn *c)
{
	if (c->busy || c->dead)
		return;
	c->busy = true;
	while (!c->dead) {
		bool moved = conn_write(c);

		if (c->dead)
			break;
		if (!conn_step(c) && !moved)
			break;
	}
	if (!c->dead)
		conn_write(c);
	c->busy = false;
	if (c->dead)
		return;
	conn_want(c);
	conn_idle_note(c);
}

/* Who goes takes with it what was under way. */
static void conn_read(struct server_conn *c)
{
	size_t room = SERVER_IN_MAX - buf_len(&c->in), want = room < 64 << 10 ? room : 64 << 10;
	bool was_empty = buf_len(&c->in) == 0;
	uint8_t *to;
	ssize_t n;

	/* What lies in `in` is in use by the body. */
	if (want == 0 || c->data_len > 0)
		return;
	if (c->used > 0)
		buf_consume(&c->in, c->used);
	c->used = 0;
	to = buf_reserve(&c->in, want);
	n = to ? channel_read(c->ch, to, want) : -ENOMEM;
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		c->in_ended = true;
		if (n < 0 || buf_len(&c->out) == 0 || c->state != REQUEST_LINGER)
			conn_kill(c);
		return;
	}
	buf_commit(&c->in, (size_t)n);
	if (c->state == REQUEST_HEAD && was_empty && buf_len(&c->out) == 0)
		conn_set_timer(c, SERVER_HEAD_MS);
}

static void on_ready(struct channel *ch, unsigned what)
{
	struct server_conn *c = ch->owner;

	if (c->dead)
		return;
	if (what & CHANNEL_IN)
		conn_read(c);
	conn_go(c);
}

static void on_time(struct ev_timer *t)
{
	conn_kill(container(t, struct server_conn, timer));
}

int server_conn_new(struct server *s, struct channel *ch, const struct api_client_info *client)
{
	struct server_conn *c = calloc(1, sizeof(*c));

	if (!c) {
		channel_free(ch, true);
		return -ENOMEM;
	}
	c->server = s;
	c->ch = ch;
	c->client = *client;
	str_copy(c->address, sizeof(c->address), client->address);
	c->client.address = c->address;
	c->sink = (struct api_sink){.on_reply = on_reply,
				    .on_begin = on_begin,
				    .on_bytes = on_bytes,
				    .on_end = on_end,
				    .on_cut = on_cut,
				    .on_body_room = on_body_room,
				    .on_socket = conn_socket_accept,
				    .on_message = conn_socket_message,
				    .on_socket_end = conn_socket_end};
	buf_init(&c->in, SERVER_IN_MAX);
	buf_init(&c->out, SERVER_OUT_MAX);
	c->timer.on_timer = on_time;
	c->later.on_defer = on_later;
	c->next = s->conns;
	c->at = &s->conns;
	if (c->next)
		c->next->at = &c->next;
	s->conns = c;
	s->conn_count++;
	s->tcp_count += !client->is_local;
	ch->owner = c;
	ch->on_ready = on_ready;
	conn_set_timer(c, SERVER_HEAD_MS);
	channel_want(ch, CHANNEL_IN);
	conn_idle_note(c);
	return 0;
}

/* A stream that its reader asks for again from where it was cut. */
static bool resumes(const struct server_conn *c)
{
	return c->begun && !c->over && c->call && c->call->route && c->call->route->resumes;
}

void server_conn_end_idle(struct server *s)
{
	for (struct server_conn *c = s->conns; c; c = c->next)
		if (!c->dead && ((c->state == REQUEST_HEAD && buf_len(&c->in) == 0) || resumes(c)))
			conn_kill(c);
}

void server_conn_free_all(struct server *s)
{
	while (s->conns)
		conn_free(s->conns);
}
