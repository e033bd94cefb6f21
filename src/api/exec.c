/*
 * Commands, in the loop: from the request to the keeper's frames and back.
 *
 *	wait	 the output is collected, the answer is the result
 *	SSE	 "Accept: text/event-stream": started, stdout, stderr ..., exit (the result)
 *	socket	 JSON texts of the same names, but output is bytes: 1 or 2, then what was printed.
 *		 From the client: bytes are stdin; {"type": "eof"}, {"type": "signal", ...},
 *		 {"type": "resize", ...}
 *
 * Output is given back to the keeper when the client's connection has taken it, so a slow client
 * slows its command and nothing else. Stdin and output that is collected count in the caller's
 * account (account.h); output for which that has no room is cut. A client that goes leaves the
 * command running; its output is in its log, at byte offsets (execs.c).
 */
#include "api/call.h"
#include "api/handlers.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/limits_server.h"
#include "core/core.h"
#include "core/result.h"
#include "http/ws_end.h"

#include <errno.h>

enum {
	OUTPUT_INLINE = 1 << 20,
	EVENT_MAX = 4 << 20,
	STDIN_HIGH = 128 << 10, /* no more is read while so much waits */
	STDIN_HELD_MAX = 2 << 20,
};
enum exec_mode { EXEC_WAIT, EXEC_EVENTS, EXEC_SOCKET };

struct api_exec {
	struct core_async_exec a;
	struct core_client_wait wait; /* for the keeper's HELLO */
	struct api_call *call;
	struct api_command cmd;
	enum exec_mode mode;
	struct collect collect;
	uint64_t offsets[2];	   /* of what comes next */
	size_t owed[2];		   /* printed, and not given back yet */
	struct buf input;	   /* a socket's, that the keeper has no room for */
	struct api_charge charge;  /* of input and collect */
	struct wire_attach joined; /* exec_id 0: it is a new command */
	bool input_ended, began;
	bool must_feed; /* joined to feed it: that it reads no stdin is an error */
	bool no_json;	/* what the client sent last */
};

static void exec_free(struct api_exec *x)
{
	core_client_await_cancel(&x->wait);
	core_async_exec_cancel(&x->a);
	collect_done(&x->collect);
	buf_done(&x->input);
	api_charge_end(&x->charge);
	free(x);
}

static void on_gone(struct api_call *c)
{
	exec_free(c->arg);
}

/* ---- what goes to a client ---- */

static bool send_event(struct api_exec *x, const char *event, const char *text)
{
	struct buf b;
	bool more;

	if (x->mode == EXEC_EVENTS)
		return api_event(x->call, event, NULL, text);
	buf_init(&b, EVENT_MAX);
	more = buf_printf(&b, "{\"type\":\"%s\",\"data\":%s}", event, text) == 0 &&
	       api_message(x->call, true, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return more;
}

static bool send_output(struct api_exec *x, unsigned stream, const void *data, size_t len)
{
	const char *name = stream ? "stderr" : "stdout";
	struct buf b;
	bool more = true;

	buf_init(&b, EVENT_MAX);
	if (x->mode == EXEC_SOCKET) {
		if (buf_append(&b, stream ? "\2" : "\1", 1) == 0 && buf_append(&b, data, len) == 0)
			more = api_message(x->call, false, buf_data(&b), buf_len(&b));
	} else if (api_output_json(&b, x->offsets[stream], data, len) == 0) {
		more = api_event(x->call, name, NULL, buf_cstr(&b));
	}
	buf_done(&b);
	return more;
}

static void give_back(struct api_exec *x)
{
	for (unsigned s = 0; s < 2; s++) {
		if (x->owed[s])
			core_async_exec_took(&x->a, s ? WIRE_STDERR : WIRE_STDOUT, x->owed[s]);
		x->owed[s] = 0;
	}
}

static void on_room(struct api_call *c)
{
	give_back(c->arg);
}

/* ---- the end ---- */

/* What a socket is closed with: a request at fault is none of our failures. */
static unsigned close_code(const struct api_exec *x)
{
	unsigned status = x->call->status;

	if (x->no_json)
		return WS_CODE_NOT_UTF8;
	if (status == 413)
		return WS_CODE_TOO_BIG;
	return status >= 400 && status < 500 ? WS_CODE_POLICY : WS_CODE_INTERNAL;
}

static void end_with(struct api_exec *x, int r, const struct err *e)
{
	struct api_call *c = x->call;
	enum exec_mode mode = x->mode;
	bool streams = c->state == API_STREAMS || c->state == API_SOCKET;
	unsigned code = WS_CODE_NORMAL;

	c->on_gone = NULL;
	c->on_room = NULL;
	c->on_message = NULL;
	if (r < 0 && streams) {
		char *text;

		api_error(c, e);
		code = close_code(x);
		text = strndup((const char *)buf_data(&c->out), buf_len(&c->out));
		if (text)
			send_event(x, "error", text);
		free(text);
	}
	exec_free(x);
	if (!streams)
		api_reply(c, r, e);
	else if (mode == EXEC_SOCKET)
		api_socket_end(c, code, "");
	else
		api_end(c, false);
}

static int write_result(struct api_exec *x, const struct cove_result *ended, struct err *e)
{
	struct cove_result result;
	char *text;

	if (result_collected(ended, x->mode == EXEC_WAIT ? &x->collect : NULL, &result) < 0)
		return err_errno(e, ENOMEM, "keep the command's result");
	text = cove_result_json(&result);
	cove_result_free(&result);
	if (!text)
		return err_errno(e, ENOMEM, "write the answer");
	if (x->mode == EXEC_WAIT)
		return api_json_take(x->call, 200, text, e);
	send_event(x, "exit", text);
	free(text);
	return 0;
}

static int exec_begin(struct api_exec *x, struct err *e);

/* What reads no stdin, or has ended, is followed all the same. */
static void watch_only(struct api_exec *x)
{
	struct err e;
	int r;

	x->joined.input = 0;
	buf_clear(&x->input);
	r = exec_begin(x, &e);
	if (r < 0)
		end_with(x, r, &e);
}

static void on_done(struct core_async_exec *a, int r, const struct err *e)
{
	struct api_exec *x = container(a, struct api_exec, a);

	if (r < 0 && e->kind == ERR_CONFLICT && e->code == EPIPE && x->joined.input &&
	    !x->must_feed)
		watch_only(x);
	else
		end_with(x, r, e);
}

/* ---- what the keeper says ---- */

static void say_begun(struct api_exec *x, const struct cove_event *ev)
{
	bool queued = ev->type == COVE_EVENT_QUEUED;
	char text[64];

	snprintf(text, sizeof(text), "{\"exec_id\":%llu}", (unsigned long long)ev->exec_id);
	if (x->mode == EXEC_EVENTS && !x->began)
		api_begin(x->call, 200, "text/event-stream");
	x->began = true;
	if (x->mode != EXEC_WAIT) {
		send_event(x, queued ? "queued" : "started", text);
	} else if (x->cmd.c.background) {
		json_object_begin(api_json(x->call, 202));
		json_kv_u64(&x->call->json, "exec_id", ev->exec_id);
		json_kv_str(&x->call->json, "cause", queued ? "queued" : "running");
		json_object_end(&x->call->json);
	}
}

static void send_input(struct api_exec *x)
{
	size_t n = core_async_exec_write(&x->a, buf_data(&x->input), buf_len(&x->input));

	buf_consume(&x->input, n);
	if (buf_len(&x->input) == 0 && x->input_ended)
		core_async_exec_close_input(&x->a);
	if (buf_len(&x->input) == 0) {
		buf_done(&x->input);
		api_charge_set(&x->charge, 0);
	}
	if (x->call->is_full && buf_len(&x->input) < STDIN_HIGH)
		api_socket_room(x->call);
}

static void on_input_room(struct core_async_exec *a)
{
	send_input(container(a, struct api_exec, a));
}

/* What is cut is in the command's log. */
static void collect_output(struct api_exec *x, unsigned s, const struct cove_event *ev)
{
	if (!api_charge_grow(&x->charge, 2 * (collect_memory(&x->collect) + ev->len)))
		collect_close(&x->collect);
	(void)collect_add(&x->collect, s, ev->data, ev->len);
	api_charge_set(&x->charge, collect_memory(&x->collect));
}

static void on_event(struct core_async_exec *a, const struct cove_event *ev)
{
	struct api_exec *x = container(a, struct api_exec, a);
	unsigned s = ev->type == COVE_EVENT_ERR;
	bool more = true;
	struct err e;

	switch (ev->type) {
	case COVE_EVENT_QUEUED:
	case COVE_EVENT_STARTED:
		say_begun(x, ev);
		break;
	case COVE_EVENT_OUT:
	case COVE_EVENT_ERR:
		x->owed[s] += ev->len;
		if (x->mode == EXEC_WAIT)
			collect_output(x, s, ev);
		else
			more = send_output(x, s, ev->data, ev->len);
		x->offsets[s] += ev->len;
		if (more)
			give_back(x);
		break;
	case COVE_EVENT_EXIT:
		if (write_result(x, &ev->result, &e) < 0)
			api_error(x->call, &e);
		break;
	}
	if (x->mode == EXEC_SOCKET)
		send_input(x);
}

/* ---- what a socket's client says ---- */

struct exec_message {
	const char *type, *signal;
	unsigned rows, cols;
};
static const struct api_in_field message_fields[] = {API_IN(exec_message, type, STR),
						     API_IN(exec_message, signal, STR),
						     API_IN(exec_message, rows, UINT),
						     API_IN(exec_message, cols, UINT),
						     {NULL, 0, 0}};

static int take_message(struct api_exec *x, const struct exec_message *t, struct err *e)
{
	struct core_conn *conn = x->a.x.call.q.conn;
	int sig = t->signal ? str_parse_signal(t->signal) : 0;

	if (!t->type)
		return err_set(e, ERR_INVALID, EINVAL, "a message has a 'type'");
	if (strcmp(t->type, "eof") == 0) {
		x->input_ended = true;
		return 0;
	}
	if (!conn)
		return 0;
	if (strcmp(t->type, "resize") == 0)
		return core_async_exec_resize(&x->a, t->rows, t->cols);
	if (strcmp(t->type, "signal") == 0 && sig > 0)
		return core_async_exec_signal(&x->a, sig);
	return err_set(e, ERR_INVALID, EINVAL,
		       "there is no message '%.40s': eof, resize (rows, cols), signal (signal)",
		       t->type);
}

static int take_command(struct api_exec *x, struct err *e)
{
	struct api_call *c = x->call;
	int r = api_command_take(c, c->body, &x->cmd, e);

	x->cmd.c.stream_input = !json_is_false(json_object_get(c->body, "stream_input"));
	return r == 0 ? exec_begin(x, e) : r;
}

static void on_decoded(struct api_call *c)
{
	struct api_exec *x = c->arg;
	struct err e = c->error;
	int r = c->result;

	c->on_decoded = NULL;
	if (!c->sink) {
		exec_free(x);
		api_call_gone_ends(c);
		return;
	}
	x->no_json = r == -EBADMSG;
	if (r == 0)
		r = take_command(x, &e);
	if (r < 0)
		end_with(x, r, &e);
	else
		api_socket_room(c);
}

/* Of much JSON; until that is read no message is. */
static int take_long_command(struct api_exec *x, const void *p, size_t n, struct err *e)
{
	struct api_call *c = x->call;
	int r = api_body_hold(c, n, e);

	buf_done(&c->text);
	buf_init(&c->text, API_JSON_MAX);
	if (r == 0 && (r = buf_append(&c->text, p, n)) < 0)
		err_errno(e, -r, "read the request");
	c->on_decoded = on_decoded;
	if (r == 0)
		r = api_work_decode(c, e);
	c->is_full = r == 0;
	return r;
}

static int take_input(struct api_exec *x, const void *p, size_t n, struct err *e)
{
	if (!api_charge_grow(&x->charge, 2 * (buf_len(&x->input) + n)))
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "stdin, bodies and answers that are under way hold as much memory "
			       "as they may, %u MiB of a key",
			       API_BODIES_KEY_MAX >> 20);
	return buf_append(&x->input, p, n) < 0
		       ? err_set(e, ERR_LIMIT, E2BIG, "too much stdin at once")
		       : 0;
}

static int take_text(struct api_exec *x, const void *p, size_t n, struct err *e)
{
	struct exec_message said = {0};
	const struct api_in_table tables[] = {{message_fields, &said}, {NULL, NULL}};
	bool has_command = x->call->body || x->joined.exec_id;
	json_t *object = NULL;
	int r;

	if (n > API_JSON_HERE_MAX && !has_command)
		return take_long_command(x, p, n, e);
	if (n > API_JSON_HERE_MAX)
		return err_set(e, ERR_LIMIT, EMSGSIZE, "such a message has at most %u bytes",
			       API_JSON_HERE_MAX);
	r = api_in_parse(p, n, &object, e);
	x->no_json = r == -EBADMSG;
	if (r == 0 && !has_command) {
		x->call->body = json_incref(object);
		r = take_command(x, e);
	} else if (r == 0) {
		r = api_in_take(&x->call->memory, object, tables, e);
		if (r == 0)
			r = take_message(x, &said, e);
	}
	json_decref(object);
	return r;
}

/* The first one is the command. */
static void on_message(struct api_call *c, bool is_text, const void *p, size_t n)
{
	struct api_exec *x = c->arg;
	struct err e = {0};
	int r;

	if (is_text)
		r = take_text(x, p, n, &e);
	else if (!c->body && !x->joined.exec_id)
		r = err_set(&e, ERR_INVALID, EINVAL,
			    "the first message is the command, stdin comes after it");
	else if (x->joined.exec_id && !x->joined.input)
		return; /* it reads none */
	else
		r = take_input(x, p, n, &e);
	if (r < 0) {
		end_with(x, r, &e);
		return;
	}
	c->is_full = c->is_full || buf_len(&x->input) >= STDIN_HIGH;
	if (x->began)
		send_input(x);
}

/* ---- the beginning ---- */

static void on_ready(struct core_client_wait *w, struct core_conn *conn, int r, const struct err *e)
{
	struct api_exec *x = container(w, struct api_exec, wait);
	uint64_t inline_max = x->mode == EXEC_WAIT ? OUTPUT_INLINE : 0;
	struct err why = {0};

	if (r == 0)
		r = x->joined.exec_id
			    ? core_async_exec_join(&x->a, conn, &x->joined, &why)
			    : core_async_exec_start(&x->a, conn, &x->cmd.c, inline_max, &why);
	else
		why = *e;
	if (r < 0)
		end_with(x, r, &why);
	else if (x->joined.exec_id)
		send_input(x); /* what came meanwhile: it may have nothing to say before that */
}

static int exec_begin(struct api_exec *x, struct err *e)
{
	const char *box;
	int r = api_box(x->call, &box, e);

	if (r == 0 && x->cmd.c.pty && x->mode != EXEC_SOCKET)
		r = err_set(e, ERR_INVALID, EINVAL, "a terminal needs a WebSocket");
	if (r == 0 && x->cmd.c.stream_input && x->mode != EXEC_SOCKET)
		r = err_set(e, ERR_INVALID, EINVAL, "a stream of stdin needs a WebSocket");
	if (r == 0 && x->cmd.max_output > OUTPUT_INLINE)
		r = err_set(e, ERR_LIMIT, E2BIG, "a result holds at most %d bytes of a stream",
			    OUTPUT_INLINE);
	if (r < 0)
		return r;
	if (x->cmd.max_output)
		collect_init_ends(&x->collect, (size_t)x->cmd.max_output);
	x->wait.on_ready = on_ready;
	return core_client_await(x->call->api->client, box, &x->wait, e);
}

static struct api_exec *exec_new(struct api_call *c, enum exec_mode mode)
{
	struct api_exec *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->call = c;
	x->mode = mode;
	x->a.on_event = on_event;
	x->a.on_done = on_done;
	x->a.on_room = on_input_room;
	collect_init(&x->collect, OUTPUT_INLINE);
	buf_init(&x->input, STDIN_HELD_MAX);
	api_charge_begin(&x->charge, c->charge.of);
	c->is_exact = true;
	c->arg = x;
	c->on_gone = on_gone;
	c->on_room = on_room;
	return x;
}

/* Much stdin takes a while, too. */
static int exec_take(struct api_call *c, struct err *e)
{
	struct api_command *cmd = api_memory_get(&c->memory, sizeof(*cmd));

	if (!cmd)
		return err_errno(e, ENOMEM, "begin a command");
	c->arg = cmd;
	return api_command_take(c, c->body, cmd, e);
}

static int exec_run(struct api_call *c, struct err *e)
{
	bool events = http_head_has_token(&c->head, "Accept", "text/event-stream");
	const struct api_command *cmd = c->arg;
	struct api_exec *x = exec_new(c, events ? EXEC_EVENTS : EXEC_WAIT);
	int r;

	if (!x)
		return err_errno(e, ENOMEM, "begin a command");
	x->cmd = *cmd;
	r = exec_begin(x, e);
	if (r < 0) {
		c->on_gone = NULL;
		exec_free(x);
		return r;
	}
	return API_LATER;
}

/* Before it is a WebSocket. */
static int find_box(struct api_call *c, struct err *e)
{
	autoclose int fd = -1;
	const char *box;
	int r = api_box(c, &box, e);

	return r < 0 ? r : box_open_dir(c->api->cove, box, &fd, e);
}

static int exec_socket(struct api_call *c, struct err *e)
{
	struct api_exec *x;
	int r;

	if (!api_wants_socket(c))
		return err_set(e, ERR_INVALID, EINVAL,
			       "GET here is for a WebSocket; POST runs a command");
	r = find_box(c, e);
	if (r < 0)
		return r;
	x = exec_new(c, EXEC_SOCKET);
	if (!x)
		return err_errno(e, ENOMEM, "begin a command");
	c->on_message = on_message;
	r = api_socket(c, e);
	if (r < 0) {
		c->on_gone = NULL;
		exec_free(x);
		return r;
	}
	return API_LATER;
}

/* One that was begun before, from byte offsets of its output on, with its stdin if it reads any. */
static int exec_join(struct api_call *c, struct err *e)
{
	struct wire_attach m = {.follow = 1, .input = 1};
	struct api_exec *x;
	bool must_feed = false;
	int r;

	if (!api_wants_socket(c))
		return err_set(e, ERR_INVALID, EINVAL, "this is for a WebSocket");
	if (!str_parse_u64(api_param(c, "exec"), UINT32_MAX, &m.exec_id) || m.exec_id == 0)
		return err_set(e, ERR_INVALID, EINVAL, "an exec is a number");
	r = find_box(c, e);
	if (r == 0)
		r = api_query_u64(c, "stdout_from", 0, &m.stdout_from, e);
	if (r == 0)
		r = api_query_u64(c, "stderr_from", 0, &m.stderr_from, e);
	if (r == 0)
		r = api_query_bool(c, "input", &must_feed, e);
	if (r < 0)
		return r;
	x = exec_new(c, EXEC_SOCKET);
	if (!x)
		return err_errno(e, ENOMEM, "join a command");
	x->joined = m;
	x->must_feed = must_feed;
	x->offsets[0] = m.stdout_from;
	x->offsets[1] = m.stderr_from;
	x->began = true;
	c->on_message = on_message;
	r = api_socket(c, e);
	if (r == 0) {
		struct err why;

		r = exec_begin(x, &why);
		if (r < 0)
			end_with(x, r, &why);
		return API_LATER;
	}
	c->on_gone = NULL;
	exec_free(x);
	return r;
}

/* clang-format off */
const struct api_route api_exec_routes[] = {
	{"POST", "/v1/boxes/{box}/exec", "runCommand", KEY_RUN, API_BODY_JSON, 16 << 20,
	 .take = exec_take, .now = exec_run},
	{"GET", "/v1/boxes/{box}/exec", "openCommand", KEY_RUN, .now = exec_socket, .socket = true},
	{"GET", "/v1/boxes/{box}/execs/{exec}/attach", "joinCommand", KEY_RUN, .now = exec_join,
	 .socket = true},
	{0}};
/* clang-format on */
