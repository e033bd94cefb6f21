/*
 * One command and one user; see stream.h.
 *
 * How it works: a single poll over the command, stdin, the signal pipe, and, while a piece of
 * output is on its way, the descriptor it goes to. One piece is held at a time, so a slow reader
 * slows the command through the keeper and nothing piles up here. Writing never blocks for long:
 * Ctrl-C works while `| less` is full.
 *
 * Ctrl-C, SIGTERM, SIGHUP: the first is passed on, so that the command can clean up. The second, or
 * GRACE_MS after a TERM or HUP (no user may be there to press anything), is SIGKILL to its whole
 * tree. The third, or FORCE_MS later, leaves. With options.leave the first leaves.
 *
 * A raw terminal's Ctrl-C is a byte for the command like any other: it may mean something there, so
 * we never act on it. PRESSES of them within PRESS_MS are a user who wants to get out: a line says,
 * once, how to. Where we may leave (options.leave), Ctrl-] twice does: the first goes to the
 * command like any other byte, because nothing holds up what is typed.
 *
 * With a maximum of output, what comes after the first bytes is kept here, and its end written when
 * the command has ended.
 *
 * A reader that is gone (`| head`) ends the command as SIGPIPE would, and says nothing.
 */
#include "cli/stream.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cli/signals.h"
#include "cli/term.h"
#include "core/result.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTE_MS = 2000, GRACE_MS = 10000, FORCE_MS = 5000 };
enum { PRESSES = 3, PRESS_MS = 1000, CTRL_C = 3, CTRL_DETACH = 0x1d };

/* What a ready descriptor takes without blocking when it cannot be asked for more. */
enum { SAFE_WRITE = 4096 };

enum sink_kind { SINK_FILE, SINK_PIPE, SINK_SOCKET, SINK_TERMINAL };

struct stream {
	const struct stream_options *o;
	struct cove_box *box;
	struct cove_exec *exec;
	struct stream_end *end;
	struct cove_error *err;

	enum sink_kind sinks[2]; /* stdout, stderr */
	struct collect collect;
	int out_fd; /* of the piece on its way */
	const uint8_t *out;
	size_t out_len;
	char *rest; /* owned; the piece, where it is the end of a stream */
	int rests;  /* how many of those are done */

	uint64_t exec_id; /* 0 until it started or was queued */
	bool input_open;
	bool ending; /* the command has ended, and ends of its output are still to be written */
	bool done;

	unsigned asked; /* how often we were asked to end it */
	int asked_signal;
	uint64_t asked_ms;
	bool noted;

	uint64_t pressed_ms[PRESSES]; /* when Ctrl-C was typed, latest first */
	uint64_t detach_ms;	      /* when Ctrl-] was the last byte typed, or 0 */
};

static enum sink_kind sink_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode))
		return SINK_FILE;
	if (S_ISFIFO(st.st_mode))
		return SINK_PIPE;
	if (S_ISSOCK(st.st_mode))
		return SINK_SOCKET;
	return isatty(fd) ? SINK_TERMINAL : SINK_FILE;
}

/* Writes what fits now: a count, or -EAGAIN to wait for POLLOUT. */
static ssize_t sink_write(enum sink_kind kind, int fd, const void *p, size_t n)
{
	struct iovec iov = {.iov_base = (void *)p, .iov_len = n};
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	enum { NO_WAIT = 8 }; /* RWF_NOWAIT */
	ssize_t r;

	if (kind == SINK_SOCKET) {
		r = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		return r < 0 ? -errno : r;
	}
	if (kind == SINK_PIPE) {
		r = syscall(SYS_pwritev2, fd, &iov, 1, -1L, -1L, NO_WAIT);
		if (r >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
			return r < 0 ? -errno : r;
	}
	/* The flag O_NONBLOCK would be the terminal's and the pipe's other users' too. */
	if (kind != SINK_FILE) {
		if (poll(&ready, 1, 0) == 0)
			return -EAGAIN;
		n = n < SAFE_WRITE ? n : SAFE_WRITE;
	}
	r = write(fd, p, n);
	return r < 0 ? -errno : r;
}

/* A command that has ended meanwhile is fine: its EXIT is on the way, and a broken connection shows
 * there as well. */
static void pass_signal(struct stream *s, int sig)
{
	struct cove_error ignored;

	if (s->box && s->exec_id)
		(void)cove_signal(s->box, s->exec_id, sig, &ignored);
}

static int write_piece(struct stream *s)
{
	while (s->out_len > 0) {
		ssize_t n = sink_write(s->sinks[s->out_fd - 1], s->out_fd, s->out, s->out_len);

		if (n == -EAGAIN || n == -EINTR)
			return 0;
		if (n == -EPIPE || n == -EIO) {
			s->end->reader_gone = true;
			s->out_len = 0;
			if (s->o->leave)
				s->done = true;
			else
				pass_signal(s, SIGKILL);
			return 0;
		}
		if (n < 0) {
			pass_signal(s, SIGKILL);
			*s->err = (struct cove_error){.kind = COVE_FULL, .code = (int)-n};
			snprintf(s->err->message, sizeof(s->err->message),
				 "cannot write the command's output: %s", strerror((int)-n));
			return (int)n;
		}
		s->out += n;
		s->out_len -= (size_t)n;
	}
	return 0;
}

static int on_output(struct stream *s, int fd, const void *data, size_t len)
{
	*(fd == STDOUT_FILENO ? &s->end->out_seen : &s->end->err_seen) += len;
	if (s->end->reader_gone)
		return 0;
	if (s->o->collect)
		return collect_add(&s->collect, (unsigned)fd - 1, data, len);
	if (s->o->max_output) {
		size_t room = collect_room(&s->collect, (unsigned)fd - 1);
		int r = collect_add(&s->collect, (unsigned)fd - 1, data, len);

		if (r < 0)
			return r;
		len = len < room ? len : room;
	}
	s->out_fd = s->o->out_to_err ? STDERR_FILENO : fd;
	s->out = data;
	s->out_len = len;
	return write_piece(s);
}

/* The end of a stream of which not all was written as it came, then that of the other. */
static int write_rest(struct stream *s)
{
	free(s->rest);
	s->rest = NULL;
	if (s->rests == 2 || s->end->reader_gone) {
		s->done = true;
		return 0;
	}
	s->out_fd = s->o->out_to_err ? STDERR_FILENO : STDOUT_FILENO + s->rests;
	s->rest = collect_copy_rest(&s->collect, (unsigned)s->rests++, &s->out_len);
	if (!s->rest) {
		s->out_len = 0;
		return -ENOMEM;
	}
	s->out = (const uint8_t *)s->rest;
	return write_piece(s);
}

static int on_event(struct stream *s, const struct cove_event *ev)
{
	static const char queued[] = "cove: queued: the shell is busy with another line\n";

	switch (ev->type) {
	case COVE_EVENT_QUEUED:
		/* A person who waits sees what for; a program has the state in `cove ps`. */
		if (isatty(STDERR_FILENO))
			(void)fd_write_full(STDERR_FILENO, queued, sizeof(queued) - 1);
		s->exec_id = ev->exec_id;
		if (s->asked)
			pass_signal(s, s->asked_signal);
		return 0;
	case COVE_EVENT_STARTED:
		if (s->asked && !s->exec_id)
			pass_signal(s, s->asked_signal);
		s->exec_id = ev->exec_id;
		s->end->started = true;
		return 0;
	case COVE_EVENT_OUT:
		return on_output(s, STDOUT_FILENO, ev->data, ev->len);
	case COVE_EVENT_ERR:
		return on_output(s, STDERR_FILENO, ev->data, ev->len);
	case COVE_EVENT_EXIT:
		s->end->ended = true;
		s->ending = s->o->max_output && !s->o->collect;
		s->done = !s->ending;
		return result_collected(&ev->result, s->o->collect ? &s->collect : NULL,
					&s->end->result);
	}
	return 0;
}

/* Takes events until there are none, or one holds output that does not go out yet. */
static int take_events(struct stream *s)
{
	struct cove_event ev;
	int r;

	while (!s->done && s->out_len == 0) {
		if (s->ending) {
			r = write_rest(s);
			if (r < 0)
				return r;
			continue;
		}
		r = cove_exec_next(s->exec, 0, &ev, s->err);
		if (r == -EPIPE && s->o->leave && !s->err->kind) {
			s->done = true; /* the end of a log that is not followed */
			return 0;
		}
		if (r <= 0)
			return r;
		r = on_event(s, &ev);
		if (r < 0)
			return r;
	}
	return 0;
}

static void send_size(struct stream *s)
{
	unsigned rows, cols;

	/* A command that has just ended has no window. */
	if (s->o->raw && term_size(STDIN_FILENO, &rows, &cols))
		(void)cove_exec_resize(s->exec, rows, cols, NULL);
}

static void leave(struct stream *s)
{
	s->end->left_by = s->asked_signal;
	s->done = true;
}

static void on_ask(struct stream *s, int sig)
{
	s->asked++;
	s->asked_ms = clock_mono_ms();
	s->asked_signal = sig;
	if (s->o->leave || s->asked > 2 || (!s->exec_id && (s->o->one_shot || s->asked > 1)))
		leave(s);
	else
		pass_signal(s, s->asked > 1 ? SIGKILL : sig);
}

static void take_signals(struct stream *s)
{
	for (int sig = signals_next(); sig && !s->done; sig = signals_next()) {
		if (sig != SIGWINCH && sig != SIGTSTP) {
			on_ask(s, sig);
			continue;
		}
		/* Stopped from outside: the terminal is the shell's until we go on. */
		if (sig == SIGTSTP) {
			term_restore();
			raise(SIGSTOP);
			if (s->o->raw)
				(void)term_raw();
		}
		send_size(s);
	}
}

static bool is_unattended(const struct stream *s)
{
	return s->asked_signal == SIGTERM || s->asked_signal == SIGHUP;
}

/* Milliseconds until on_late has something to do, or -1. */
static int time_left(const struct stream *s)
{
	uint64_t given_ms = s->o->grace_ms == COVE_NO_GRACE ? 0 : s->o->grace_ms;
	uint64_t grace_ms = s->o->grace_ms ? given_ms : GRACE_MS;
	uint64_t limit, now = clock_mono_ms();

	if (s->asked == 0 || (s->asked == 1 && !is_unattended(s) && s->noted))
		return -1;
	limit = s->asked > 1 ? FORCE_MS : is_unattended(s) ? grace_ms : NOTE_MS;
	return s->asked_ms + limit > now ? (int)(s->asked_ms + limit - now) : 0;
}

static void on_late(struct stream *s)
{
	char note[64];
	int n;

	if (s->asked > 1) {
		leave(s);
	} else if (is_unattended(s)) {
		on_ask(s, s->asked_signal);
	} else {
		s->noted = true;
		n = snprintf(note, sizeof(note), "cove: still running; Ctrl-C again ends it%s",
			     term_eol());
		if (isatty(STDERR_FILENO))
			(void)fd_write_full(STDERR_FILENO, note, (size_t)n);
	}
}

/* How many of the bytes are before the second Ctrl-] in a row; n where there is none. */
static size_t find_detach(struct stream *s, const uint8_t *data, size_t n)
{
	uint64_t now = clock_mono_ms();

	for (size_t i = 0; i < n; i++) {
		bool is_detach = data[i] == CTRL_DETACH;

		if (is_detach && s->detach_ms && now - s->detach_ms < PRESS_MS)
			return i;
		s->detach_ms = is_detach ? now : 0;
	}
	return n;
}

/* The command may have closed its stdin, or ended: what is left of ours is then dropped. */
static void take_input(struct stream *s, size_t room)
{
	uint8_t data[WIRE_DATA_MAX];
	ssize_t n = read(STDIN_FILENO, data, room < sizeof(data) ? room : sizeof(data));
	char note[160];
	int len;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0 && s->o->raw && s->o->leave) {
		size_t before = find_detach(s, data, (size_t)n);

		s->done = before < (size_t)n;
		n = (ssize_t)before;
		if (s->done) {
			if (n > 0)
				(void)cove_exec_write(s->exec, data, (size_t)n, NULL);
			return;
		}
	}
	if (n <= 0 || cove_exec_write(s->exec, data, (size_t)n, NULL) < 0) {
		s->input_open = false;
		(void)cove_exec_close_input(s->exec, NULL);
		return;
	}
	if (!s->o->raw || !s->box || !s->exec_id || s->noted)
		return;
	for (ssize_t i = 0; i < n; i++) {
		if (data[i] != CTRL_C)
			continue;
		memmove(s->pressed_ms + 1, s->pressed_ms, sizeof(s->pressed_ms[0]) * (PRESSES - 1));
		s->pressed_ms[0] = clock_mono_ms();
	}
	if (!s->pressed_ms[PRESSES - 1] ||
	    s->pressed_ms[0] - s->pressed_ms[PRESSES - 1] >= PRESS_MS)
		return;
	s->noted = true;
	len = snprintf(note, sizeof(note),
		       "%scove: still running; from another terminal, `cove kill -s KILL %s %llu` "
		       "ends it%s",
		       term_eol(), cove_box_name(s->box), (unsigned long long)s->exec_id,
		       term_eol());
	(void)fd_write_full(STDERR_FILENO, note, (size_t)len);
}

static int turn(struct stream *s)
{
	struct pollfd fds[3] = {{.fd = signals_fd(), .events = POLLIN}, {.fd = -1}, {.fd = -1}};
	size_t room = s->input_open ? cove_exec_input_room(s->exec) : 0;
	int r, limit = time_left(s);

	if (s->out_len > 0)
		fds[1] = (struct pollfd){.fd = s->out_fd, .events = POLLOUT};
	else
		fds[1] = (struct pollfd){.fd = cove_exec_fd(s->exec), .events = POLLIN};
	if (room > 0)
		fds[2] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	r = poll(fds, 3, limit);
	if (r < 0 && errno != EINTR)
		return -errno;
	if (r == 0 && limit >= 0)
		on_late(s);
	if (r > 0 && fds[0].revents)
		take_signals(s);
	if (s->done)
		return 0;
	if (r > 0 && fds[2].revents)
		take_input(s, room);
	if (r <= 0 || !fds[1].revents)
		return 0;
	r = write_piece(s);
	return r < 0 ? r : take_events(s);
}

int stream_drive(struct cove_box *box, struct cove_exec *exec, const struct stream_options *options,
		 struct stream_end *ret, struct cove_error *err)
{
	struct stream s = {.o = options,
			   .box = box,
			   .exec = exec,
			   .end = ret,
			   .err = err,
			   .sinks = {sink_of(STDOUT_FILENO), sink_of(STDERR_FILENO)},
			   .input_open = options->input};
	int r;

	*ret = (struct stream_end){0};
	*err = (struct cove_error){0};
	if (options->max_output)
		collect_init_ends(&s.collect, options->max_output);
	else
		collect_init(&s.collect, RESULT_INLINE_MAX);
	r = signals_catch();
	if (r == 0 && options->raw)
		r = term_raw();
	if (r == 0)
		r = take_events(&s);
	while (r >= 0 && !s.done)
		r = turn(&s);
	term_restore();
	collect_done(&s.collect);
	free(s.rest);
	if (r < 0 && !err->kind) {
		*err = (struct cove_error){.kind = COVE_INTERNAL, .code = -r};
		snprintf(err->message, sizeof(err->message), "the command's streams: %s",
			 strerror(-r));
	}
	return r < 0 ? r : 0;
}
