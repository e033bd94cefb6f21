/* Commands that were begun before: their list, results, output, signals; shells; a box's events. */
#include "api/handlers.h"

#include "base/base64.h"
#include "base/fd.h"
#include "core/view.h"
#include "http/sse.h"

#include <errno.h>
#include <unistd.h>

enum { EVENT_MAX = 4 << 20, POLL_MS = 500 };

static int exec_id(struct api_call *c, uint64_t *ret, struct err *e)
{
	if (str_parse_u64(api_param(c, "exec"), UINT32_MAX, ret) && *ret > 0)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "an exec is a number");
}

/* In the order of their numbers. */
static bool exec_cursor(const struct api_call *c, const void *row, char ret[API_CURSOR_SIZE])
{
	const struct cove_exec_info *x = row;

	snprintf(ret, API_CURSOR_SIZE, "%010llu", (unsigned long long)x->exec_id);
	return true;
}

static int exec_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_exec_info *rows = NULL;
	struct cove_error err;
	const char *box;
	int r = api_box(c, &box, e);

	if (r < 0)
		return r;
	r = cove_execs(cove, box, &rows, &err);
	return api_put_rows(c,
			    &(struct api_rows){"execs", view_exec_fields, rows, sizeof(*rows), r,
					       exec_cursor, NULL},
			    &err, e);
}

/* In steps, so that a client that went is noticed. */
static int exec_wait(struct api_call *c, struct cove *cove, struct err *e)
{
	uint64_t id, timeout_ms = UINT64_MAX, waited_ms = 0;
	struct cove_result result;
	struct cove_error err;
	const char *box, *text;
	int r = api_box(c, &box, e);

	if (r == 0)
		r = exec_id(c, &id, e);
	if (r == 0)
		r = api_query(c, "timeout", &text, e);
	if (r == 0 && text && !str_parse_ms(text, &timeout_ms))
		r = err_set(e, ERR_INVALID, EINVAL, "'timeout' is a time as 90, \"10m\"");
	if (r < 0)
		return r;
	do {
		uint64_t left = timeout_ms - waited_ms, step = left < POLL_MS ? left : POLL_MS;

		r = cove_wait(cove, box, id, step ? step : 1, &result, &err);
		waited_ms += step;
	} while (r < 0 && err.kind == COVE_TIMEOUT && waited_ms < timeout_ms && api_goes_on(c));
	if (r < 0)
		return api_failed(r, &err, e);
	c->is_exact = true;
	r = api_json_take(c, 200, cove_result_json(&result), e);
	cove_result_free(&result);
	return r;
}

/* ---- output ---- */

/* One event of the stream; negative: the client has gone. */
int api_send_event(int fd, const char *name, const char *id, const char *data)
{
	struct sse_event event = {.name = name, .id = id, .data = data, .len = strlen(data)};
	struct buf b;
	int r;

	buf_init(&b, EVENT_MAX);
	r = sse_event_write(&b, &event);
	if (r == 0)
		r = fd_write_full(fd, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r;
}

void api_put_output(struct json *j, const void *data, size_t len)
{
	bool is_text = str_is_utf8(data, len);

	json_key(j, is_text ? "text" : "base64");
	if (is_text)
		json_strn(j, data, len);
	else
		json_base64(j, data, len);
}

int api_output_json(struct buf *out, uint64_t offset, const void *data, size_t len)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j);
	json_kv_u64(&j, "offset", offset);
	api_put_output(&j, data, len);
	json_object_end(&j);
	return j.error < 0 || !buf_cstr(out) ? -ENOMEM : 0;
}

static int send_output(int fd, const struct cove_event *ev, uint64_t offset)
{
	struct buf b;
	int r;

	buf_init(&b, EVENT_MAX);
	r = api_output_json(&b, offset, ev->data, ev->len);
	if (r == 0)
		r = api_send_event(fd, ev->type == COVE_EVENT_ERR ? "stderr" : "stdout", NULL,
				   buf_cstr(&b));
	buf_done(&b);
	return r;
}

/* A command may be silent for long: the answer begins all the same, so that who follows knows. */
static int begin_events(int fd)
{
	struct buf b;
	int r;

	buf_init(&b, EVENT_MAX);
	r = sse_comment_write(&b, "");
	if (r == 0)
		r = fd_write_full(fd, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r;
}

static int send_all(struct api_call *c, struct cove_exec *x, int fd, uint64_t offsets[2],
		    struct err *e)
{
	struct cove_error err;
	struct cove_event ev;
	char *text;
	bool begun = false;
	int r;

	for (;;) {
		r = cove_exec_next(x, POLL_MS, &ev, &err);
		if (r == -EPIPE)
			return 0;
		if (r < 0)
			return api_failed(r, &err, e);
		if (!api_goes_on(c))
			return 0;
		if (r == 0 && begun)
			continue;
		if (r == 0)
			r = begin_events(fd);
		else if (ev.type == COVE_EVENT_OUT || ev.type == COVE_EVENT_ERR) {
			r = send_output(fd, &ev, offsets[ev.type == COVE_EVENT_ERR]);
			offsets[ev.type == COVE_EVENT_ERR] += ev.len;
		} else if (ev.type == COVE_EVENT_EXIT) {
			text = cove_result_json(&ev.result);
			r = text ? api_send_event(fd, "exit", NULL, text) : -ENOMEM;
			free(text);
		}
		if (r < 0)
			return r == -EPIPE ? 0 : err_errno(e, -r, "write the answer");
		begun = true;
	}
}

static int exec_output(struct api_call *c, struct cove *cove, struct err *e)
{
	uint64_t id, offsets[2] = {0, 0};
	struct cove_exec *x = NULL;
	struct cove_error err;
	const char *box;
	bool follow;
	int fd, r = api_box(c, &box, e);

	if (r == 0)
		r = exec_id(c, &id, e);
	if (r == 0)
		r = api_query_u64(c, "stdout_from", 0, &offsets[0], e);
	if (r == 0)
		r = api_query_u64(c, "stderr_from", 0, &offsets[1], e);
	if (r == 0)
		r = api_query_bool(c, "follow", &follow, e);
	if (r < 0)
		return r;
	r = cove_log_open(cove, box, id, offsets[0], offsets[1], follow, &x, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	c->type = "text/event-stream";
	r = api_stream_open(c, &fd, e);
	if (r == 0)
		r = send_all(c, x, fd, offsets, e);
	cove_exec_free(x);
	return r;
}

struct signal_in {
	const char *signal;
};
static const struct api_in_field signal_fields[] = {API_IN(signal_in, signal, STR), {NULL, 0, 0}};

static int exec_signal(struct api_call *c, struct cove *cove, struct err *e)
{
	struct signal_in in = {.signal = "TERM"};
	const struct api_in_table tables[] = {{signal_fields, &in}, {NULL, NULL}};
	struct cove_box *box = NULL;
	struct cove_error err;
	uint64_t id;
	int sig = 0, r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = exec_id(c, &id, e);
	if (r == 0 && (sig = str_parse_signal(in.signal)) <= 0)
		r = err_set(e, ERR_INVALID, EINVAL, "there is no signal '%.40s'", in.signal);
	if (r == 0)
		r = api_box_find(c, cove, &box, e);
	if (r < 0)
		return r;
	r = cove_signal(box, id, sig, &err);
	cove_box_free(box);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- shells ---- */

static int shell_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_shell_info *rows = NULL;
	struct cove_box *box = NULL;
	struct cove_error err;
	int r = api_box_find(c, cove, &box, e);

	if (r < 0)
		return r;
	r = cove_shells(box, &rows, &err);
	cove_box_free(box);
	return api_put_rows(
		c,
		&(struct api_rows){"shells", view_shell_fields, rows, sizeof(*rows), r, NULL, NULL},
		&err, e);
}

static int shell_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_box *box = NULL;
	struct cove_error err;
	bool force;
	int r = api_query_bool(c, "force", &force, e);

	if (r == 0)
		r = api_box_find(c, cove, &box, e);
	if (r < 0)
		return r;
	r = cove_shell_remove(box, api_param(c, "shell"), force, &err);
	cove_box_free(box);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- events ---- */

struct follow {
	struct api_call *call;
	int fd;
	uint64_t after;
};

static bool on_line(void *arg, const char *line)
{
	struct follow *f = arg;
	json_t *v = json_loads(line, 0, NULL);
	uint64_t seq = (uint64_t)json_integer_value(json_object_get(v, "seq"));
	char id[24];

	json_decref(v);
	if (seq && seq <= f->after)
		return true;
	snprintf(id, sizeof(id), "%llu", (unsigned long long)seq);
	return api_send_event(f->fd, "event", id, line) == 0 && api_goes_on(f->call);
}

static bool follow_goes_on(void *arg)
{
	return api_goes_on(((struct follow *)arg)->call);
}

static int event_list(struct api_call *c, struct cove *cove, struct err *e)
{
	const char *box, *last = http_head_find(&c->head, "Last-Event-ID");
	struct follow f = {.call = c};
	struct cove_error err;
	bool follow;
	int r = api_box(c, &box, e);

	if (r == 0)
		r = api_query_bool(c, "follow", &follow, e);
	if (r == 0)
		r = api_query_u64(c, "after", 0, &f.after, e);
	if (r == 0 && last && !str_parse_u64(last, INT64_MAX, &f.after))
		r = err_set(e, ERR_INVALID, EINVAL, "Last-Event-ID is a number here");
	c->type = "text/event-stream";
	if (r == 0)
		r = api_stream_open(c, &f.fd, e);
	if (r < 0)
		return r;
	r = core_events(cove, box, follow, &(struct core_watcher){on_line, follow_goes_on, &f},
			&err);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

/* clang-format off */
const struct api_route api_execs_routes[] = {
	{"GET", "/v1/boxes/{box}/execs", "listCommands", KEY_READ, .work = exec_list},
	{"GET", "/v1/boxes/{box}/execs/{exec}", "waitCommand", KEY_RUN, .work = exec_wait,
	 .lasts = true},
	{"GET", "/v1/boxes/{box}/execs/{exec}/output", "readOutput", KEY_RUN,
	 .work = exec_output, .streams = true, .resumes = true},
	{"POST", "/v1/boxes/{box}/execs/{exec}/signal", "signalCommand", KEY_RUN, API_BODY_JSON,
	 .work = exec_signal},
	{"GET", "/v1/boxes/{box}/shells", "listShells", KEY_READ, .work = shell_list},
	{"DELETE", "/v1/boxes/{box}/shells/{shell}", "removeShell", KEY_RUN, .work = shell_remove},
	{"GET", "/v1/boxes/{box}/events", "listEvents", KEY_READ, .work = event_list,
	 .streams = true, .resumes = true},
	{0}};
/* clang-format on */
