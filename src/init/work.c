/*
 * File operations in a process of their own; see work.h.
 *
 * An operation is over when the process has been reaped and all that it wrote was passed on, in
 * whichever order that comes. Its report is then in the pipe, or it has none: it was killed. The
 * time to the hard end is that of init's clock, which stops while the box is frozen.
 *
 * What comes from the copy is passed on unread. Its report is read as what it is, the word of a
 * process of the user's: a kind and a sentence.
 */
#include "init/work.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/spawn.h"
#include "init/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
	TIME_MS = 30000, /* unless the asker says how long */
	GRACE_MS = 1000, /* from the soft end to the hard one */
	FLUSH_BYTES = 32 << 10,
	FLUSH_MS = 50,
	OUT_BYTES = 256 << 10,
	PIPE_BYTES = 256 << 10,
	LATE_EXIT = 3, /* the status of one that could not say how it went */
};

struct init_work {
	struct file_op op;
	struct init_proc proc;
	struct out_stream out;
	int report_fd; /* owned */
	struct ev_timer limit;
	bool forked, late, ends_itself;
	int status; /* of the process, once proc.pid is 0 */
};

static struct init_work *work_of(struct file_op *op)
{
	return (struct init_work *)op;
}

/* ---- the copy ---- */

static int flush(struct work *w, struct err *e)
{
	int r = fd_write_full(1, buf_data(&w->out), buf_len(&w->out));

	buf_clear(&w->out);
	w->flushed_ms = clock_mono_ms();
	return r < 0 ? err_errno(e, -r, "answer") : 0;
}

bool work_is_late(struct work *w)
{
	uint64_t now = clock_mono_ms();

	if (buf_len(&w->out) > 0 && now - w->flushed_ms >= FLUSH_MS)
		(void)flush(w, NULL); /* without a reader the next one is SIGPIPE */
	return now >= w->end_ms;
}

int work_fail_late(const struct work *w, struct err *e)
{
	char path[160];

	str_copy(path, sizeof(path), w->op->path);
	return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the time given was over in '%s'", path);
}

int work_sent(struct work *w, int r, struct err *e)
{
	if (r < 0)
		return err_errno(e, -r, "answer");
	return buf_len(&w->out) >= FLUSH_BYTES ? flush(w, e) : 0;
}

int work_send_text(struct work *w, const void *p, size_t n, struct err *e)
{
	const char *at = p;
	int r = 0;

	while (n > 0 && r == 0) {
		size_t part = n < FLUSH_BYTES ? n : FLUSH_BYTES;

		r = work_sent(w, wire_encode(&w->out, WIRE_DATA, 0, 0, at, part), e);
		at += part;
		n -= part;
	}
	return r;
}

int work_open_file(const struct work *w, int *ret_fd, struct stat *ret_st, struct err *e)
{
	const struct file_op *op = w->op;
	autoclose int look = path_open(op->path, O_PATH);
	autoclose int fd = -1;

	/* Its type first: opening a FIFO is an event for whoever waits at its other end. */
	if (look < 0)
		return file_error(op, -look, "read", "", e);
	if (fstat(look, ret_st) < 0)
		return file_error(op, errno, "look at", "", e);
	if (!S_ISREG(ret_st->st_mode))
		return file_error_type(op, ret_st->st_mode, "", e);
	fd = path_open(op->path, O_RDONLY);
	if (fd < 0)
		return file_error(op, -fd, "read", "", e);
	if (fstat(fd, ret_st) < 0)
		return file_error(op, errno, "look at", "", e);
	if (!S_ISREG(ret_st->st_mode))
		return file_error_type(op, ret_st->st_mode, "", e);
	*ret_fd = take_fd(fd);
	return 0;
}

bool work_is_binary(const void *p, size_t n, bool all)
{
	const uint8_t *at = p, *end = at + n;
	uint32_t rune;

	if (memchr(p, 0, n))
		return true;
	while (at < end) {
		size_t len = str_utf8(at, (size_t)(end - at), &rune);

		/* The last character may be cut. */
		if (len == 0)
			return all || end - at > 3 || *at < 0xc2;
		at += len;
	}
	return false;
}

uint64_t work_mtime_ns(const struct stat *st)
{
	return st->st_mtim.tv_sec < 0
		       ? 0
		       : (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

/* What the user might have lower already stays so. */
static void bound(int resource, rlim_t most)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return;
	limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(resource, &limit);
}

static void __attribute__((noreturn))
run_copy(struct file_op *op, const struct wire_file *m, uint64_t time_ms,
	 int (*fn)(struct work *w, struct err *e), struct err *e)
{
	struct work w = {.op = op, .m = m};

	if (e->kind == ERR_NONE) {
		bound(RLIMIT_AS, INIT_WORK_BYTES);
		bound(RLIMIT_CPU, (rlim_t)(time_ms / 1000 + 2));
		buf_init(&w.out, OUT_BYTES);
		w.flushed_ms = clock_mono_ms();
		w.end_ms = w.flushed_ms + time_ms;
		if (fn(&w, e) >= 0) {
			*e = (struct err){0};
			if (work_sent(&w, wire_summary_encode(&w.out, 0, 0, &w.summary), e) == 0)
				(void)flush(&w, e);
		} else {
			/* What was found before is worth having. */
			(void)flush(&w, NULL);
		}
	}
	_exit(fd_write_full(2, e, sizeof(*e)) < 0 ? LATE_EXIT : 0);
}

/* ---- init ---- */

static void on_change(struct init_work *k)
{
	ev_defer(k->op.in->ev, &k->op.turn);
}

static void on_ended(struct init_proc *p, int wait_status)
{
	struct init_work *k = container(p, struct init_work, proc);

	k->status = wait_status;
	on_change(k);
}

static void on_end(struct out_stream *s)
{
	on_change(container(s, struct init_work, out));
}

static void on_limit(struct ev_timer *t)
{
	struct init_work *k = container(t, struct init_work, limit);

	k->late = true;
	init_proc_signal(&k->proc, SIGKILL);
}

/* From here the process is watched, and the pipes are the operation's. */
static int watch(struct init_work *k, int out_fd, uint64_t time_ms, struct err *e)
{
	struct init *in = k->op.in;
	int r;

	k->forked = true;
	k->out.on_end = on_end;
	r = out_stream_start(&k->out, in->ev, &in->link, out_fd, k->op.id, WIRE_STDOUT);
	if (r < 0)
		return err_errno(e, -r, "watch a process");
	k->limit.on_timer = on_limit;
	ev_timer_set(in->ev, &k->limit, time_ms + GRACE_MS);
	return FILE_WAIT;
}

static int work_start(struct file_op *op, const struct wire_file *m,
		      int (*fn)(struct work *w, struct err *e), struct err *e)
{
	struct init_work *k = work_of(op);
	uint64_t time_ms = m->time_ms == 0	       ? TIME_MS
			   : m->time_ms > INIT_WORK_MS ? INIT_WORK_MS
						       : m->time_ms;
	autoclose int out_end = -1, report_end = -1;
	int out[2], report[2];
	pid_t pid;

	k->report_fd = -1;
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_errno(e, errno, "start a process");
	out_end = out[1];
	if (pipe2(report, O_CLOEXEC) < 0) {
		close(out[0]);
		return err_errno(e, errno, "start a process");
	}
	report_end = report[1];
	/* A small pipe is only slower. */
	(void)fcntl(out[0], F_SETPIPE_SZ, PIPE_BYTES);
	k->report_fd = report[0];
	k->proc.on_exit = on_ended;
	pid = init_proc_fork(&k->proc, op->in, &op->user, out[1], report[1], e);
	if (pid == 0)
		run_copy(op, m, time_ms, fn, e);
	if (pid < 0 || fd_set_nonblock(out[0], true) < 0 || fd_set_nonblock(report[0], true) < 0) {
		close(out[0]);
		k->forked = pid > 0;
		return pid < 0 ? pid : err_errno(e, EIO, "start a process");
	}
	return watch(k, out[0], time_ms, e);
}

/* How it went, of a process that said so or did not. */
static int judge(struct init_work *k, struct err *e)
{
	int sig = WIFSIGNALED(k->status) ? WTERMSIG(k->status) : 0;
	struct err said = {0};

	if (read(k->report_fd, &said, sizeof(said)) == (ssize_t)sizeof(said)) {
		said.msg[sizeof(said.msg) - 1] = '\0';
		if (said.kind == ERR_NONE)
			return FILE_DONE;
		if (said.kind > ERR_NONE && said.kind < ERR_KIND_COUNT && said.code >= 0) {
			*e = said;
			return said.code ? -said.code : -EIO;
		}
	}
	if (k->late || sig == SIGXCPU)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			       "it took longer than the time given and was ended");
	return err_set(e, sig == SIGKILL ? ERR_INTERRUPTED : ERR_LIMIT, ECANCELED,
		       "the process that did it was ended by signal %d%s", sig,
		       sig == SIGKILL ? ": by something in the box, or for lack of memory" : "");
}

static int work_turn(struct file_op *op, struct err *e)
{
	struct init_work *k = work_of(op);

	return k->proc.pid > 0 || !k->out.ended ? FILE_WAIT : judge(k, e);
}

static int work_data(struct file_op *op, const struct wire_frame *f, struct err *e)
{
	struct wire_credit m;

	if (f->type != WIRE_CREDIT || wire_credit_decode(f, &m) < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO, "unexpected frame for a file operation");
	out_stream_credit(&work_of(op)->out, m.bytes);
	return FILE_WAIT;
}

static void work_stop(struct file_op *op)
{
	struct init_work *k = work_of(op);

	if (k->forked) {
		ev_timer_stop(op->in->ev, &k->limit);
		init_proc_signal(&k->proc, k->ends_itself ? SIGTERM : SIGKILL);
		init_proc_drop(&k->proc);
		out_stream_done(&k->out);
	}
	fd_close(&k->report_fd);
}

/* ---- the kinds ---- */

static int read_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	return work_start(op, m, tool_read, e);
}

static int edit_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	((struct init_work *)op)->ends_itself = true;
	return work_start(op, m, tool_edit, e);
}

static int glob_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	return work_start(op, m, tool_glob, e);
}

static int grep_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	return work_start(op, m, tool_grep, e);
}

#define WORK_KIND(begin)                                                             \
	{                                                                            \
		.size = sizeof(struct init_work), .start = begin, .turn = work_turn, \
		.stop = work_stop, .data = work_data,                                \
	}

const struct file_kind file_read = WORK_KIND(read_start);
const struct file_kind file_edit = WORK_KIND(edit_start);
const struct file_kind file_glob = WORK_KIND(glob_start);
const struct file_kind file_grep = WORK_KIND(grep_start);
