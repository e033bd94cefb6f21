/* Running cove-store; see helper.h. */
#include "core/helper.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "core/core.h"
#include "core/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "cove-store"

enum {
	REQUEST_FD = 3,
	ANSWER_FD = 4,
	FIRST_FD = 5,
	READ_BYTES = 64 << 10,
	NOT_EXECUTED = 127,
};
_Static_assert(FIRST_FD + HELPER_FDS_MAX <= CHILD_FDS_MAX, "they can be passed");

struct helper_answer {
	const struct helper_call *call;
	struct buf in;	/* what came and is no whole line yet */
	char *result;	/* owned */
	bool has_error; /* and it is in *e */
	struct err *e;
};

static int put_request(struct cove *cove, const struct helper_call *call, struct buf *b)
{
	struct json j;
	int r;

	json_init(&j, b);
	json_object_begin(&j);
	json_kv_str(&j, "verb", call->verb);
	json_kv_str(&j, "home", cove->state.home);
	json_kv_str(&j, "run", cove->state.run);
	json_key(&j, "fds");
	json_object_begin(&j);
	for (size_t i = 0; i < call->fd_count; i++)
		json_kv_u64(&j, call->fds[i].name, FIRST_FD + i);
	json_object_end(&j);
	json_key(&j, "args");
	r = j.error ? j.error : buf_append_str(b, call->args ? call->args : "{}");
	return r == 0 ? buf_append_str(b, "}") : r;
}

static int start(struct cove *cove, const struct helper_call *call, int *ret_fd, pid_t *ret_pid,
		 struct err *e)
{
	char path[sizeof(cove->door_path)];
	char *argv[] = {(char[]){PROGRAM}, NULL};
	autoclose int request = -1, ours = -1, theirs = -1, null = fd_open("/dev/null", O_RDWR);
	int fds[FIRST_FD + HELPER_FDS_MAX], pair[2], r;
	struct buf text;

	ASSERT(call->fd_count <= HELPER_FDS_MAX);
	r = spawn_find_program(PROGRAM, path, sizeof(path), e);
	if (r < 0)
		return r;
	buf_init(&text, HELPER_REQUEST_MAX);
	r = put_request(cove, call, &text);
	if (r == 0)
		r = fd_seal("cove-request", buf_data(&text), buf_len(&text), &request);
	buf_done(&text);
	if (r == 0 && (null < 0 || pipe2(pair, O_CLOEXEC) < 0))
		r = -errno;
	if (r < 0)
		return err_errno(e, -r, "prepare '%s' for %s", call->verb, PROGRAM);
	ours = pair[0];
	theirs = pair[1];
	fds[0] = fds[1] = null;
	fds[2] = -1;
	fds[REQUEST_FD] = request;
	fds[ANSWER_FD] = theirs;
	for (size_t i = 0; i < call->fd_count; i++)
		fds[FIRST_FD + i] = call->fds[i].fd;
	r = child_start_fds(path, argv, fds, FIRST_FD + call->fd_count, ret_pid);
	if (r < 0)
		return err_errno(e, -r, "run '%.140s'", path);
	*ret_fd = take_fd(ours);
	return 0;
}

static int take_error(struct helper_answer *a, char *text, size_t len)
{
	const char *key, *value;
	struct err found = {.kind = ERR_INTERNAL};
	struct lines l;
	uint64_t n;
	int r;

	lines_init(&l, text, len);
	while ((r = lines_next(&l, &key, &value)) > 0) {
		if (strcmp(key, "kind") == 0)
			found.kind = err_kind_find(value);
		else if (strcmp(key, "code") == 0 && str_parse_u64(value, 4095, &n))
			found.code = (int)n;
		else if (strcmp(key, "message") == 0)
			str_copy(found.msg, sizeof(found.msg), value);
	}
	if (r == 0) {
		*a->e = found;
		a->has_error = true;
	}
	return r;
}

/* One answer: its value is a text of its own. */
static int take_line(struct helper_answer *a, char *line, size_t len)
{
	const char *key, *value;
	struct lines l;
	size_t value_len;
	int r;

	lines_init(&l, line, len);
	r = lines_next(&l, &key, &value);
	if (r <= 0 || a->has_error || (a->result && strcmp(key, "error") != 0))
		return -EBADMSG;
	value_len = strlen(value);
	if (strcmp(key, "progress") == 0)
		return !a->call->on_progress ||
				       a->call->on_progress(a->call->arg, (char *)(uintptr_t)value,
							    value_len)
			       ? 0
			       : -ECANCELED;
	if (strcmp(key, "error") == 0)
		return take_error(a, (char *)(uintptr_t)value, value_len);
	if (strcmp(key, "result") != 0)
		return -EBADMSG;
	a->result = strdup(value);
	return a->result ? 0 : -ENOMEM;
}

static int take_lines(struct helper_answer *a)
{
	char *from, *end, held;
	int r = 0;

	/* A NUL beyond what it holds, which a line that ends there borrows. */
	if (!buf_cstr(&a->in))
		return -ENOBUFS;
	while (r == 0 && buf_len(&a->in) > 0) {
		from = (char *)(uintptr_t)buf_data(&a->in);
		end = memchr(from, '\n', buf_len(&a->in));
		if (!end)
			break;
		held = end[1];
		end[1] = 0;
		r = take_line(a, from, (size_t)(end + 1 - from));
		end[1] = held;
		buf_consume(&a->in, (size_t)(end + 1 - from));
	}
	return r;
}

/* Until it has closed its end. */
static int hear(struct helper_answer *a, int fd)
{
	struct pollfd p[] = {
		{.fd = fd, .events = POLLIN},
		{.fd = a->call->cancel_fd > 0 ? a->call->cancel_fd : -1, .events = POLLIN}};
	uint8_t *room;
	ssize_t n;
	int r;

	for (;;) {
		if (poll(p, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (p[1].revents)
			return -ECANCELED;
		if (!p[0].revents)
			continue;
		room = buf_reserve(&a->in, READ_BYTES);
		if (!room)
			return -ENOBUFS;
		n = read(fd, room, READ_BYTES);
		if (n == 0)
			return buf_len(&a->in) == 0 ? 0 : -EBADMSG;
		if (n < 0 && errno != EINTR)
			return -errno;
		buf_commit(&a->in, n > 0 ? (size_t)n : 0);
		r = take_lines(a);
		if (r < 0)
			return r;
	}
}

/* What became of it, once it is over. */
static int judge(const struct helper_answer *a, int status, struct err *e)
{
	if (a->has_error)
		return e->code > 0 ? -e->code : -EIO;
	if (status == 0)
		return 0;
	if (status == NOT_EXECUTED)
		return err_set(e, ERR_UNSUPPORTED, ENOEXEC,
			       PROGRAM " cannot be executed here: are libsqlite3, libcurl, "
				       "libarchive and libjansson installed?");
	return status > 128
		       ? err_set(e, ERR_INTERRUPTED, EINTR, "%s was ended by signal %d during '%s'",
				 PROGRAM, status - 128, a->call->verb)
		       : err_set(e, ERR_INTERNAL, 0, "%s ended with status %d during '%s'", PROGRAM,
				 status, a->call->verb);
}

int helper_run(struct cove *cove, const struct helper_call *call, char **ret, struct err *e)
{
	struct err own = {0};
	struct helper_answer a = {.call = call, .e = e ? e : &own};
	autoclose int fd = -1;
	int status = 0, r;
	pid_t pid;

	r = start(cove, call, &fd, &pid, a.e);
	if (r < 0)
		return r;
	buf_init(&a.in, HELPER_ANSWER_MAX);
	r = hear(&a, fd);
	buf_done(&a.in);
	if (r < 0) {
		child_end(pid);
		r = r == -ECANCELED ? err_set(a.e, ERR_INTERRUPTED, ECANCELED,
					      "'%s' was interrupted", call->verb)
				    : err_set(a.e, ERR_PROTOCOL, -r, "%s gave no answer to '%s'",
					      PROGRAM, call->verb);
	} else {
		status = child_wait(pid);
		r = status < 0 ? err_errno(a.e, -status, "wait for %s", PROGRAM)
			       : judge(&a, status, a.e);
	}
	if (r == 0 && ret) {
		*ret = a.result ? take_ptr(a.result) : strdup("");
		r = *ret ? 0 : err_errno(a.e, ENOMEM, "keep what %s answered", PROGRAM);
	}
	free(a.result);
	return r;
}
