/*
 * Output and history of a box, running or not.
 *
 * A running box's keeper is asked: it knows what is on its way. Of a stopped one the same is read
 * from its files (keeper/journal.h, keeper/output.h): the list of commands, the kept bytes of each
 * stream. They were written by the keeper, not by the box; still nothing in them is trusted to be a
 * name.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/exec.h"
#include "core/life.h"
#include "keeper/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Without a keeper nothing runs: what has no end was interrupted. */
static void settle_record(struct exec_record *r)
{
	if (r->state >= EXEC_DONE)
		return;
	r->state = EXEC_INTERRUPTED;
	str_copy(r->cause, sizeof(r->cause), "interrupted");
}

static int read_journal(int box_fd, const char *box, struct journal_list *ret, struct err *e)
{
	int r = journal_read(box_fd, ret);

	if (r < 0)
		return err_errno(e, -r, "read the commands of box '%s'", box);
	for (size_t i = 0; i < ret->count; i++)
		settle_record(&ret->records[i]);
	return 0;
}

/* ---- the list of commands ---- */

static void info_of_record(struct cove_exec_info *i, const struct exec_record *r)
{
	*i = (struct cove_exec_info){
		.exec_id = r->exec_id,
		.started_ms = r->started_ms,
		.duration_ms = r->duration_ms,
		.out_bytes = r->bytes[0],
		.err_bytes = r->bytes[1],
		.pid = (int64_t)r->pid,
		.has_exit = r->has_exit,
		.background = r->background,
		.exit_code = r->exit_code & 0xff,
		.signal = r->signal & 0x7f,
		.truncated = r->truncated,
		.oom_killed = r->oom_killed,
		.cpu_us = r->cpu_us,
		.mem_peak_bytes = r->mem_peak_bytes,
		.io_read_bytes = r->io_read_bytes,
		.io_write_bytes = r->io_write_bytes,
	};
	str_copy(i->command, sizeof(i->command), r->command);
	str_copy(i->state, sizeof(i->state), exec_state_name(r->state));
	str_copy(i->shell, sizeof(i->shell), r->shell);
	str_copy(i->cause, sizeof(i->cause), r->cause);
}

static int execs_of_files(int box_fd, const char *box, struct cove_exec_info **ret, struct err *e)
{
	struct cove_exec_info *infos = NULL;
	struct journal_list list;
	int r = read_journal(box_fd, box, &list, e);

	if (r == 0)
		infos = calloc(list.count + 1, sizeof(*infos));
	if (r == 0 && !infos)
		r = err_errno(e, ENOMEM, "list commands");
	for (size_t i = 0; r == 0 && i < list.count; i++)
		info_of_record(&infos[i], &list.records[i]);
	if (r == 0)
		r = (int)list.count;
	journal_list_done(&list);
	*ret = infos;
	return r;
}

static int collect_infos(struct core_call *c, struct cove_exec_info *infos, struct err *e)
{
	struct exec_record m;
	struct wire_frame f;
	int n = 0, r;

	while ((r = core_call_next(c, STOP_WAIT_MS, &f, e)) > 0) {
		if (f.type == WIRE_OK)
			return n;
		if (f.type != WIRE_INFO || n == (int)KEEPER_EXECS_MAX ||
		    wire_info_decode(&f, &m) < 0)
			return core_unexpected(&c->q, &f, e);
		info_of_record(&infos[n++], &m);
	}
	return r < 0 ? r : err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the keeper does not answer");
}

static int execs_of_keeper(struct core_conn *c, struct cove_exec_info **ret, struct err *e)
{
	autofree struct cove_exec_info *infos = calloc(KEEPER_EXECS_MAX + 1, sizeof(*infos));
	struct core_call call;
	int r = 0;

	core_call_begin(&call, c);
	if (!infos || wire_encode(core_out(c), WIRE_EXECS, 0, call.q.id, NULL, 0) < 0)
		r = err_errno(e, ENOMEM, "list commands");
	if (r == 0)
		r = core_conn_flush(c, e);
	if (r == 0)
		r = collect_infos(&call, infos, e);
	core_call_end(&call, r >= 0);
	if (r >= 0)
		*ret = take_ptr(infos);
	return r;
}

int core_exec_infos(struct cove *cove, const char *box, struct cove_exec_info **ret, struct err *e)
{
	autoclose int box_fd = -1;
	struct core_conn *c = NULL;
	int r;

	core_sweep_box(cove, box);
	r = box_open_dir(cove, box, &box_fd, e);
	if (r < 0)
		return r;
	r = core_conn_connect(NULL, cove->state.run_fd, box, &c, e);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return execs_of_files(box_fd, box, ret, e);
	if (r == 0)
		r = execs_of_keeper(c, ret, e);
	core_conn_free(c);
	return r;
}

int cove_execs(struct cove *cove, const char *box, struct cove_exec_info **ret,
	       struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, box, core_exec_infos(cove, box, ret, &e), &e, err);
}

/* ---- the output of one command ---- */

static int find_record(int box_fd, const char *box, uint64_t id, struct exec_record *ret,
		       struct err *e)
{
	struct journal_list list;
	int r = read_journal(box_fd, box, &list, e);
	size_t i = 0;

	while (r == 0 && i < list.count && list.records[i].exec_id != id)
		i++;
	if (r == 0 && i < list.count)
		*ret = list.records[i];
	else if (r == 0)
		r = err_set(e, ERR_NOT_FOUND, ENOENT, "box '%s' has no command %llu (cove ps %s)",
			    box, (unsigned long long)id, box);
	journal_list_done(&list);
	return r;
}

static int open_stream(int box_fd, uint32_t id, const char *suffix)
{
	char path[40];

	snprintf(path, sizeof(path), "logs/%u.%s", id, suffix);
	return fd_openat2(box_fd, path, O_RDONLY, 0, FD_BENEATH | FD_NO_SYMLINKS);
}

static int open_log(int box_fd, const char *box, const struct wire_attach *m,
		    struct cove_exec **ret, struct err *e)
{
	struct cove_exec *x = calloc(1, sizeof(*x));
	struct log_reader *l = calloc(1, sizeof(*l));
	int r = x && l ? find_record(box_fd, box, m->exec_id, &l->record, e)
		       : err_errno(e, ENOMEM, "read a log");

	if (r < 0) {
		free(x);
		free(l);
		return r;
	}
	l->fd[0] = open_stream(box_fd, l->record.exec_id, "out");
	l->fd[1] = open_stream(box_fd, l->record.exec_id, "err");
	l->from[0] = m->stdout_from;
	l->from[1] = m->stderr_from;
	l->follow = m->follow != 0;
	x->log = l;
	x->quiet = true;
	x->exec_id = m->exec_id;
	*ret = x;
	return 0;
}

static int end_of_log(struct cove_exec *x, struct cove_event *ret)
{
	if (x->done || !x->log->follow)
		return -EPIPE;
	x->done = true;
	*ret = (struct cove_event){.type = COVE_EVENT_EXIT, .exec_id = x->exec_id};
	exec_result(&x->log->record, &ret->result);
	return 1;
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
	return end_of_log(x, ret);
}

static int log_open(struct cove *cove, const char *name, const struct wire_attach *m,
		    struct cove_exec **ret, struct err *e)
{
	autoclose int box_fd = -1;
	struct cove_box *box = NULL;
	struct core_conn *c = NULL;
	int r;

	core_sweep_box(cove, name);
	r = box_open_dir(cove, name, &box_fd, e);
	if (r < 0)
		return r;
	r = core_conn_connect(NULL, cove->state.run_fd, name, &c, e);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return open_log(box_fd, name, m, ret, e);
	if (r == 0)
		r = box_handle_take(cove, name, false, c, &box, e);
	if (r == 0)
		r = core_exec_attach(box, m, ret, e);
	/* The command's own reference keeps the handle. */
	box_unref(box);
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
