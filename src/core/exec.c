/* Commands; see exec.h for how one runs. */
#include "core/exec.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/size.h"
#include "base/str.h"
#include "core/life.h"
#include "wire/denials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_items(struct buf *b, const char *const *items, unsigned max, const char *what,
		     struct err *e)
{
	size_t count = 0;

	for (size_t i = 0; items && items[i]; i++) {
		if (++count > max || wire_list_add(b, items[i]) < 0)
			return err_set(e, ERR_LIMIT, E2BIG,
				       "the command has more %s than it may: at most %u, and %u "
				       "bytes in all; put more into a file (cove cp)",
				       what, max, WIRE_CONTROL_MAX);
	}
	return 0;
}

static int check(const struct cove_command *c, struct err *e)
{
	if (!c->argv == !c->line)
		return err_set(e, ERR_INVALID, EINVAL, "a command is either argv or a line");
	if (c->argv && (!c->argv[0] || c->shell))
		return err_set(e, ERR_INVALID, EINVAL,
			       c->shell ? "a persistent shell runs a line, not argv"
					: "argv is empty");
	if (c->shell && !str_is_shell_name(c->shell))
		return err_set(e, ERR_INVALID, EINVAL, SHELL_NAME_RULE, SHELL_NAME_MAX);
	if (c->login && !c->shell)
		return err_set(e, ERR_INVALID, EINVAL, "only a persistent shell logs in");
	if (c->shell && c->pty)
		return err_set(e, ERR_INVALID, EINVAL, "a persistent shell has no terminal");
	if (c->input && c->stream_input)
		return err_set(e, ERR_INVALID, EINVAL,
			       "stdin is given either at once or as a stream");
	return 0;
}

/* What events show of a command; store/event.h cuts and escapes it further. */
static void note_command(struct cove_exec *x, const struct cove_command *c)
{
	size_t n = 0;

	if (c->line)
		str_copy(x->command, sizeof(x->command), c->line);
	for (size_t i = 0; !c->line && c->argv[i] && n + 2 < sizeof(x->command); i++) {
		if (i > 0)
			x->command[n++] = ' ';
		str_copy(x->command + n, sizeof(x->command) - n, c->argv[i]);
		n += strlen(x->command + n);
	}
	if (c->shell)
		str_copy(x->shell, sizeof(x->shell), c->shell);
}

static int encode(struct cove_exec *x, const struct cove_command *c, uint64_t inline_max,
		  struct err *e)
{
	struct buf argv, env;
	struct wire_exec m = {
		.line = c->line,
		.shell = c->shell,
		.cwd = c->cwd,
		.user = c->user,
		.timeout_ms = c->timeout_ms,
		.grace_ms = c->grace_ms == COVE_NO_GRACE ? 0
			    : c->grace_ms		 ? c->grace_ms
							 : COVE_GRACE_MS,
		.pty = c->pty,
		.rows = c->rows,
		.cols = c->cols,
		.has_stdin = c->input || c->stream_input,
		.background = c->background,
		.inline_max = inline_max,
		.token = c->token,
		.login = c->login,
		.merge = c->merge,
	};
	int r;

	buf_init(&argv, WIRE_CONTROL_MAX);
	buf_init(&env, WIRE_CONTROL_MAX);
	r = add_items(&argv, c->argv, SPEC_ARG_MAX, "arguments", e);
	if (r == 0)
		r = add_items(&env, c->env, INIT_ENV_MAX, "variables", e);
	if (r == 0) {
		m.argv = wire_list_of(&argv);
		m.env = wire_list_of(&env);
		r = wire_exec_encode(core_out(x->conn), x->call.q.id, 0, &m);
		if (r < 0)
			r = err_set(e, ERR_LIMIT, E2BIG,
				    "the command, its arguments and variables are longer than %u "
				    "bytes: "
				    "put more into a file (cove cp)",
				    WIRE_CONTROL_MAX);
	}
	buf_done(&argv);
	buf_done(&env);
	return r;
}

static void init_flows(struct cove_exec *x)
{
	wire_flow_init(&x->input);
	for (int s = 0; s < WIRE_STREAM_COUNT; s++)
		wire_flow_init(&x->output[s]);
}

int core_exec_begin(struct cove_exec *x, struct core_conn *conn, const struct cove_command *command,
		    uint64_t inline_max, struct err *e)
{
	int r = check(command, e);

	if (r < 0)
		return r;
	x->conn = conn;
	x->background = command->background;
	x->queued_before = buf_len(core_out(conn));
	core_call_begin(&x->call, conn);
	init_flows(x);
	note_command(x, command);
	return encode(x, command, inline_max, e);
}

int core_exec_check_peer(const struct core_conn *conn, const struct cove_command *command,
			 struct err *e)
{
	const struct {
		bool asked;
		unsigned feature;
		const char *what;
	} needs[] = {{command->token, WIRE_FEATURE_TOKEN, "tokens"},
		     {command->login, WIRE_FEATURE_SHELLS, "login shells"},
		     {command->merge, WIRE_FEATURE_MERGE, "merged streams"}};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (needs[i].asked && !(conn->peer.features & needs[i].feature))
			return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
				       "box '%s' was started by a Cove without %s: cove stop %s; "
				       "cove start %s",
				       conn->box, needs[i].what, conn->box, conn->box);
	return 0;
}

int core_exec_open(struct cove_exec *x, struct cove_box *box, const struct cove_command *command,
		   uint64_t inline_max, struct err *e)
{
	struct core_conn *conn = NULL;
	int r = box_conn_get(box, &conn, e);

	memset(x, 0, sizeof(*x));
	if (r < 0)
		return r;
	x->conn = conn;
	x->box = box;
	box->refs++;
	if (command->token || command->login || command->merge)
		r = core_conn_wait_ready(conn, START_WAIT_MS, e);
	if (r == 0)
		r = core_exec_check_peer(conn, command, e);
	if (r == 0)
		r = core_exec_begin(x, conn, command, inline_max, e);
	if (r < 0)
		core_exec_end(x);
	return r;
}

int core_exec_feed_all(struct cove_exec *x, const struct cove_command *c, struct err *e)
{
	if (!c->input)
		return 0;
	if (core_exec_feed(x, c->input, c->input_len) == c->input_len &&
	    wire_encode(core_out(x->conn), WIRE_EOF, WIRE_STDIN, x->call.q.id, NULL, 0) == 0)
		return 0;
	core_out(x->conn)->len = x->queued_before;
	return err_set(e, ERR_LIMIT, E2BIG, "stdin beyond %u bytes is given as a stream",
		       WIRE_WINDOW);
}

void core_exec_end(struct cove_exec *x)
{
	if (x->conn) {
		core_call_end(&x->call, x->over);
		/* It travels with the next request, unless there may be none. */
		if (!x->done)
			core_conn_flush(x->conn, NULL);
		box_conn_put(x->box, x->conn);
	}
	if (x->log)
		core_log_free(x->log);
	if (x->box)
		box_unref(x->box);
	free(x->denied);
	free(x->cwd);
}

size_t core_exec_feed(struct cove_exec *x, const void *data, size_t len)
{
	size_t done = 0;

	while (done < len && x->input.left > 0) {
		size_t n = len - done;

		if (n > WIRE_DATA_MAX)
			n = WIRE_DATA_MAX;
		if (n > x->input.left)
			n = (size_t)x->input.left;
		if (wire_encode(core_out(x->conn), WIRE_DATA, WIRE_STDIN, x->call.q.id,
				(const char *)data + done, n) < 0)
			break;
		x->input.left -= n;
		done += n;
	}
	return done;
}

static void event_result(struct cove_exec *x, const struct exec_record *r)
{
	struct cove_box *box = x->box;
	struct event ev = {
		.kind = r->timed_out ? EVENT_TIMEOUT : EVENT_RESULT,
		.box = box->name,
		.exec = r,
	};

	if (x->shell[0] && r->cwd) {
		bool same_shell = strcmp(box->last_shell, x->shell) == 0;

		ev.cwd_changed = same_shell && box->last_cwd && strcmp(box->last_cwd, r->cwd) != 0;
		free(box->last_cwd);
		box->last_cwd = strdup(r->cwd);
		str_copy(box->last_shell, sizeof(box->last_shell), x->shell);
	}
	core_event(box->cove, &ev);
}

/* "--mem 128MiB": twice of what there was, as it is typed. */
static void put_flag(const char *limit, uint64_t value, char *ret, size_t size)
{
	bool is_size = strcmp(limit, "mem") == 0 || strcmp(limit, "disk") == 0;
	unsigned long long twice = value <= UINT64_MAX / 2 ? value * 2 : 0;
	char text[SIZE_TEXT] = "", *to = text;

	if (twice && is_size)
		size_format(text, twice);
	else if (twice && strcmp(limit, "pids") == 0)
		snprintf(text, sizeof(text), "%llu", twice);
	else if (twice)
		snprintf(text, sizeof(text), twice % 1000 ? "%llums" : "%llus",
			 twice % 1000 ? twice : twice / 1000);
	for (const char *p = text; *p; p++)
		if (*p != ' ')
			*to++ = *p;
	*to = 0;
	snprintf(ret, size, "--%s%s%s", limit, *text ? " " : "", text);
}

static void put_limit(const struct exec_record *m, struct cove_result *r)
{
	const char *limit = exec_limit(m);
	char flag[64];

	if (!limit)
		return;
	str_copy(r->limit, sizeof(r->limit), limit);
	r->limit_value = m->limit_value;
	put_flag(limit, m->limit_value, flag, sizeof(flag));
	if (m->timed_out)
		snprintf(r->remedy, sizeof(r->remedy), "give it longer: %s, or 0 for no end", flag);
	else
		snprintf(r->remedy, sizeof(r->remedy), "make the box with more: %s%s", flag,
			 strcmp(limit, "disk") == 0 ? "; a named workspace has a limit of its own"
						    : "");
}

void exec_result(const struct exec_record *m, struct cove_result *r)
{
	*r = (struct cove_result){EXEC_SHOWN(m), .timed_out = m->timed_out,
				  .shell = exec_shell_word(m)};
	core_show(r->cause, sizeof(r->cause), m->cause[0] ? m->cause : "unknown");
	put_limit(m, r);
}

/* Behind the EXIT event, as its directory is. Without memory there are none. */
static void take_denials(struct cove_exec *x, const struct exec_record *m, struct cove_result *r)
{
	char text[DENIAL_TEXT_MAX];
	struct wire_denial d;
	uint32_t pos = 0;

	free(x->denied);
	x->denied = m->denied.count ? calloc(DENIALS_MAX, sizeof(*x->denied)) : NULL;
	r->denied = x->denied;
	r->denied_more = m->denied_more;
	while (x->denied && r->denied_count < DENIALS_MAX &&
	       wire_denials_next(&m->denied, &pos, text, &d)) {
		struct cove_denial *to = &x->denied[r->denied_count++];

		to->port = (unsigned)d.port;
		to->shared = d.shared;
		core_show(to->host, sizeof(to->host), d.host);
		core_show(to->method, sizeof(to->method), d.method ? d.method : "");
		core_show(to->reason, sizeof(to->reason), d.reason);
		core_show(to->remedy, sizeof(to->remedy), d.remedy ? d.remedy : "");
		core_show(to->why, sizeof(to->why), d.why ? d.why : "");
	}
}

static int take_exit(struct cove_exec *x, const struct wire_frame *f, struct cove_event *ret,
		     struct err *e)
{
	struct exec_record m;

	if (wire_exit_decode(f, &m) < 0)
		return core_unexpected(&x->call.q, f, e);
	free(x->cwd);
	x->cwd = m.cwd ? strdup(m.cwd) : NULL;
	x->done = x->over = true;
	*ret = (struct cove_event){.type = COVE_EVENT_EXIT, .exec_id = x->exec_id};
	if (m.exec_id == 0)
		m.exec_id = (uint32_t)x->exec_id;
	m.cwd = x->cwd;
	str_copy(m.shell, sizeof(m.shell), x->shell);
	exec_result(&m, &ret->result);
	ret->result.never_started = x->queued;
	ret->result.cwd = x->cwd;
	take_denials(x, &m, &ret->result);
	if (!x->quiet)
		event_result(x, &m);
	return 1;
}

static int take_begun(struct cove_exec *x, const struct wire_frame *f, struct cove_event *ret,
		      struct err *e)
{
	bool queued = f->type == WIRE_QUEUED;
	struct wire_started m = {0};
	struct wire_queued q = {0};
	struct exec_record shown = {0};

	if ((queued ? wire_queued_decode(f, &q) : wire_started_decode(f, &m)) < 0)
		return core_unexpected(&x->call.q, f, e);
	x->exec_id = queued ? q.exec_id : m.exec_id;
	x->queued = queued;
	if (!queued && !x->quiet) {
		shown.exec_id = (uint32_t)x->exec_id;
		str_copy(shown.shell, sizeof(shown.shell), x->shell);
		core_event(x->box->cove, &(struct event){.kind = EVENT_COMMAND,
							 .box = x->box->name,
							 .exec = &shown,
							 .command = x->command});
	}
	*ret = (struct cove_event){.type = queued ? COVE_EVENT_QUEUED : COVE_EVENT_STARTED,
				   .exec_id = x->exec_id};
	return 1;
}

int core_exec_frame(struct cove_exec *x, const struct wire_frame *f, struct cove_event *ret,
		    struct err *e)
{
	struct wire_credit credit;

	switch (f->type) {
	case WIRE_QUEUED:
	case WIRE_STARTED:
		return take_begun(x, f, ret, e);
	case WIRE_DATA:
		if (f->stream == WIRE_STDIN)
			return core_unexpected(&x->call.q, f, e);
		x->owed_stream = f->stream;
		x->owed = f->len;
		*ret = (struct cove_event){
			.type = f->stream == WIRE_STDOUT ? COVE_EVENT_OUT : COVE_EVENT_ERR,
			.data = f->payload,
			.len = f->len,
			.exec_id = x->exec_id,
		};
		return 1;
	case WIRE_CREDIT:
		if (f->stream != WIRE_STDIN || wire_credit_decode(f, &credit) < 0 ||
		    wire_flow_credit(&x->input, credit.bytes) < 0)
			return core_unexpected(&x->call.q, f, e);
		return 0;
	case WIRE_EXIT:
		return take_exit(x, f, ret, e);
	case WIRE_OK: /* an attach that does not follow has shown all there is */
		x->done = x->over = true;
		return -EPIPE;
	default:
		return core_unexpected(&x->call.q, f, e);
	}
}

int core_exec_took(struct cove_exec *x, enum wire_stream stream, size_t n, struct err *e)
{
	struct wire_credit m = {.bytes = wire_flow_took(&x->output[stream], n)};

	if (m.bytes > 0 && wire_credit_encode(core_out(x->conn), x->call.q.id, stream, &m) < 0)
		return err_errno(e, ENOBUFS, "queue credit");
	return 0;
}

static int exec_next(struct cove_exec *x, int timeout_ms, struct cove_event *ret, struct err *e)
{
	bool was_full = x->input.left == 0;
	struct wire_frame f;
	int r;

	if (x->log)
		return core_log_next(x, timeout_ms, ret, e);
	if (x->done)
		return -EPIPE;
	/* The caller came back, so it has taken what it was given. */
	r = core_exec_took(x, x->owed_stream, x->owed, e);
	x->owed = 0;
	if (r == 0)
		r = core_conn_flush(x->conn, e);
	while (r == 0) {
		r = core_call_next(&x->call, timeout_ms, &f, e);
		if (r <= 0)
			break;
		r = core_exec_frame(x, &f, ret, e);
		/* Room for stdin is worth coming back for, but not before what has come: 0 means
		 * that nothing waits here. */
		if (was_full && x->input.left > 0)
			timeout_ms = 0;
	}
	/* Whatever ended the command's stream, there is no next event. */
	if (r < 0)
		x->done = true;
	return r;
}

int cove_exec_next(struct cove_exec *exec, int timeout_ms, struct cove_event *ret,
		   struct cove_error *err)
{
	struct cove *cove = exec->box && !exec->quiet ? exec->box->cove : NULL;
	struct err e = {0};
	int r = exec_next(exec, timeout_ms, ret, &e);

	if (r == -EPIPE && e.kind == ERR_NONE)
		return r;
	return core_return(cove, exec->box ? exec->box->name : NULL, r, &e, err);
}

int cove_exec_start(struct cove_box *box, const struct cove_command *command,
		    struct cove_exec **ret, struct cove_error *err)
{
	autofree struct cove_exec *x = malloc(sizeof(*x));
	struct cove_command c;
	struct err e = {0};
	int r = core_copy_sized(&c, sizeof(c), command, &e);

	if (r == 0 && !x)
		r = err_errno(&e, ENOMEM, "start a command");
	if (r == 0)
		r = core_exec_open(x, box, &c, 0, &e);
	if (r == 0) {
		r = core_exec_feed_all(x, &c, &e);
		if (r == 0)
			r = core_conn_flush(x->conn, &e);
		if (r < 0)
			core_exec_end(x);
	}
	if (r == 0)
		*ret = take_ptr(x);
	return core_return(box->cove, box->name, r, &e, err);
}

int core_exec_join(struct cove_exec *x, struct core_conn *conn, const struct wire_attach *m)
{
	x->conn = conn;
	core_call_begin(&x->call, conn);
	x->exec_id = m->exec_id;
	x->quiet = true;
	init_flows(x);
	return wire_attach_encode(core_out(conn), x->call.q.id, 0, m);
}

int core_exec_attach(struct cove_box *box, const struct wire_attach *m, struct cove_exec **ret,
		     struct err *e)
{
	struct cove_exec *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return err_errno(e, ENOMEM, "join a command");
	r = box_conn_get(box, &x->conn, e);
	if (r == 0) {
		x->box = box;
		box->refs++;
		r = core_exec_join(x, x->conn, m);
		if (r == 0)
			r = core_conn_flush(x->conn, e);
	}
	if (r < 0) {
		core_exec_end(x);
		free(x);
		return r;
	}
	*ret = x;
	return 0;
}

int cove_exec_attach(struct cove_box *box, uint64_t exec_id, uint64_t out_from, uint64_t err_from,
		     bool follow, struct cove_exec **ret, struct cove_error *err)
{
	struct wire_attach m = {.exec_id = exec_id,
				.stdout_from = out_from,
				.stderr_from = err_from,
				.follow = follow,
				.input = follow};
	struct err e = {0};

	return core_return(box->cove, box->name, core_exec_attach(box, &m, ret, &e), &e, err);
}

size_t cove_exec_input_room(const struct cove_exec *exec)
{
	return exec->done || exec->log ? 0 : (size_t)exec->input.left;
}

static int may_write(const struct cove_exec *x, struct err *e)
{
	if (x->log || x->done)
		return err_set(e, ERR_CONFLICT, EPIPE, "the command has ended");
	return 0;
}

int cove_exec_write(struct cove_exec *exec, const void *data, size_t len, struct cove_error *err)
{
	struct err e = {0};
	int r = may_write(exec, &e);

	if (r == 0 && len > exec->input.left)
		r = err_set(&e, ERR_LIMIT, EAGAIN, "stdin takes %zu bytes now, not %zu",
			    (size_t)exec->input.left, len);
	if (r == 0 && core_exec_feed(exec, data, len) < len)
		r = err_errno(&e, ENOBUFS, "queue stdin");
	if (r == 0)
		r = core_conn_flush(exec->conn, &e);
	return core_return(NULL, NULL, r, &e, err);
}

int cove_exec_close_input(struct cove_exec *exec, struct cove_error *err)
{
	struct err e = {0};
	int r = may_write(exec, &e);

	if (r == 0)
		r = wire_encode(core_out(exec->conn), WIRE_EOF, WIRE_STDIN, exec->call.q.id, NULL,
				0);
	if (r == 0)
		r = core_conn_flush(exec->conn, &e);
	return core_return(NULL, NULL, r, &e, err);
}

int cove_exec_resize(struct cove_exec *exec, unsigned rows, unsigned cols, struct cove_error *err)
{
	struct wire_resize m = {.rows = rows, .cols = cols};
	struct err e = {0};
	int r = may_write(exec, &e);

	if (r == 0)
		r = wire_resize_encode(core_out(exec->conn), exec->call.q.id, 0, &m);
	if (r == 0)
		r = core_conn_flush(exec->conn, &e);
	return core_return(NULL, NULL, r, &e, err);
}

/* The loop's and not the socket's: credit that did not fit into the socket waits for room there. */
int cove_exec_fd(const struct cove_exec *exec)
{
	return exec->conn ? ev_fd(exec->conn->ev) : -1;
}

void cove_exec_free(struct cove_exec *exec)
{
	if (!exec)
		return;
	core_exec_end(exec);
	free(exec);
}
