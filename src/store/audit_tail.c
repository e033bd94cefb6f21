/*
 * Following audit logs; see audit.h.
 *
 * inotify watches the directory of logs and the log of every box that is there, no others: those
 * do not change any more. Where it has no more watches the next look comes a second later.
 */
#include "base/fd.h"
#include "base/str.h"
#include "store/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct tail_log {
	char name[AUDIT_NAME_MAX];
	uint64_t segment, at, seq; /* what was read; segment 0: nothing */
	bool is_over;		   /* its box is gone, and all was read */
	bool is_watched;
};

struct audit_tail {
	struct state *st;      /* borrowed */
	int logs_fd, watch_fd; /* owned */
	char box[BOX_NAME_MAX + 1];
	struct audit_filter filter;
	struct tail_log *logs; /* owned; sorted by name */
	size_t count;
};

static int watch(struct audit_tail *t, const char *below, uint32_t events)
{
	char path[64 + AUDIT_NAME_MAX];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", t->logs_fd, below);
	return inotify_add_watch(t->watch_fd, path, events) < 0 ? -errno : 0;
}

/* Who follows a box that never was would wait for ever. */
static int check_known(const struct audit_tail *t, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = audit_logs_list(t->logs_fd, t->filter.box, &names, &count);

	state_names_free(names, r < 0 ? 0 : count);
	return r < 0 ? err_errno(e, -r, "list the audit logs")
		     : audit_check_known(t->st, t->filter.box, count, e);
}

int audit_tail_new(struct audit_tail **ret, struct state *st, const struct audit_filter *f,
		   struct err *e)
{
	struct audit_tail *t = calloc(1, sizeof(*t));
	int r = 0;

	if (!t)
		return err_errno(e, ENOMEM, "follow the audit log");
	t->st = st;
	t->filter = *f;
	if (f->box) {
		str_copy(t->box, sizeof(t->box), f->box);
		t->filter.box = t->box;
	}
	t->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (t->watch_fd < 0)
		r = err_errno(e, errno, "watch the audit log");
	t->logs_fd = audit_logs_open(st, true, r < 0 ? NULL : e);
	if (r == 0 && t->logs_fd < 0)
		r = t->logs_fd;
	if (r == 0) {
		r = watch(t, "", IN_CREATE | IN_MOVED_TO);
		if (r < 0)
			err_errno(e, -r, "watch the audit log");
	}
	if (r == 0)
		r = check_known(t, e);
	if (r < 0) {
		audit_tail_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

int audit_tail_fd(const struct audit_tail *t)
{
	return t->watch_fd;
}

void audit_tail_free(struct audit_tail *t)
{
	if (!t)
		return;
	fd_close(&t->watch_fd);
	fd_close(&t->logs_fd);
	free(t->logs);
	free(t);
}

static int compare_log(const void *name, const void *log)
{
	return strcmp(name, ((const struct tail_log *)log)->name);
}

static int by_name(const void *a, const void *b)
{
	return compare_log(((const struct tail_log *)a)->name, b);
}

/* Both are sorted: what is new is added, what was deleted stays and does not come back. */
static int tail_learn(struct audit_tail *t, char *const *names, size_t count)
{
	size_t known = t->count;
	struct tail_log *grown = reallocarray(t->logs, known + count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	t->logs = grown;
	for (size_t i = 0; i < count; i++) {
		if (known && bsearch(names[i], t->logs, known, sizeof(*t->logs), compare_log))
			continue;
		t->logs[t->count] = (struct tail_log){0};
		str_copy(t->logs[t->count].name, sizeof(t->logs[0].name), names[i]);
		t->count++;
	}
	if (t->count > known)
		qsort(t->logs, t->count, sizeof(*t->logs), by_name);
	return 0;
}

struct tailing {
	struct audit_tail *t;
	struct tail_log *log;
	char box[BOX_NAME_MAX + 1];
	audit_on_row *on_row;
	void *arg;
};

static int tail_segment(struct tailing *g, int log_fd)
{
	struct tail_log *log = g->log;
	struct audit_reader reader;
	struct audit_line row;
	int r = audit_reader_open(&reader, log_fd, log->segment, log->at);

	while (r == 0 && (r = audit_reader_next(&reader)) > 0) {
		log->at = reader.line_at + reader.line_len + 1;
		r = 0;
		if (audit_row_parse(&row, reader.line, reader.line_len) < 0)
			continue;
		log->seq = row.row.seq;
		if (strcmp(row.row.kind, AUDIT_SEGMENT) != 0 &&
		    audit_row_passes(&g->t->filter, &row.row))
			r = g->on_row(g->arg, g->box, &row.row);
	}
	audit_reader_close(&reader);
	return r == -ENOENT || r == -EBADMSG ? 0 : r;
}

/* The segment to go on with was dropped, with rows that were never shown. */
static int tail_skip(struct tailing *g, int log_fd, uint64_t first)
{
	struct audit_row gap = {.kind = "dropped", .reason = "older rows were dropped by rotation"};
	autofree char *line = NULL;
	struct audit_line row;
	bool was_begun = g->log->segment > 0;

	g->log->segment = first;
	g->log->at = 0;
	if (audit_segment_first(log_fd, first, &row, &line) < 0)
		return 0;
	gap.time_ms = row.row.time_ms;
	gap.count = row.row.seq - 1 > g->log->seq ? row.row.seq - 1 - g->log->seq : 0;
	if (!gap.count || (!was_begun && !audit_row_passes(&g->t->filter, &gap)))
		return 0;
	return g->on_row(g->arg, g->box, &gap);
}

static int tail_one(struct tailing *g)
{
	struct tail_log *log = g->log;
	bool is_there = audit_box_is_there(g->t->st, log->name);
	struct audit_segments segments;
	autoclose int fd = -1;
	int r;

	if (log->is_over || !audit_box_of(log->name, g->box))
		return 0;
	if (is_there && !log->is_watched)
		log->is_watched = watch(g->t, log->name, IN_MODIFY | IN_CREATE) == 0;
	fd = audit_log_open(g->t->logs_fd, log->name);
	r = fd < 0 ? fd : audit_segments_find(fd, &segments);
	if (r < 0 || segments.last == 0)
		return r == -ENOENT ? 0 : r;
	/* The door may write its last rows when its box is gone already. */
	log->is_over = !is_there && !audit_log_is_written(fd);
	if (log->segment < segments.first)
		r = tail_skip(g, fd, segments.first);
	while (r == 0) {
		r = tail_segment(g, fd);
		if (r != 0 || log->segment >= segments.last)
			break;
		log->segment++;
		log->at = 0;
	}
	return r;
}

int audit_tail_read(struct audit_tail *t, audit_on_row *on_row, void *arg, struct err *e)
{
	struct tailing g = {.t = t, .on_row = on_row, .arg = arg};
	char events[4096], **names = NULL;
	size_t count = 0;
	int r;

	while (read(t->watch_fd, events, sizeof(events)) > 0)
		;
	r = audit_logs_list(t->logs_fd, t->filter.box, &names, &count);
	if (r == 0) {
		r = tail_learn(t, names, count);
		state_names_free(names, count);
	}
	for (size_t i = 0; i < t->count && r == 0; i++) {
		g.log = &t->logs[i];
		r = tail_one(&g);
	}
	return r < 0 ? err_errno(e, -r, "read the audit log") : r;
}
