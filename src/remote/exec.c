/*
 * Commands in a server's boxes.
 *
 *	SOCKET	a WebSocket: the command, its stdin and terminal, its output as it comes
 *	EVENTS	its output from byte offsets on (a log, or a lost connection of what takes no stdin)
 *	LOST	the connection ended before the command did: tried again for REMOTE_AWAY_MS
 *	OVER	there is no next event
 *
 * Each command has a token of its own, so that one whose beginning was lost can be asked for again
 * without being run twice; once its id is known it is joined at the bytes that were seen. What was
 * written to stdin and may not have arrived cannot be known: then the caller hears that, unless it
 * is a terminal, where a person sees what happened.
 */
#include "base/base64.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"
#include "http/sse_read.h"
#include "http/ws_end.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

enum { INPUT_ROOM = 256 << 10, OUT_MAX = 20 << 20, TRY_MS = 3000, TRY_CONNECT_MS = 1500 };
enum { PAUSE_FIRST = 50, PAUSE_MOST = 1000 };
enum exec_state_now { NOW_SOCKET, NOW_EVENTS, NOW_LOST, NOW_OVER };

struct cove_exec {
	struct cove *cove; /* borrowed */
	char box[64];
	struct ev *ev; /* owned */
	enum exec_state_now now;
	struct remote_conn *conn;    /* SOCKET: owned */
	struct remote_answer answer; /* EVENTS */
	struct ws_end ws;
	struct sse_reader sse;
	const char *rest; /* EVENTS: of the piece of the answer that was read last */
	size_t rest_len;
	bool has_ws, has_sse;
	struct buf out;	     /* of a socket, to be sent */
	char *command;	     /* owned: its object, for the first time and again; NULL: joined */
	uint64_t id;	     /* 0: not known yet */
	uint64_t seen[2];    /* bytes of its streams that were handed out */
	bool follow, is_pty; /* follow: EVENTS that end without an exit were lost */
	bool input, input_ended, wrote;
	bool has_begun;		/* STARTED was handed out */
	json_t *last;		/* owned: what an event points into */
	char *bytes;		/* the same */
	struct cove_result end; /* the same */
	uint64_t lost_ms, retry_ms;
	int pause_ms;
	struct ev_io due; /* its timer, owned: wakes who polls while it is lost */
};

/* ---- beginning ---- */

static void on_due(struct ev_io *io, uint32_t events)
{
	uint64_t times;

	(void)!read(io->fd, &times, sizeof(times));
	ev_quit(container(io, struct cove_exec, due)->ev);
}

static int exec_new(struct cove *cove, const char *box, struct cove_exec **ret, struct err *e)
{
	struct cove_exec *x = calloc(1, sizeof(*x));

	if (!x || ev_new(&x->ev) < 0) {
		free(x);
		return err_errno(e, ENOMEM, "begin a command");
	}
	x->cove = cove;
	x->now = NOW_OVER;
	x->due = (struct ev_io){.on_event = on_due,
				.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
	str_copy(x->box, sizeof(x->box), box);
	buf_init(&x->out, OUT_MAX);
	if (x->due.fd < 0 || ev_io_add(x->ev, &x->due, EPOLLIN) < 0) {
		cove_exec_free(x);
		return err_errno(e, errno ? errno : ENOMEM, "begin a command");
	}
	*ret = x;
	return 0;
}

static void drop_connection(struct cove_exec *x)
{
	remote_conn_free(x->conn);
	x->conn = NULL;
	if (x->answer.conn)
		remote_answer_done(&x->answer);
	if (x->has_ws)
		ws_end_done(&x->ws);
	if (x->has_sse)
		sse_reader_done(&x->sse);
	x->has_ws = x->has_sse = false;
	x->rest_len = 0;
	buf_clear(&x->out);
}

static void drop_event(struct cove_exec *x)
{
	json_decref(x->last);
	x->last = NULL;
	free(x->bytes);
	x->bytes = NULL;
	cove_result_free(&x->end);
}

void cove_exec_free(struct cove_exec *x)
{
	if (!x)
		return;
	if (x->now == NOW_SOCKET && ws_end_close(&x->ws, WS_CODE_NORMAL, "", &x->out) == 0)
		(void)remote_conn_flush(x->conn, &x->out);
	drop_connection(x);
	drop_event(x);
	ev_io_remove(x->ev, &x->due);
	fd_close(&x->due.fd);
	ev_free(x->ev);
	buf_done(&x->out);
	free(x->command);
	free(x);
}

/* Sends what waits. What cannot be sent any more shows when it is read. */
static void flush(struct cove_exec *x)
{
	if (x->conn && remote_conn_flush(x->conn, &x->out) < 0)
		buf_clear(&x->out);
}

static int say(struct cove_exec *x, enum ws_event_kind kind, const void *p, size_t n)
{
	int r = x->now == NOW_SOCKET ? ws_end_send(&x->ws, kind, p, n, &x->out) : 0;

	flush(x);
	return r;
}

/* An exec's id in a path. One that no box has had is not found. */
static int id_text(uint64_t id, const char *box, char ret[24], struct err *e)
{
	snprintf(ret, 24, "%llu", (unsigned long long)id);
	if (id > 0 && id <= UINT32_MAX)
		return 0;
	return err_set(e, ERR_NOT_FOUND, ENOENT, "box '%s' has no exec %s", box, ret);
}

/* The path is that of the command to be, or of one that is joined at what was seen. */
static int open_socket(struct cove_exec *x, bool is_retry, struct err *e)
{
	uint8_t random[16];
	char key[32] = "", id[24];
	struct http_field fields[] = {{"Connection", "Upgrade"},
				      {"Upgrade", "websocket"},
				      {"Sec-WebSocket-Version", "13"},
				      {"Sec-WebSocket-Key", key}};
	const struct http_head asked = {.fields = fields, .field_count = 4};
	struct remote_request q;
	int r;

	rand_bytes(random, sizeof(random));
	key[base64_encode(random, sizeof(random), false, (uint8_t *)key)] = 0;
	if (x->id) {
		snprintf(id, sizeof(id), "%llu", (unsigned long long)x->id);
		remote_begin(&q, x->cove, "GET", "/v1/boxes/{}/execs/{}/attach", x->box, id);
		remote_query_u64(&q, "stdout_from", x->seen[0]);
		remote_query_u64(&q, "stderr_from", x->seen[1]);
		/* Whoever joins one wants to know that there is nothing to feed. */
		remote_query_bool(&q, "input", !is_retry);
	} else {
		remote_begin(&q, x->cove, "GET", "/v1/boxes/{}/exec", x->box);
	}
	q.fields = fields;
	q.field_count = 4;
	q.connect_ms = is_retry ? TRY_CONNECT_MS : 0;
	q.head_ms = is_retry ? TRY_MS : 0;
	r = remote_open(&q, x->ev, &x->answer, e);
	if (r < 0)
		return r;
	if (x->answer.head.status != 101 || ws_check_response(&asked, &x->answer.head, e) < 0) {
		remote_answer_done(&x->answer);
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the server does not answer as a WebSocket");
	}
	x->conn = x->answer.conn;
	x->answer.conn = NULL;
	http_head_done(&x->answer.head);
	ws_end_init_client(&x->ws, REMOTE_EVENT_MAX);
	x->has_ws = true;
	x->conn->out = &x->out;
	x->now = NOW_SOCKET;
	r = x->id ? 0 : ws_end_send(&x->ws, WS_TEXT, x->command, strlen(x->command), &x->out);
	if (r == 0 && x->input_ended)
		r = ws_end_send(&x->ws, WS_TEXT, "{\"type\":\"eof\"}", 14, &x->out);
	flush(x);
	return r < 0 ? err_set(e, ERR_LIMIT, E2BIG, "the command is too long for a server") : 0;
}

static int open_events(struct cove_exec *x, bool is_retry, struct err *e)
{
	struct remote_request q;
	char id[24];
	int r;

	snprintf(id, sizeof(id), "%llu", (unsigned long long)x->id);
	remote_begin(&q, x->cove, "GET", "/v1/boxes/{}/execs/{}/output", x->box, id);
	remote_query_u64(&q, "stdout_from", x->seen[0]);
	remote_query_u64(&q, "stderr_from", x->seen[1]);
	remote_query_bool(&q, "follow", x->follow);
	q.accept = "text/event-stream";
	q.connect_ms = is_retry ? TRY_CONNECT_MS : 0;
	q.head_ms = is_retry ? TRY_MS : 0;
	r = remote_open(&q, x->ev, &x->answer, e);
	if (r < 0)
		return r;
	sse_reader_init(&x->sse, REMOTE_EVENT_MAX);
	x->has_sse = true;
	x->now = NOW_EVENTS;
	return 0;
}

static int start(struct cove_box *box, const struct cove_command *given, struct cove_exec **ret,
		 struct err *e)
{
	char token[2 * REMOTE_TOKEN_BYTES + 1];
	struct cove_command command;
	struct cove_exec *x;
	struct buf text;
	struct json j;
	int r = core_copy_sized(&command, sizeof(command), given, e);

	if (r == 0)
		r = exec_new(box->cove, box->name, &x, e);
	if (r < 0)
		return r;
	rand_hex(token, REMOTE_TOKEN_BYTES);
	buf_init(&text, OUT_MAX / 2);
	json_init(&j, &text);
	json_object_begin(&j);
	r = remote_put_command(&j, &command, command.token ? command.token : token, e);
	json_kv_bool(&j, "stream_input", command.stream_input);
	json_object_end(&j);
	if (r == 0 && (j.error < 0 || !buf_cstr(&text)))
		r = err_set(e, ERR_LIMIT, E2BIG, "the command is too long for a server");
	if (r == 0) {
		x->command = strdup(buf_cstr(&text));
		x->input = command.stream_input;
		x->is_pty = command.pty;
		x->follow = !command.background;
		r = x->command ? open_socket(x, false, e) : err_errno(e, ENOMEM, "begin a command");
	}
	buf_done(&text);
	if (r < 0)
		cove_exec_free(x);
	else
		*ret = x;
	return r;
}

int cove_exec_start(struct cove_box *box, const struct cove_command *command,
		    struct cove_exec **ret, struct cove_error *err)
{
	struct err e = {0};

	return remote_return(start(box, command, ret, &e), &e, err);
}

static int join(struct cove *cove, const char *box, uint64_t exec_id, const uint64_t from[2],
		bool follow, bool input, struct cove_exec **ret, struct err *e)
{
	struct cove_exec *x;
	char id[24];
	int r = id_text(exec_id, box, id, e);

	if (r == 0)
		r = exec_new(cove, box, &x, e);
	if (r < 0)
		return r;
	x->id = exec_id;
	x->seen[0] = from[0];
	x->seen[1] = from[1];
	x->follow = follow;
	x->input = x->is_pty = input;
	x->has_begun = true;
	r = input ? open_socket(x, false, e) : open_events(x, false, e);
	if (r < 0)
		cove_exec_free(x);
	else
		*ret = x;
	return r;
}

int cove_exec_attach(struct cove_box *box, uint64_t exec_id, uint64_t out_from, uint64_t err_from,
		     bool follow, struct cove_exec **ret, struct cove_error *err)
{
	const uint64_t from[2] = {out_from, err_from};
	struct err e = {0};

	return remote_return(join(box->cove, box->name, exec_id, from, follow, follow, ret, &e), &e,
			     err);
}

int cove_log_open(struct cove *cove, const char *box, uint64_t exec_id, uint64_t out_from,
		  uint64_t err_from, bool follow, struct cove_exec **ret, struct cove_error *err)
{
	const uint64_t from[2] = {out_from, err_from};
	struct err e = {0};

	return remote_return(join(cove, box, exec_id, from, follow, false, ret, &e), &e, err);
}

/* ---- what comes ---- */

/* Bytes of a stream from `offset` on: those that were not seen yet. */
static int take_output(struct cove_exec *x, unsigned s, uint64_t offset, const char *p, size_t n,
		       struct cove_event *ret)
{
	uint64_t known = x->seen[s] > offset ? x->seen[s] - offset : 0;

	if (known >= n)
		return 0;
	x->seen[s] = offset + n;
	*ret = (struct cove_event){.type = s ? COVE_EVENT_ERR : COVE_EVENT_OUT,
				   .exec_id = x->id,
				   .data = p + known,
				   .len = n - (size_t)known};
	return 1;
}

static int take_end(struct cove_exec *x, const json_t *data, struct cove_event *ret, struct err *e)
{
	int r = remote_take_result(data, false, &x->end, e);

	if (r < 0)
		return r;
	x->now = NOW_OVER;
	*ret = (struct cove_event){
		.type = COVE_EVENT_EXIT, .exec_id = x->end.exec_id, .result = x->end};
	return 1;
}

/* {"type", "data"} of a socket: what begins, ends or fails. */
static int take_said(struct cove_exec *x, const char *type, const json_t *data,
		     struct cove_event *ret, struct err *e)
{
	bool queued = strcmp(type, "queued") == 0;

	if (strcmp(type, "exit") == 0)
		return take_end(x, data, ret, e);
	if (strcmp(type, "error") == 0) {
		char *text = json_dumps(data, JSON_COMPACT);
		int r = remote_error(x->cove, 0, text ? text : "", text ? strlen(text) : 0, e);

		free(text);
		x->now = NOW_OVER;
		return r;
	}
	if (!queued && strcmp(type, "started") != 0)
		return 0;
	x->id = remote_number(data, "exec_id");
	if (x->has_begun)
		return 0;
	x->has_begun = !queued;
	if (!x->follow)
		x->now = NOW_OVER; /* in the background: that is all */
	*ret = (struct cove_event){.type = queued ? COVE_EVENT_QUEUED : COVE_EVENT_STARTED,
				   .exec_id = x->id};
	return 1;
}

static int broken(struct cove_exec *x, struct err *e)
{
	x->now = NOW_OVER;
	return err_set(e, ERR_PROTOCOL, EPROTO, "the server's messages make no sense");
}

static int take_message(struct cove_exec *x, const struct ws_event *m, struct cove_event *ret,
			struct err *e)
{
	const char *p = (const char *)m->data;
	unsigned s;

	if (m->kind == WS_BINARY) {
		s = m->len > 0 ? (unsigned)m->data[0] - 1 : 2;
		return s > 1 ? broken(x, e) : take_output(x, s, x->seen[s], p + 1, m->len - 1, ret);
	}
	if (m->kind != WS_TEXT)
		return m->kind == WS_CLOSED ? -ECONNRESET : 0;
	x->last = json_loadb(p, m->len, 0, NULL);
	if (!remote_text(x->last, "type"))
		return broken(x, e);
	return take_said(x, remote_text(x->last, "type"), json_object_get(x->last, "data"), ret, e);
}

static int take_sse(struct cove_exec *x, const struct sse_event *event, struct cove_event *ret,
		    struct err *e)
{
	bool is_err = event->name && strcmp(event->name, "stderr") == 0;
	size_t n = 0;

	x->last = json_loadb(event->data, event->len, JSON_ALLOW_NUL, NULL);
	if (!event->name || !json_is_object(x->last))
		return broken(x, e);
	if (!is_err && strcmp(event->name, "stdout") != 0)
		return take_said(x, event->name, x->last, ret, e);
	x->bytes = remote_take_bytes(x->last, "text", "base64", &n);
	return x->bytes ? take_output(x, is_err, remote_number(x->last, "offset"), x->bytes, n, ret)
			: broken(x, e);
}

/* 1: an event; 0: more is needed; -ECONNRESET: the connection is over. */
static int next_of_socket(struct cove_exec *x, int timeout_ms, struct cove_event *ret,
			  struct err *e)
{
	for (;;) {
		struct remote_conn *c = x->conn;
		struct ws_event m;
		size_t used;
		ssize_t n;
		int r = ws_end_feed(&x->ws, buf_data(&c->in), buf_len(&c->in), &used, &m, &x->out,
				    e);

		buf_consume(&c->in, used);
		flush(x);
		if (r < 0)
			return broken(x, e);
		if (r > 0) {
			drop_event(x);
			r = take_message(x, &m, ret, e);
			if (r != 0)
				return r;
			continue;
		}
		n = remote_conn_read(c, timeout_ms, 0, e);
		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return n == 0 ? -ECONNRESET : (int)n;
	}
}

static int next_of_events(struct cove_exec *x, int timeout_ms, struct cove_event *ret,
			  struct err *e)
{
	struct remote_answer *a = &x->answer;

	for (;;) {
		struct sse_event event;
		const void *p;
		size_t n, used;
		int r = x->rest_len ? 1 : remote_answer_next(a, timeout_ms, &p, &n, e);

		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			return r;
		if (r == 0 && x->follow)
			return -ECONNRESET;
		if (r == 0) {
			x->now = NOW_OVER;
			*e = (struct err){0};
			return -EPIPE;
		}
		if (x->rest_len) {
			p = x->rest;
			n = x->rest_len;
		}
		r = sse_reader_feed(&x->sse, p, n, &used, &event, e);
		x->rest = (const char *)p + used;
		x->rest_len = n - used;
		if (r < 0)
			return broken(x, e);
		if (r == 0)
			continue;
		drop_event(x);
		r = take_sse(x, &event, ret, e);
		if (r != 0)
			return r;
	}
}

/* ---- a connection that was lost ---- */

static int give_up(struct cove_exec *x, const char *why, struct err *e)
{
	x->now = NOW_OVER;
	if (!x->id)
		return err_set(e, ERR_INTERRUPTED, ECONNRESET,
			       "the server is gone (%.80s): whether the command began is not known",
			       why);
	return err_set(e, ERR_INTERRUPTED, ECONNRESET,
		       "lost the server (%.60s); the command goes on: cove attach %s %llu --from "
		       "%llu:%llu",
		       why, x->box, (unsigned long long)x->id, (unsigned long long)x->seen[0],
		       (unsigned long long)x->seen[1]);
}

/* When it is tried next; whoever polls is woken then. */
static void set_retry(struct cove_exec *x, int in_ms)
{
	const struct itimerspec in = {
		.it_value = {.tv_sec = in_ms / 1000, .tv_nsec = (in_ms % 1000) * 1000000L + 1}};

	x->retry_ms = clock_mono_ms() + (uint64_t)in_ms;
	(void)timerfd_settime(x->due.fd, 0, &in, NULL);
}

static int begin_loss(struct cove_exec *x, struct err *e)
{
	drop_connection(x);
	if (x->wrote && !x->is_pty)
		return give_up(x, "part of its stdin may not have come there", e);
	x->now = NOW_LOST;
	x->lost_ms = clock_mono_ms();
	x->pause_ms = PAUSE_FIRST;
	set_retry(x, 0);
	return 0;
}

/* A server that is being started again is not there, or closes what it took. */
static bool is_away(int r, const struct err *e)
{
	return remote_is_lost(r) || e->kind == ERR_INTERNAL || e->kind == ERR_TIMEOUT ||
	       e->kind == ERR_INTERRUPTED;
}

/* One try, if it is due. 0, also where it is still lost; negative: it is given up. */
static int rejoin(struct cove_exec *x, int timeout_ms, struct err *e)
{
	uint64_t now = clock_mono_ms(), left = x->retry_ms > now ? x->retry_ms - now : 0;
	bool by_socket = !x->id || x->input;
	int r;

	if (left > 0) {
		int wait = timeout_ms < 0 || left < (uint64_t)timeout_ms ? (int)left : timeout_ms;

		(void)remote_wait(x->ev, wait, 0);
		if (clock_mono_ms() < x->retry_ms)
			return 0;
	}
	r = by_socket ? open_socket(x, true, e) : open_events(x, true, e);
	if (r == 0)
		return 0;
	drop_connection(x);
	x->now = NOW_LOST;
	if (!is_away(r, e)) {
		x->now = NOW_OVER;
		return r;
	}
	if (clock_mono_ms() - x->lost_ms > REMOTE_AWAY_MS)
		return give_up(x, "it does not come back", e);
	set_retry(x, x->pause_ms);
	x->pause_ms = x->pause_ms * 2 < PAUSE_MOST ? x->pause_ms * 2 : PAUSE_MOST;
	return 0;
}

static int next(struct cove_exec *x, int timeout_ms, struct cove_event *ret, struct err *e)
{
	uint64_t end = timeout_ms < 0 ? UINT64_MAX : clock_mono_ms() + (uint64_t)timeout_ms;
	int r;

	for (;;) {
		uint64_t now = clock_mono_ms();
		int left = end == UINT64_MAX ? -1 : end > now ? (int)(end - now) : 0;

		if (x->now == NOW_OVER) {
			*e = (struct err){0};
			return -EPIPE;
		}
		if (x->now == NOW_LOST) {
			r = rejoin(x, left, e);
			if (r < 0)
				return r;
			if (x->now == NOW_LOST && left == 0)
				return 0;
			continue;
		}
		r = x->now == NOW_SOCKET ? next_of_socket(x, left, ret, e)
					 : next_of_events(x, left, ret, e);
		if (!remote_is_lost(r))
			return r;
		r = begin_loss(x, e);
		if (r < 0)
			return r;
	}
}

int cove_exec_next(struct cove_exec *exec, int timeout_ms, struct cove_event *ret,
		   struct cove_error *err)
{
	struct err e = {0};
	int r = next(exec, timeout_ms, ret, &e);

	if (r == -EPIPE && e.kind == ERR_NONE) {
		if (err)
			*err = (struct cove_error){0};
		return r;
	}
	return remote_return(r, &e, err);
}

int cove_exec_fd(const struct cove_exec *exec)
{
	return ev_fd(exec->ev);
}

/* ---- stdin and the terminal ---- */

size_t cove_exec_input_room(const struct cove_exec *exec)
{
	size_t held = buf_len(&exec->out);

	return exec->now == NOW_SOCKET && held < INPUT_ROOM ? INPUT_ROOM - held : 0;
}

int cove_exec_write(struct cove_exec *exec, const void *data, size_t len, struct cove_error *err)
{
	struct err e = {0};
	int r = 0;

	if (exec->now == NOW_OVER || !exec->input)
		r = err_set(&e, ERR_CONFLICT, EPIPE, "the command has ended");
	else if (len > cove_exec_input_room(exec))
		r = err_set(&e, ERR_LIMIT, EAGAIN, "the command takes no more stdin now");
	else
		r = say(exec, WS_BINARY, data, len);
	exec->wrote |= r == 0 && len > 0;
	return remote_return(r, &e, err);
}

int cove_exec_close_input(struct cove_exec *exec, struct cove_error *err)
{
	struct err e = {0};
	int r = 0;

	if (!exec->input_ended && exec->input)
		r = say(exec, WS_TEXT, "{\"type\":\"eof\"}", 14);
	exec->input_ended = true;
	return remote_return(r, &e, err);
}

int cove_exec_resize(struct cove_exec *exec, unsigned rows, unsigned cols, struct cove_error *err)
{
	struct err e = {0};
	char text[80];
	int n = snprintf(text, sizeof(text), "{\"type\":\"resize\",\"rows\":%u,\"cols\":%u}", rows,
			 cols);

	return remote_return(say(exec, WS_TEXT, text, (size_t)n), &e, err);
}

/* ---- without events ---- */

int cove_run(struct cove_box *box, const struct cove_command *given, struct cove_result *ret,
	     struct cove_error *err)
{
	char token[2 * REMOTE_TOKEN_BYTES + 1];
	struct cove_command command;
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r = core_copy_sized(&command, sizeof(command), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	rand_hex(token, REMOTE_TOKEN_BYTES);
	remote_begin(&q, box->cove, "POST", "/v1/boxes/{}/exec", box->name);
	q.repeats = q.waits = true;
	remote_note(&q, remote_put_command(remote_object(&q), &command,
					   command.token ? command.token : token, &e));
	if (command.max_output)
		json_kv_u64(&q.json, "max_output", command.max_output);
	r = remote_call(&q, &o, &e);
	if (r == 0)
		r = remote_take_result(o, !command.background, ret, &e);
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_signal(struct cove_box *box, uint64_t exec_id, int sig, struct cove_error *err)
{
	char id[24], number[16];
	struct remote_request q;
	struct err e = {0};

	if (id_text(exec_id, box->name, id, &e) < 0)
		return remote_return(-ENOENT, &e, err);
	snprintf(number, sizeof(number), "%d", sig);
	remote_begin(&q, box->cove, "POST", "/v1/boxes/{}/execs/{}/signal", box->name, id);
	json_kv_str(remote_object(&q), "signal",
		    str_signal_name(sig) ? str_signal_name(sig) : number);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_wait(struct cove *cove, const char *box, uint64_t exec_id, uint64_t timeout_ms,
	      struct cove_result *ret, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	char id[24], time[32];
	int r = id_text(exec_id, box, id, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	snprintf(time, sizeof(time), "%llums", (unsigned long long)timeout_ms);
	remote_begin(&q, cove, "GET", "/v1/boxes/{}/execs/{}", box, id);
	remote_query(&q, "timeout", timeout_ms ? time : NULL);
	q.waits = true;
	r = remote_call(&q, &o, &e);
	if (r == 0)
		r = remote_take_result(o, true, ret, &e);
	json_decref(o);
	return remote_return(r, &e, err);
}
