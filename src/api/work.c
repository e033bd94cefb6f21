/*
 * Handlers in threads, and the pipes of their bytes.
 *
 *	client --api_work_feed--> body_pipe ==> body_fd	   thread: blocking calls of libcove
 *	client <--api_work_read-- stream_pipe <== stream_fd
 *
 * The loop's ends never block. What is full stops its sender: the client's socket is not read, or
 * the thread waits in write. A client that goes closes the stream, so the thread's next write
 * fails; its body is left without an end until the thread has given up, so that no half of a file
 * is taken for the whole.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/quota.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SHARE = 4, KEPT = 8 };

struct api_pipe {
	struct api_call *call;
	struct ev_io io; /* its fd is owned */
	bool ended;
};

static void pipe_close(struct api_call *c, struct api_pipe **p)
{
	if (!*p)
		return;
	ev_io_remove(c->api->ev, &(*p)->io);
	fd_close(&(*p)->io.fd);
	free(*p);
	*p = NULL;
}

/* *ret_fd is the thread's end. */
static int pipe_open(struct api_call *c, bool to_thread, void (*on_event)(struct ev_io *, uint32_t),
		     struct api_pipe **ret, int *ret_fd)
{
	struct api_pipe *p = calloc(1, sizeof(*p));
	int fds[2], mine, r;

	if (!p)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		free(p);
		return -errno;
	}
	/* Only for speed: a smaller pipe is as good. */
	fcntl(fds[0], F_SETPIPE_SZ, API_PIPE_BYTES);
	mine = to_thread ? fds[1] : fds[0];
	*p = (struct api_pipe){.call = c, .io = {.on_event = on_event, .fd = mine}};
	r = fcntl(mine, F_SETFL, O_NONBLOCK) < 0 ? -errno : ev_io_add(c->api->ev, &p->io, 0);
	if (r < 0) {
		close(fds[0]);
		close(fds[1]);
		free(p);
		return r;
	}
	*ret_fd = to_thread ? fds[0] : fds[1];
	*ret = p;
	return 0;
}

/* ---- the body ---- */

static void on_body_room(struct ev_io *io, uint32_t events)
{
	struct api_pipe *p = container(io, struct api_pipe, io);
	struct api_call *c = p->call;

	ev_io_set(c->api->ev, io, 0);
	if (events & (EPOLLERR | EPOLLHUP)) {
		/* The thread wants no more: the rest is dropped. */
		p->ended = true;
		ev_io_remove(c->api->ev, io);
	}
	if (c->sink)
		c->sink->on_body_room(c->sink, c);
}

size_t api_work_feed(struct api_call *c, const void *p, size_t n)
{
	struct api_pipe *to = c->body_pipe;
	size_t done = 0;

	if (!to || to->ended)
		return n;
	while (done < n) {
		ssize_t w = write(to->io.fd, (const char *)p + done, n - done);

		if (w > 0) {
			done += (size_t)w;
		} else if (errno == EAGAIN) {
			ev_io_set(c->api->ev, &to->io, EPOLLOUT);
			break;
		} else if (errno != EINTR) {
			to->ended = true;
			return n;
		}
	}
	return done;
}

void api_work_end_body(struct api_call *c)
{
	pipe_close(c, &c->body_pipe);
}

/* ---- the stream ---- */

static void stream_begins(struct api_call *c)
{
	if (c->state == API_RUNS)
		api_begin(c, c->status ? c->status : 200, c->type);
}

static void work_ends(struct api_call *c)
{
	bool streamed = c->stream_pipe;

	pipe_close(c, &c->stream_pipe);
	if (!c->sink) {
		api_call_gone_ends(c);
		return;
	}
	if (c->state == API_RUNS && (c->result < 0 || !streamed)) {
		api_reply(c, c->result, &c->error);
		return;
	}
	stream_begins(c);
	api_end(c, c->result < 0);
}

void api_work_read(struct api_call *c)
{
	struct api_pipe *from = c->stream_pipe;
	char block[64 << 10];
	ssize_t n = read(from->io.fd, block, sizeof(block));

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		ev_io_set(c->api->ev, &from->io, EPOLLIN);
		return;
	}
	if (n <= 0) {
		from->ended = true;
		ev_io_remove(c->api->ev, &from->io);
		if (!c->job.on_run)
			work_ends(c);
		return;
	}
	stream_begins(c);
	ev_io_set(c->api->ev, &from->io, api_bytes(c, block, (size_t)n) ? EPOLLIN : 0);
}

static void on_stream(struct ev_io *io, uint32_t events)
{
	api_work_read(container(io, struct api_pipe, io)->call);
}

/* From the thread; the loop's end is there already. */
int api_stream_open(struct api_call *c, int *ret_fd, struct err *e)
{
	if (c->stream_fd < 0)
		return err_set(e, ERR_INTERNAL, EBADF, "the answer cannot be streamed");
	*ret_fd = c->stream_fd;
	c->streams = true;
	return 0;
}

bool api_goes_on(const struct api_call *c)
{
	return !atomic_load(&c->gone);
}

int api_cancel_fd(struct api_call *c, int *ret_fd, struct err *e)
{
	*ret_fd = c->cancel_fd;
	return c->cancel_fd < 0 ? err_set(e, ERR_INTERNAL, EBADF, "the call cannot be ended") : 0;
}

/* ---- the job ---- */

static bool still_asked(void *arg)
{
	return api_goes_on(arg);
}

int api_patience(struct api_call *c, struct cove *cove, uint64_t wait_ms, struct err *e)
{
	if (wait_ms == API_WAIT_DEFAULT)
		return 0;
	if (wait_ms > ADMISSION_WAIT_MAX_MS)
		return err_set(e, ERR_INVALID, EINVAL, "'admission_wait' is at most %d seconds",
			       ADMISSION_WAIT_MAX_MS / 1000);
	cove->patience.wait_ms = wait_ms;
	return 0;
}

/* What the thread's libcove asks of the call for which it works; a reaper's has none. */
static void lend(struct api_call *c, struct cove *cove)
{
	cove->patience = (struct core_patience){
		.wait_ms = c->wait_ms, .goes_on = still_asked, .arg = c, .cancel_fd = c->cancel_fd};
	cove->on_making = api_quota_name;
	cove->making_arg = c;
}

static void take_back(struct cove *cove)
{
	cove->patience = (struct core_patience){0};
	cove->on_making = NULL;
}

static int run_work(struct api_call *c, struct cove *cove)
{
	int r = c->route->body == API_BODY_JSON ? api_call_decode(c, &c->error) : 0;

	if (r == 0)
		r = c->route->work(c, cove, &c->error);
	/* Which may be many values, and nothing refers to them any more. */
	json_decref(take_ptr(c->body));
	return r;
}

static void on_run(struct ev_job *j, void *state)
{
	struct api_call *c = container(j, struct api_call, job);

	if (state)
		lend(c, state);
	if (!state)
		c->result = err_set(&c->error, ERR_INTERNAL, ENOMEM,
				    "the server cannot open its state directory");
	else if (!api_goes_on(c))
		c->result = err_set(&c->error, ERR_INTERRUPTED, ECANCELED, "the client has gone");
	else
		c->result = run_work(c, state);
	if (c->result == 0)
		c->result = api_trail_before_reply(c, &c->error);
	if (state)
		take_back(state);
	fd_close(&c->body_fd);
	fd_close(&c->stream_fd);
}

static void on_work_done(struct ev_job *j)
{
	struct api_call *c = container(j, struct api_call, job);

	c->job.on_run = NULL;
	if (!c->streams)
		pipe_close(c, &c->stream_pipe);
	/* What it wrote last is still in the pipe. */
	if (!c->stream_pipe || c->stream_pipe->ended || !c->sink)
		work_ends(c);
}

bool api_same_key(const struct api_call *a, const struct api_call *b)
{
	return a->who.key && b->who.key && strcmp(a->who.key->id, b->who.key->id) == 0;
}

unsigned api_threads_kept(unsigned threads_max)
{
	return threads_max > 1 ? (threads_max - 1) / KEPT + 1 : 0;
}

static bool may_last(const struct api_route *route)
{
	return route->lasts || route->streams || route->body == API_BODY_BYTES;
}

/* One key's calls leave threads to the others, and those of all keys that may hold one for long
 * leave a quarter to those that do not. */
static int check_share(const struct api_call *c, struct err *e)
{
	unsigned all = c->api->options.threads_max, share = all / SHARE + 1, count = 0, lasting = 0;
	unsigned lasting_max = (all - api_threads_kept(all)) * 3 / 4;

	if (c->who.is_operator)
		return 0;
	for (const struct api_call *at = c->api->calls; at; at = at->next) {
		if (at == c || !at->job.on_run || at->who.is_operator)
			continue;
		count += api_same_key(at, c);
		lasting += may_last(at->route);
	}
	if (count >= share)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "key '%s' has %u requests under way already: wait for one, or "
			       "end one that follows",
			       c->who.key->name, count);
	if (may_last(c->route) && lasting > 0 && lasting >= lasting_max)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "%u requests of keys that follow, wait, search, build or carry "
			       "files are under way, as many as the server takes at once: ask "
			       "again in a moment",
			       lasting);
	return 0;
}

static int push(struct api_call *c, struct err *e)
{
	int r = ev_work_push(c->api->work, &c->job);

	if (r < 0)
		c->job.on_run = NULL;
	if (r == -EAGAIN)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "the server has as much to do as it may: ask again in a moment");
	return r < 0 ? err_errno(e, -r, "begin the request") : 0;
}

static void on_decode(struct ev_job *j, void *state)
{
	struct api_call *c = container(j, struct api_call, job);

	if (api_goes_on(c))
		c->result = api_call_decode(c, &c->error);
}

static void on_decoded(struct ev_job *j)
{
	struct api_call *c = container(j, struct api_call, job);

	c->job.on_run = NULL;
	api_call_decoded(c);
}

int api_work_decode(struct api_call *c, struct err *e)
{
	int r = check_share(c, e);

	if (r < 0)
		return r;
	c->job = (struct ev_job){
		.on_run = on_decode, .on_done = on_decoded, .urgent = c->who.is_operator};
	return push(c, e);
}

int api_work_start(struct api_call *c, struct err *e)
{
	int r = c->route->scope ? check_share(c, e) : 0;

	if (r == 0 && c->route->body == API_BODY_BYTES)
		r = api_body_hold_all(c, e);
	if (r < 0)
		return r;
	if (c->route->body == API_BODY_BYTES)
		r = pipe_open(c, true, on_body_room, &c->body_pipe, &c->body_fd);
	if (r == 0 && c->route->streams) {
		r = pipe_open(c, false, on_stream, &c->stream_pipe, &c->stream_fd);
		if (r == 0)
			r = ev_io_set(c->api->ev, &c->stream_pipe->io, EPOLLIN);
	}
	if (r == 0 && (c->route->streams || c->route->cancels)) {
		c->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = c->cancel_fd < 0 ? -errno : 0;
	}
	if (r == 0) {
		c->wait_ms = c->api->options.admission_wait_ms;
		c->load = api_load_now(c->api);
		c->job = (struct ev_job){
			.on_run = on_run, .on_done = on_work_done, .urgent = c->who.is_operator};
		return push(c, e);
	}
	return r < 0 ? err_errno(e, -r, "begin the request") : 0;
}

void api_work_gone(struct api_call *c)
{
	const uint64_t one = 1;

	pipe_close(c, &c->stream_pipe);
	if (c->cancel_fd >= 0 && write(c->cancel_fd, &one, sizeof(one)) < 0)
		ASSERT(errno == EAGAIN);
}

void api_work_done(struct api_call *c)
{
	pipe_close(c, &c->body_pipe);
	pipe_close(c, &c->stream_pipe);
	fd_close(&c->body_fd);
	fd_close(&c->stream_fd);
	fd_close(&c->cancel_fd);
}
