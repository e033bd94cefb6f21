/*
 * A connection that became a WebSocket. Messages come whole. While the API is full nothing is read,
 * so the client's sending slows down; a ping now and then shows whether it is still there.
 */
#include "server/conn.h"

#include "base/fd.h"
#include "base/limits_server.h"

#include <errno.h>
#include <stdlib.h>

static struct server_conn *conn_of(struct api_sink *s)
{
	return container(s, struct server_conn, sink);
}

static void on_ping(struct ev_timer *t)
{
	struct server_conn *c = container(t, struct server_conn, ping);

	/* One that is slow to read has something else to show that it is there. */
	if (buf_len(&c->out) == 0 && ws_end_ping(c->ws, NULL, 0, &c->out) < 0)
		conn_kill(c);
	ev_timer_set(c->server->ev, &c->ping, SERVER_PING_MS);
	conn_go_soon(c);
}

int conn_socket_accept(struct api_sink *s, struct api_call *call, struct err *e)
{
	struct server_conn *c = conn_of(s);
	int r = ws_check_request(&call->head, e);

	if (r < 0)
		return r;
	c->ws = malloc(sizeof(*c->ws));
	if (c->ws)
		ws_end_init(c->ws, SERVER_MESSAGE_MAX);
	r = c->ws ? ws_accept_write(&call->head, NULL, 0, &c->out) : -ENOMEM;
	if (r < 0)
		return err_errno(e, -r, "answer as a WebSocket");
	c->call = call;
	c->begun = true;
	c->state = REQUEST_SOCKET;
	c->ping.on_timer = on_ping;
	ev_timer_set(c->server->ev, &c->ping, SERVER_PING_MS);
	conn_go_soon(c);
	return 0;
}

bool conn_socket_message(struct api_sink *s, struct api_call *call, bool is_text, const void *p,
			 size_t n)
{
	struct server_conn *c = conn_of(s);

	if (ws_end_send(c->ws, is_text ? WS_TEXT : WS_BINARY, p, n, &c->out) < 0 &&
	    !c->ws->close_sent)
		conn_kill(c);
	c->waits = buf_len(&c->out) >= conn_out_high(c);
	conn_go_soon(c);
	return !c->waits;
}

static void begin_close(struct server_conn *c)
{
	c->over = true;
	c->sent.close = true;
	ev_timer_stop(c->server->ev, &c->ping);
	conn_set_timer(c, SERVER_LINGER_MS);
	conn_go_soon(c);
}

void conn_socket_end(struct api_sink *s, struct api_call *call, unsigned code, const char *reason)
{
	struct server_conn *c = conn_of(s);

	if (!c->ws->close_sent && ws_end_close(c->ws, code, reason, &c->out) < 0)
		conn_kill(c);
	begin_close(c);
}

/* The client closed, or broke the protocol; the answer to that is in `out`. */
static void client_left(struct server_conn *c)
{
	if (!c->over) {
		struct api_call *call = take_ptr(c->call);

		api_call_gone(call);
	}
	begin_close(c);
}

/* Of a message whose rest is to come. */
static void end_if_no_room(struct server_conn *c)
{
	if (api_charge_has_room(&c->charge))
		return;
	if (ws_end_close(c->ws, WS_CODE_POLICY, "too much is under way", &c->out) < 0)
		conn_kill(c);
	client_left(c);
}

void conn_socket_read(struct server_conn *c)
{
	size_t used = 0;

	while (c->state == REQUEST_SOCKET && !c->dead && !c->over && !c->call->is_full) {
		struct ws_event event;
		struct err e = {0};
		int r = ws_end_feed(c->ws, buf_data(&c->in) + used, buf_len(&c->in) - used, &used,
				    &event, &c->out, &e);

		buf_consume(&c->in, used);
		used = 0;
		if (r < 0 || (r > 0 && event.kind == WS_CLOSED)) {
			client_left(c);
			return;
		}
		if (r == 0) {
			if (buf_len(&c->ws->message) > API_BODY_SMALL_MAX)
				end_if_no_room(c);
			return;
		}
		if (event.kind != WS_PONG)
			api_call_message(c->call, event.kind == WS_TEXT, event.data, event.len);
	}
}
