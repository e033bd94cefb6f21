/*
 * What a box has done: its commands, what they printed, and its events; running or not.
 *
 * A running box's keeper is asked: it knows what is on its way. Of one that does not run the same
 * is read from the files its keeper wrote (keeper/journal.h, keeper/output.h, store/event.h).
 * Nothing in them is trusted to be a name.
 *
 * Following events: SUBSCRIBE first, whose first answer is the number of the next row; then the
 * files up to that number; then the rows as the keeper sends them. So no row is missing at the
 * seam, and none comes twice. A connection that ends before its box (the keeper was killed, or gave
 * up on a reader that was slow) is followed by the same again, from the number that was reached;
 * once the box's lock is free, by the rest of the files.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/client.h"
#include "core/exec.h"
#include "core/life.h"
#include "core/result.h"
#include "core/watch.h"
#include "keeper/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLLOW_TRIES = 8, GOES_ON_MS = 500 };

/* Where the history of a box is. */
struct history {
	struct cove *cove;
	const char *box;
	int box_fd;		/* owned */
	struct core_conn *conn; /* owned; NULL: it does not run */
};

static void history_close(struct history *h)
{
	fd_close(&h->box_fd);
	core_conn_free(h->conn);
}

/* One that is up for somebody's copy alone answers nobody else: its files are read. */
static bool may_answer(const struct history *h)
{
	return record_is_live(h->box_fd) && !record_is_visited(h->box_fd);
}

/* A keeper that begins or ends its box has no socket, and its files are not the last word: what it
 * ends has no end in them yet. So it is waited for, until it answers or is gone. */
static int history_wait(struct history *h, struct err *e)
{
	int r = may_answer(h)
			? core_wait_answer(h->cove, h->box, h->box_fd, START_WAIT_MS, &h->conn)
			: 0;

	if (r == -ETIMEDOUT)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			       "box '%s' is starting or ending and does not answer: try again",
			       h->box);
	return r == -EAGAIN || r == 0 ? 0 : err_errno(e, -r, "connect to box '%s'", h->box);
}

/* To be closed after a failure too. */
static int history_open(struct history *h, struct cove *cove, const char *box, struct err *e)
{
	int r;

	*h = (struct history){.cove = cove, .box = box, .box_fd = -1};
	core_sweep_box(cove, box);
	r = box_open_dir(cove, box, &h->box_fd, e);
	if (r == 0)
		r = core_conn_connect(NULL, cove->state.run_fd, box, &h->conn, e);
	return h->box_fd >= 0 && (r == -ENOENT || r == -ECONNREFUSED) ? history_wait(h, e) : r;
}

/* A keeper that was lost, or that ends its box and takes no more requests: the files have the rest
 * once it is gone. */
static bool may_wait_again(struct cove *cove, const char *box, const struct err *why)
{
	autoclose int box_fd = -1;
	struct err e;

	if (why->kind != ERR_INTERRUPTED && why->kind != ERR_CONFLICT)
		return false;
	return box_open_dir(cove, box, &box_fd, &e) == 0 &&
	       core_wait_free(cove, box, box_fd, START_WAIT_MS) == 0;
}

static int open_file(const struct history *h, const char *path)
{
	return fd_openat2(h->box_fd, path, O_RDONLY, 0, FD_BENEATH | FD_NO_SYMLINKS);
}

/* ---- the list of commands ---- */

/* Without a keeper nothing runs: what has no end was interrupted. Of a damaged list what can be
 * read, and *e says so although it is a success. */
static int read_journal(const struct history *h, struct journal_list *ret, struct err *e)
{
	int r = journal_read(h->box_fd, ret);

	if (r < 0)
		return err_errno(e, -r, "read the commands of box '%s'", h->box);
	if (ret->damaged)
		err_set(e, ERR_DAMAGED, EBADMSG,
			"%zu line%s of the list of commands of box '%s' %s damaged: those commands "
			"are missing or shown as interrupted",
			ret->damaged, ret->damaged == 1 ? "" : "s", h->box,
			ret->damaged == 1 ? "is" : "are");
	for (size_t i = 0; i < ret->count; i++) {
		struct exec_record *x = &ret->records[i];

		if (x->state >= EXEC_DONE)
			continue;
		x->state = EXEC_INTERRUPTED;
		str_copy(x->cause, sizeof(x->cause), "interrupted");
	}
	return 0;
}

static void info_of_record(struct cove_exec_info *i, const struct exec_record *r)
{
	*i = (struct cove_exec_info){EXEC_SHOWN(r), .started_ms = r->started_ms,
				     .pid = (int64_t)r->pid, .background = r->background,
				     .denied_count = r->denied_count};
	str_copy(i->command, sizeof(i->command), r->command);
	str_copy(i->state, sizeof(i->state), exec_state_name(r->state));
	str_copy(i->shell, sizeof(i->shell), r->shell);
	str_copy(i->cause, sizeof(i->cause), r->cause);
}

static int execs_of_files(const struct history *h, struct cove_exec_info **ret, struct err *e)
{
	struct journal_list list;
	int r = read_journal(h, &list, e);

	if (r == 0) {
		*ret = calloc(list.count + 1, sizeof(**ret));
		r = *ret ? (int)list.count : err_errno(e, ENOMEM, "list commands");
	}
	for (int i = 0; i < r; i++)
		info_of_record(&(*ret)[i], &list.records[i]);
	journal_list_done(&list);
	return r;
}

static int execs_of_keeper(struct core_conn *c, struct cove_exec_info **ret, struct err *e)
{
	autofree struct cove_exec_info *infos = calloc(KEEPER_EXECS_MAX + 1, sizeof(*infos));
	struct core_call call;
	struct exec_record m;
	struct wire_frame f;
	int n = 0, r;

	if (!infos)
		return err_errno(e, ENOMEM, "list commands");
	core_call_begin(&call, c);
	r = core_call_send(&call, wire_encode(core_out(c), WIRE_EXECS, 0, call.q.id, NULL, 0), e);
	while (r == 0) {
		r = core_call_next(&call, STOP_WAIT_MS, &f, e);
		if (r == 0)
			r = err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the keeper does not answer");
		if (r < 0 || f.type == WIRE_OK)
			break;
		r = f.type != WIRE_INFO || n == (int)KEEPER_EXECS_MAX ||
				    wire_info_decode(&f, &m) < 0
			    ? core_unexpected(&call.q, &f, e)
			    : 0;
		if (r == 0)
			info_of_record(&infos[n++], &m);
	}
	core_call_end(&call, r >= 0);
	if (r < 0)
		return r;
	*ret = take_ptr(infos);
	return n;
}

static int exec_infos(struct cove *cove, const char *box, struct cove_exec_info **ret,
		      struct err *e)
{
	struct history h;
	int r = history_open(&h, cove, box, e);

	if (r == 0)
		r = h.conn ? execs_of_keeper(h.conn, ret, e) : execs_of_files(&h, ret, e);
	history_close(&h);
	return r;
}

/* One that is lost after it was reached has a last word, too. */
int core_exec_infos(struct cove *cove, const char *box, struct cove_exec_info **ret, struct err *e)
{
	struct err why = {0};
	int r = exec_infos(cove, box, ret, &why);

	if (r < 0 && may_wait_again(cove, box, &why)) {
		why = (struct err){0};
		r = exec_infos(cove, box, ret, &why);
	}
	if (e)
		*e = why;
	return r;
}

int cove_execs(struct cove *cove, const char *box, struct cove_exec_info **ret,
	       struct cove_error *err)
{
	struct err e = {0};
	int r = core_return(cove, box, core_exec_infos(cove, box, ret, &e), &e, err);

	/* The one success with a reservation. */
	if (r >= 0 && e.kind == ERR_DAMAGED && err) {
		*err = (struct cove_error){.kind = COVE_DAMAGED, .code = e.code};
		str_copy(err->message, sizeof(err->message), e.msg);
	}
	return r;
}

/* ---- the output of one command ---- */

/* A command of a stopped box: its streams one after the other, then its end. */
struct log_reader {
	int fd[2]; /* owned; -1: the stream printed nothing, or is at its end */
	uint64_t from[2];
	bool follow; /* the end is an event, as with a live one */
	struct exec_record record;
	char bytes[WIRE_DATA_MAX];
};

void core_log_free(struct log_reader *l)
{
	fd_close(&l->fd[0]);
	fd_close(&l->fd[1]);
	free(l);
}

static int find_record(const struct history *h, uint64_t id, struct exec_record *ret, struct err *e)
{
	struct journal_list list;
	int r = read_journal(h, &list, e);
	size_t i = 0;

	while (r == 0 && i < list.count && list.records[i].exec_id != id)
		i++;
	if (r == 0 && i < list.count)
		*ret = list.records[i];
	else if (r == 0 && list.damaged)
		r = -EBADMSG;
	else if (r == 0)
		r = err_set(e, ERR_NOT_FOUND, ENOENT, "box '%s' has no command %llu (cove ps %s)",
			    h->box, (unsigned long long)id, h->box);
	journal_list_done(&list);
	return r;
}

static int open_log(const struct history *h, const struct wire_attach *m, struct cove_exec **ret,
		    struct err *e)
{
	struct cove_exec *x = calloc(1, sizeof(*x));
	struct log_reader *l = calloc(1, sizeof(*l));
	int r = x && l ? find_record(h, m->exec_id, &l->record, e)
		       : err_errno(e, ENOMEM, "read a log");

	if (r < 0) {
		free(x);
		free(l);
		return r;
	}
	for (unsigned s = 0; s < 2; s++) {
		char path[40];

		snprintf(path, sizeof(path), "logs/%s",
			 journal_log_name(l->record.exec_id, s).text);
		l->fd[s] = open_file(h, path);
	}
	l->from[0] = m->stdout_from;
	l->from[1] = m->stderr_from;
	l->follow = m->follow != 0;
	x->log = l;
	x->quiet = true;
	x->exec_id = m->exec_id;
	*ret = x;
	return 0;
}

int core_log_next(struct cove_exec *x, int timeout_ms, struct cove_event *ret, struct err *e)
{
	struct log_reader *l = x->log;

	for (int s = 0; s < 2; s++) {
		ssize_t n;

		if (l->fd[s] < 0)
			continue;
		n = pread(l->fd[s], l->bytes, sizeof(l->bytes), (off_t)l->from[s]);
		if (n < 0)
			return err_errno(e, errno, "read a log");
		if (n == 0) {
			fd_close(&l->fd[s]);
			continue;
		}
		l->from[s] += (uint64_t)n;
		*ret = (struct cove_event){
			.type = s == 0 ? COVE_EVENT_OUT : COVE_EVENT_ERR,
			.data = l->bytes,
			.len = (size_t)n,
			.exec_id = x->exec_id,
		};
		return 1;
	}
	if (x->done || !l->follow)
		return -EPIPE;
	x->done = true;
	*ret = (struct cove_event){.type = COVE_EVENT_EXIT, .exec_id = x->exec_id};
	exec_result(&l->record, &ret->result);
	return 1;
}

static int log_open(struct cove *cove, const char *name, const struct wire_attach *m,
		    struct cove_exec **ret, struct err *e)
{
	struct cove_box *box = NULL;
	struct history h;
	int r = history_open(&h, cove, name, e);

	if (r == 0 && !h.conn) {
		r = open_log(&h, m, ret, e);
	} else if (r == 0) {
		r = box_handle_take(cove, name, false, take_ptr(h.conn), &box, e);
		if (r == 0)
			r = core_exec_attach(box, m, ret, e);
		/* The command's own reference keeps the handle. */
		box_unref(box);
	}
	history_close(&h);
	return r;
}

int cove_log_open(struct cove *cove, const char *box, uint64_t exec_id, uint64_t out_from,
		  uint64_t err_from, bool follow, struct cove_exec **ret, struct cove_error *err)
{
	struct wire_attach m = {.exec_id = exec_id,
				.stdout_from = out_from,
				.stderr_from = err_from,
				.follow = follow};
	struct err e = {0};

	return core_return(cove, box, log_open(cove, box, &m, ret, &e), &e, err);
}

/* ---- the end of one command ---- */

struct waiting {
	uint64_t exec_id;
	uint64_t until_ms; /* monotonic; UINT64_MAX: for ever */
	struct collect output;
};

static int time_left(const struct waiting *w)
{
	uint64_t now = clock_mono_ms();

	if (w->until_ms == UINT64_MAX)
		return -1;
	if (w->until_ms <= now)
		return 0;
	return w->until_ms - now < INT_MAX ? (int)(w->until_ms - now) : INT_MAX;
}

static int wait_end(struct waiting *w, struct cove_exec *x, const char *box,
		    struct cove_result *ret, struct err *e)
{
	struct cove_error why = {0};
	struct cove_event ev;
	int r, left;

	do {
		left = time_left(w);
		r = cove_exec_next(x, left, &ev, &why);
		if (r < 0)
			return err_set(e, (enum err_kind)why.kind, why.code, "%s", why.message);
		if (r == 0 && left == 0)
			return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
				       "command %llu of box '%s' is still running",
				       (unsigned long long)w->exec_id, box);
		if (r > 0 && (ev.type == COVE_EVENT_OUT || ev.type == COVE_EVENT_ERR) &&
		    collect_add(&w->output, ev.type == COVE_EVENT_ERR, ev.data, ev.len) < 0)
			return err_errno(e, ENOMEM, "keep the command's output");
	} while (r == 0 || ev.type != COVE_EVENT_EXIT);
	r = result_collected(&ev.result, &w->output, ret);
	return r < 0 ? err_errno(e, -r, "keep the command's result") : 0;
}

static int wait_once(struct waiting *w, struct cove *cove, const char *box, struct cove_result *ret,
		     struct err *e)
{
	const struct wire_attach m = {
		.exec_id = w->exec_id, .follow = 1, .inline_max = RESULT_INLINE_MAX};
	struct cove_exec *x = NULL;
	int r;

	*e = (struct err){0};
	collect_init(&w->output, RESULT_INLINE_MAX);
	r = log_open(cove, box, &m, &x, e);
	if (r == 0)
		r = wait_end(w, x, box, ret, e);
	cove_exec_free(x);
	collect_done(&w->output);
	return r;
}

int cove_wait(struct cove *cove, const char *box, uint64_t exec_id, uint64_t timeout_ms,
	      struct cove_result *ret, struct cove_error *err)
{
	uint64_t now = clock_mono_ms();
	struct waiting w = {.exec_id = exec_id, .until_ms = UINT64_MAX};
	struct err e;
	int r, tries = 0;

	if (timeout_ms > 0 && timeout_ms < UINT64_MAX - now)
		w.until_ms = now + timeout_ms;
	do {
		r = wait_once(&w, cove, box, ret, &e);
	} while (r < 0 && ++tries < FOLLOW_TRIES && may_wait_again(cove, box, &e));
	return core_return(cove, box, r, &e, err);
}

/* ---- events ---- */

struct event_reader {
	cove_on_line *on_line;
	bool (*goes_on)(void *arg); /* asked while nothing comes; NULL: it does */
	void *arg;
	uint64_t next; /* the number of the row that comes next */
	bool stopped;  /* the caller has had enough */
};

/* Rows of an older Cove have no number: they come before all that do. */
static void hand_out(struct event_reader *v, uint64_t seq, const char *row)
{
	if (v->stopped || (seq ? seq < v->next : v->next > 1))
		return;
	v->stopped = !v->on_line(v->arg, row);
	if (seq)
		v->next = seq + 1;
}

/* The rows before that number. Takes fd; one that is not there is empty. */
static int read_event_file(struct event_reader *v, int fd, uint64_t until)
{
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	autofree char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int r;

	if (!f)
		return fd < 0 ? 0 : -ENOMEM;
	while (!v->stopped && (n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n') {
		uint64_t seq = event_row_seq(line);

		line[n - 1] = 0;
		if (seq < until)
			hand_out(v, seq, line);
	}
	r = ferror(f) ? -EIO : 0;
	fclose(f);
	return r;
}

/* The newer file is opened first: where the keeper begins another one between the two, the older is
 * then the same, and no row in the middle is missed. */
static int read_event_files(struct event_reader *v, const struct history *h, uint64_t until,
			    struct err *e)
{
	int newer = open_file(h, "logs/" EVENT_LOG), older = open_file(h, "logs/" EVENT_LOG_OLD);
	int first = read_event_file(v, older, until), second = read_event_file(v, newer, until);

	if (first < 0 || second < 0)
		return err_errno(e, first < 0 ? -first : -second, "read the events of box '%s'",
				 h->box);
	return 0;
}

static int on_event_frame(struct event_reader *v, const struct history *h, struct core_call *call,
			  const struct wire_frame *f, struct err *e)
{
	struct wire_event m;
	int r = 0;

	if (f->type != WIRE_EVENT || wire_event_decode(f, &m) < 0)
		return core_unexpected(&call->q, f, e);
	/* What was there before, or came faster than the keeper could send it. */
	if (m.seq > v->next)
		r = read_event_files(v, h, m.seq, e);
	if (m.seq > v->next)
		v->next = m.seq;
	if (r == 0 && m.text)
		hand_out(v, m.seq, m.text);
	return r;
}

/* Until the box's last row, or the end of the connection. */
static int follow_keeper(struct event_reader *v, struct history *h, struct err *e)
{
	struct core_call call;
	struct wire_frame f;
	int r = core_conn_wait_ready(h->conn, START_WAIT_MS, e);

	if (r < 0)
		return r;
	if (!(h->conn->peer.features & WIRE_FEATURE_EVENTS))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "box '%s' was started by a Cove whose events cannot be followed: "
			       "cove stop %s; cove start %s",
			       h->box, h->box, h->box);
	core_call_begin(&call, h->conn);
	r = core_call_send(
		&call,
		wire_subscribe_encode(core_out(h->conn), call.q.id, 0, &(struct wire_subscribe){0}),
		e);
	while (r == 0 && !v->stopped) {
		r = core_call_next(&call, v->goes_on ? GOES_ON_MS : -1, &f, e);
		if (r > 0 && f.type == WIRE_OK)
			break;
		if (r > 0)
			r = on_event_frame(v, h, &call, &f, e);
		else if (r == 0)
			v->stopped = v->goes_on && !v->goes_on(v->arg);
	}
	core_call_end(&call, r > 0);
	return r < 0 ? r : 0;
}

/* Until the box has ended. A box that comes up is waited for, one that does not run has ended. */
static int follow_events(struct event_reader *v, struct history *h, struct err *e)
{
	uint64_t before = 0;
	int r = 0;

	for (int lost = 0; !v->stopped && may_answer(h);) {
		r = h->conn ? 0
			    : core_wait_answer(h->cove, h->box, h->box_fd, START_WAIT_MS, &h->conn);
		if (r == -EAGAIN)
			break;
		if (r < 0)
			return err_errno(e, -r, "connect to box '%s'", h->box);
		r = follow_keeper(v, h, e);
		core_conn_free(take_ptr(h->conn));
		lost = v->next > before ? 0 : lost + 1;
		before = v->next;
		if (r == 0 || (e->kind != ERR_INTERRUPTED && e->kind != ERR_CONFLICT) ||
		    lost == FOLLOW_TRIES)
			return r;
		/* A keeper that is ending its box takes no more requests. */
		if (e->kind == ERR_CONFLICT)
			(void)core_wait_free(h->cove, h->box, h->box_fd, START_WAIT_MS);
	}
	return v->stopped ? 0 : read_event_files(v, h, UINT64_MAX, e);
}

int cove_events(struct cove *cove, const char *box, bool follow, cove_on_line *on_line, void *arg,
		struct cove_error *err)
{
	return core_events(cove, box, follow, &(struct core_watcher){on_line, NULL, arg}, err);
}

int core_events(struct cove *cove, const char *box, bool follow, const struct core_watcher *w,
		struct cove_error *err)
{
	struct event_reader v = {
		.on_line = w->on_line, .goes_on = w->goes_on, .arg = w->arg, .next = 1};
	struct history h;
	struct err e = {0};
	int r = history_open(&h, cove, box, &e);

	if (r == 0)
		r = follow ? follow_events(&v, &h, &e) : read_event_files(&v, &h, UINT64_MAX, &e);
	history_close(&h);
	return core_return(cove, box, r, &e, err);
}
