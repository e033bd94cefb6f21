/*
 * A box's life on disk; see record.h.
 *
 * How it works
 *
 * create   boxes/.new-<random>/ gets the record, then one rename gives it its name. A directory
 *          that holds files is never replaced by rename(2), so of several creators exactly one
 *          wins.
 * lock     an open file description lock (fcntl F_OFD_SETLK). Asking (F_OFD_GETLK) takes nothing,
 *          so looking at a box never disturbs a keeper that is starting, which flock(LOCK_SH)
 *          would. The kernel drops it when the keeper's last descriptor closes, however it died.
 * run      the last RECORD_RUN_BYTES of the record (record_run.h), empty lines until the box first
 *          runs. They are always written whole, in one write within a block of the disk: a crash
 *          leaves the text before or after it, and none needs room on the disk. So how a box ended
 *          is known although it filled the disk. The text ends at the first empty line, and empty
 *          lines fill the rest; a reader who meets a writer looks again.
 * older    a box of an older Cove has no run in its record, and a file `lock` beside it: the lock,
 *          with the text of the run alone.
 * oplock   the operation lock: flock(2) on the directory, held by whoever makes, starts or removes
 *          the box. The creator has it from the first moment, so a sweep can tell a box whose
 *          keeper is about to start from one that was left behind.
 */
#include "store/record.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "store/record_run.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define RECORD_FILE "record"
#define LOCK_FILE   "lock" /* an older Cove's */
/* The first line of a spec that has room for a run behind it: without that it is damaged. */
#define WITH_RUN "form 2\n"

enum { RUN_TOKEN_LEN = 16 };
/* More than the text can take, whatever is escaped in it. */
enum { RECORD_BYTES_MAX = LINES_SUM_BYTES + SPEC_BYTES_MAX + 2 * RECORD_RUN_BYTES };

int record_missing(const char *name, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "no box '%.80s' (cove ls shows all)", name);
}

/* Writes a new file into a directory that has no name yet. */
static int write_new_file(int dir_fd, const char *name, const struct buf *b, bool durable,
			  bool make)
{
	autoclose int fd = openat(
		dir_fd, name,
		O_WRONLY | (make ? O_CREAT | O_EXCL : O_TRUNC) | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, buf_data(b), buf_len(b));
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	return r;
}

/* The part between having the text and having the box: its directory tmp gets its name. prepared:
 * the file is there, empty, and on the disk. */
static int place_record(struct state *s, const struct spec *spec, const struct buf *record,
			const char *tmp, int fd, bool prepared)
{
	bool durable = !spec->one_shot;
	int r = write_new_file(fd, RECORD_FILE, record, durable, !prepared);

	if (r == 0 && durable && !prepared && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(s->boxes_fd, tmp, s->boxes_fd, spec->name) < 0)
		r = errno == ENOTEMPTY ? -EEXIST : -errno;
	return r;
}

static int place_box(struct state *s, const struct spec *spec, const struct buf *record,
		     int *ret_fd)
{
	char tmp[32];
	int fd = -1, r;

	r = state_new_dir(s->boxes_fd, tmp, &fd);
	if (r < 0)
		return r;
	r = place_record(s, spec, record, tmp, fd, false);
	if (r < 0) {
		unlinkat(fd, RECORD_FILE, 0);
		unlinkat(s->boxes_fd, tmp, AT_REMOVEDIR);
		close(fd);
		return r;
	}
	if (!spec->one_shot && fsync(s->boxes_fd) < 0)
		r = -errno;
	*ret_fd = fd;
	return r;
}

/* The text of a record, in an older Cove's form or with an empty run. Negative errno; buf_done in
 * every case. */
static int format_record(const struct spec *spec, bool with_run, struct buf *text)
{
	char fill[2 * RECORD_RUN_BYTES];
	int r;

	buf_init(text, RECORD_BYTES_MAX);
	r = lines_begin_sum(text);
	if (r == 0 && with_run)
		r = buf_append_str(text, WITH_RUN);
	if (r == 0)
		r = spec_format(spec, text);
	if (r == 0 && buf_len(text) > LINES_SUM_BYTES + SPEC_BYTES_MAX)
		r = -ENOBUFS;
	if (r == 0)
		lines_end_sum(text);
	if (r < 0 || !with_run)
		return r;
	/* Behind at least one empty line. */
	memset(fill, '\n', sizeof(fill));
	return buf_append(text, fill, sizeof(fill) - buf_len(text) % RECORD_RUN_BYTES);
}

int record_renew(int box_fd, const struct spec *spec, struct err *e)
{
	struct buf text;
	int r = format_record(spec, false, &text);

	if (r == 0)
		r = fd_write_file(box_fd, RECORD_FILE, buf_data(&text), buf_len(&text), 0600, true);
	buf_done(&text);
	return r < 0 ? err_errno(e, -r, "write the record of box '%s' anew", spec->name) : 0;
}

static int not_created(struct state *s, const struct spec *spec, int r, struct err *e)
{
	if (r == -EEXIST)
		return err_set(e, ERR_EXISTS, EEXIST,
			       "box '%s' already exists; remove it (cove rm -f %s) or choose "
			       "another name",
			       spec->name, spec->name);
	return r < 0 ? state_error(s, -r, "make the box in", e) : 0;
}

int record_create(struct state *s, const struct spec *spec, int *ret_box_fd, struct err *e)
{
	autoclose int fd = -1;
	struct buf text;
	int r = spec_check(spec, e);

	if (r < 0)
		return r;
	r = format_record(spec, true, &text);
	if (r == 0)
		r = place_box(s, spec, &text, &fd);
	buf_done(&text);
	if (r == 0)
		*ret_box_fd = take_fd(fd);
	return not_created(s, spec, r, e);
}

int record_create_in(struct state *s, const struct spec *spec, const char *dir, int box_fd,
		     struct err *e)
{
	struct buf text;
	int r = spec_check(spec, e);

	if (r < 0)
		return r;
	r = format_record(spec, true, &text);
	if (r == 0)
		r = place_record(s, spec, &text, dir, box_fd, true);
	buf_done(&text);
	return not_created(s, spec, r, e);
}

int record_sync_name(struct state *s, const struct spec *spec, struct err *e)
{
	return fsync(s->boxes_fd) < 0 ? not_created(s, spec, -errno, e) : 0;
}

int record_prepare(struct state *s, int dir_fd, struct err *e)
{
	autoclose int fd = openat(dir_fd, RECORD_FILE,
				  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 || fsync(fd) < 0 || fsync(dir_fd) < 0
		       ? state_error(s, errno, "make a box ahead in", e)
		       : 0;
}

int record_open(struct state *s, const char *name, int *ret_box_fd, struct err *e)
{
	int fd;

	if (s->boxes_fd < 0 || !str_is_name(name, BOX_NAME_MAX))
		return record_missing(name, e);
	fd = openat(s->boxes_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return record_missing(name, e);
	if (fd < 0)
		return err_errno(e, errno, "open the directory of box '%s'", name);
	*ret_box_fd = fd;
	return 0;
}

/* Without its record a box cannot be started. */
static int damaged_record(struct state *s, const char *name, struct err *e)
{
	return err_set(e, ERR_DAMAGED, EBADMSG,
		       "the file '" RECORD_FILE "' of box '%s' is damaged: save what you need from "
		       "%.90s/boxes/%s, then `cove rm -f %s`",
		       name, s->home, name, name);
}

/* Only how its last run went is lost, and whoever ends the box writes it anew. */
static int damaged_run(const char *name, const char *file, struct err *e)
{
	return err_set(e, ERR_DAMAGED, EBADMSG,
		       "the file '%s' of box '%s' is damaged: how its last run went is lost; "
		       "`cove stop %s` writes it anew",
		       file, name, name);
}

/* A file of a box, without opening its directory. */
static int open_in_box(struct state *s, const char *name, const char *file)
{
	char path[BOX_NAME_MAX + 16];

	snprintf(path, sizeof(path), "%s/%s", name, file);
	return fd_openat2(s->boxes_fd, path, O_RDONLY | O_NONBLOCK, 0, FD_BENEATH | FD_NO_SYMLINKS);
}

/* What an older Cove said of the last run: in a file live, and in a file end, which counts if it
 * names the same run. Without them its box would look abandoned, and be swept away. */
static int read_older(struct state *s, const char *name, struct record_run *ret)
{
	char run[2][RUN_TOKEN_LEN + 1] = {"", ""};

	for (int i = 0; i < 2; i++) {
		autoclose int fd = open_in_box(s, name, i == 0 ? "live" : "end");
		const char *at = i == 0 ? "started_ms" : "ended_ms", *key, *value;
		autofree char *text = NULL;
		struct lines lines;
		size_t len;
		int r = fd < 0 ? fd : fd_read_regular(fd, RECORD_RUN_BYTES, &text, &len);

		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		lines_init(&lines, text, len);
		while ((r = lines_next(&lines, &key, &value)) > 0)
			if (strcmp(key, "run") == 0
				    ? !str_copy(run[i], sizeof(run[i]), value)
				    : record_run_line(ret, strcmp(key, "at_ms") == 0 ? at : key,
						      value) < 0)
				return -EBADMSG;
		if (r < 0)
			return r;
	}
	if (ret->started_ms && strcmp(run[0], run[1]) != 0) {
		ret->ended_ms = 0;
		ret->cause[0] = ret->by[0] = 0;
	}
	return ret->started_ms || ret->ended_ms;
}

/* A limit that was set since the box was made. */
static void set_limit(struct spec *s, enum limit_id id, uint64_t value)
{
	if (!value)
		return;
	s->limits[id] = value == UINT64_MAX ? 0 : value;
	s->limits_asked |= 1u << id;
}

/* The table of record.h; r > 0: something is said of a run. */
static void judge_run(bool running, int r, const struct record_run *l, struct record *ret)
{
	char now[RECORD_BOOT_LEN + 1];

	ret->state = running ? BOX_RUNNING : r > 0 ? BOX_STOPPED : BOX_CREATED;
	ret->started_ms = l->started_ms;
	ret->on_start = l->on_start;
	ret->ttl_from_ms = l->ttl_from_ms ? l->ttl_from_ms : l->started_ms;
	str_copy(ret->boot, sizeof(ret->boot), l->boot);
	set_limit(&ret->spec, LIMIT_TTL, l->ttl_ms);
	set_limit(&ret->spec, LIMIT_IDLE, l->idle_ms);
	if (running && !l->ended_ms) {
		ret->keeper_pid = (pid_t)l->pid;
		ret->paused = l->paused != 0;
		ret->asleep = l->paused && l->asleep[0];
		if (ret->asleep) {
			str_copy(ret->cause, sizeof(ret->cause), l->asleep);
			str_copy(ret->by, sizeof(ret->by), "cove");
		}
		ret->init_revision = l->init;
	} else if (!running && l->ended_ms) {
		ret->ended_ms = l->ended_ms;
		str_copy(ret->cause, sizeof(ret->cause), l->cause);
		str_copy(ret->by, sizeof(ret->by), l->by);
	} else if (!running && r > 0) {
		record_boot_id(now);
		str_copy(ret->cause, sizeof(ret->cause),
			 l->boot[0] && now[0] && strcmp(l->boot, now) != 0 ? "host reboot"
									   : "keeper lost");
	}
}

static void judge_state(bool running, int r, const struct record_run *l, struct record *ret)
{
	judge_run(running, r, l, ret);
	ret->own_ms = l->visit ? l->before_ms : l->started_ms;
	str_copy(ret->own_cause, sizeof(ret->own_cause), l->visit ? l->before : ret->cause);
}

/* A record as it was read. */
struct text {
	int fd;		 /* owned */
	size_t len;	 /* of the spec and its sum, which begin the text */
	const char *run; /* into the text; NULL: in an older Cove's lock */
};

/* Finds the end of the spec. Every byte has its place, so that none is changed unseen. */
static int divide(const char *text, size_t len, struct text *ret)
{
	const char *end = memmem(text, len, "\n\n", 2), *run = text + len - RECORD_RUN_BYTES;

	ret->len = end ? (size_t)(end + 1 - text) : len;
	ret->run = NULL;
	if (!end)
		return 0;
	if (len < 2 * RECORD_RUN_BYTES || len % RECORD_RUN_BYTES != 0 || end + 2 > run)
		return -EBADMSG;
	for (; end < run; end++)
		if (*end != '\n')
			return -EBADMSG;
	ret->run = run;
	return 0;
}

/* The spec of a box. What cannot be read for want of rights or room is not called damage. */
static int load_spec(struct state *s, const char *name, struct record *ret, struct text *t,
		     struct err *e)
{
	size_t len = 0, skip;
	bool with_run;
	int r;

	t->fd = s->boxes_fd < 0 ? -ENOENT : open_in_box(s, name, RECORD_FILE);
	r = t->fd < 0 ? t->fd : fd_read_regular(t->fd, RECORD_BYTES_MAX, &ret->text, &len);
	if (r == -ENOENT)
		return record_missing(name, e);
	if (r == -EACCES || r == -EPERM || r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return err_errno(e, -r, "read the record of box '%s'", name);
	if (r == 0)
		r = divide(ret->text, len, t);
	if (r == 0)
		r = lines_check_sum(ret->text, t->len);
	ret->has_sum = r > 0;
	skip = r > 0 ? LINES_SUM_BYTES : 0;
	with_run = r > 0 && str_starts(ret->text + skip, WITH_RUN);
	if (r < 0 || with_run != (t->run != NULL))
		return damaged_record(s, name, e);
	if (with_run) {
		skip += strlen(WITH_RUN);
		ret->text[t->len] = 0;
	}
	r = spec_parse(&ret->spec, ret->text + skip, t->len - skip, e);
	/* As it was written, and not understood: by a newer Cove. */
	if (r < 0 && ret->has_sum) {
		err_prefix(e, "box '%s'", name);
		return r;
	}
	return r < 0 || strcmp(ret->spec.name, name) != 0 ? damaged_record(s, name, e) : 0;
}

static int load_run(const struct text *t, struct record *ret)
{
	bool running = record_is_locked(t->fd);
	struct record_run l;
	int r = record_run_parse(t->run, &l);

	/* Somebody was writing; or it began or ended between the text and the lock. */
	if (r == -EBADMSG || running != (r > 0 && !l.ended_ms))
		r = record_run_read(t->fd, &l);
	if (r >= 0)
		judge_state(running, r, &l, ret);
	return r;
}

/* Of an older Cove's box. Without a lock it never ran. */
static int load_lock(struct state *s, struct record *ret)
{
	autoclose int fd = open_in_box(s, ret->spec.name, LOCK_FILE);
	bool running = record_is_locked(fd);
	struct record_run l = {0};
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = record_run_read(fd, &l);
	if (r == 0)
		r = read_older(s, ret->spec.name, &l);
	if (r >= 0)
		judge_state(running, r, &l, ret);
	return r;
}

int record_load(struct state *s, const char *name, struct record *ret, struct err *e)
{
	struct record got = {0};
	struct text t = {.fd = -1};
	int r = str_is_name(name, BOX_NAME_MAX) ? load_spec(s, name, &got, &t, e)
						: record_missing(name, e);

	if (r == 0) {
		r = t.run ? load_run(&t, &got) : load_lock(s, &got);
		if (r == -EBADMSG || r == -EFBIG)
			r = damaged_run(name, t.run ? RECORD_FILE : LOCK_FILE, e);
		else if (r < 0)
			r = err_errno(e, -r, "read how the last run of box '%s' went", name);
	}
	fd_close(&t.fd);
	if (r < 0) {
		record_done(&got);
		return r;
	}
	*ret = got;
	return 0;
}

void record_done(struct record *r)
{
	free(r->text);
	memset(r, 0, sizeof(*r));
}

/* For who only asks: in an older Cove's box the lock, and else the record. */
int record_open_lock(int box_fd)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = openat(box_fd, LOCK_FILE, flags);

	if (fd < 0 && errno == ENOENT)
		fd = openat(box_fd, RECORD_FILE, flags);
	return fd < 0 ? -errno : fd;
}

/* For who writes. Where the record is an older Cove's, or lost, there is a lock from here on. */
static int open_run(int box_fd)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = openat(box_fd, LOCK_FILE, flags);

	if (fd >= 0 || errno != ENOENT)
		return fd < 0 ? -errno : fd;
	fd = openat(box_fd, RECORD_FILE, flags);
	if (fd >= 0 && record_run_place(fd) > 0)
		return fd;
	if (fd < 0 && errno != ENOENT)
		return -errno;
	fd_close(&fd);
	fd = openat(box_fd, LOCK_FILE, flags | O_CREAT, 0600);
	return fd < 0 ? -errno : fd;
}

int record_lock(int box_fd, int *ret_lock_fd, struct err *e)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	autoclose int fd = open_run(box_fd);

	if (fd < 0)
		return err_errno(e, -fd, "open the box's lock");
	if (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
		if (errno == EAGAIN || errno == EACCES)
			return err_set(e, ERR_CONFLICT, EBUSY, "the box is already running");
		return err_errno(e, errno, "lock the box");
	}
	*ret_lock_fd = take_fd(fd);
	return 0;
}

bool record_is_locked(int lock_fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return lock_fd >= 0 && fcntl(lock_fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

bool record_is_live(int box_fd)
{
	autoclose int fd = record_open_lock(box_fd);

	return record_is_locked(fd);
}

bool record_says_visit(int lock_fd)
{
	struct record_run l;

	return record_is_locked(lock_fd) && record_run_read(lock_fd, &l) > 0 && l.visit &&
	       !l.ended_ms;
}

bool record_is_visited(int box_fd)
{
	autoclose int fd = record_open_lock(box_fd);

	return record_says_visit(fd);
}

int record_lock_operation(int box_fd, bool wait, struct err *e)
{
	int r;

	do {
		r = flock(box_fd, LOCK_EX | (wait ? 0 : LOCK_NB));
	} while (r < 0 && errno == EINTR);
	if (r == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "another cove is starting or removing this box");
	return err_errno(e, errno, "lock the box for an operation");
}

/* What was set of an earlier run holds for this one, too. */
static int write_start(int lock_fd, bool visit, bool durable, struct err *e)
{
	struct record_run before = {0}, l = {.pid = (uint64_t)getpid(),
					     .started_ms = clock_wall_ms(),
					     .init = WIRE_INIT_REVISION,
					     .visit = visit};
	int r = record_run_read(lock_fd, &before);

	if (r > 0) {
		l.ttl_ms = before.ttl_ms;
		l.idle_ms = before.idle_ms;
	}
	if (r > 0 && visit) {
		l.before_ms = before.visit ? before.before_ms : before.started_ms;
		str_copy(l.before, sizeof(l.before), before.visit ? before.before : before.cause);
		l.on_start = before.on_start;
	}
	record_boot_id(l.boot);
	r = record_run_write(lock_fd, &l, durable);
	return r < 0 ? err_errno(e, -r, "write that the box is live") : 0;
}

int record_write_live(int lock_fd, bool durable, struct err *e)
{
	return write_start(lock_fd, false, durable, e);
}

int record_write_visit(int lock_fd, bool durable, struct err *e)
{
	return write_start(lock_fd, true, durable, e);
}

bool record_ran_before(int lock_fd)
{
	struct record_run l;

	return record_run_place(lock_fd) <= 0 || record_run_read(lock_fd, &l) != 0;
}

/* What is said of the run that this keeper has begun. */
static int read_own_run(int lock_fd, struct record_run *ret)
{
	int r = record_run_read(lock_fd, ret);

	return r < 0 ? r : r == 0 || !ret->started_ms ? -EBADMSG : 0;
}

int record_set_paused(int lock_fd, bool on, const char *asleep, struct err *e)
{
	struct record_run l;
	int r = read_own_run(lock_fd, &l);

	if (r == 0) {
		l.paused = on;
		str_copy(l.asleep, sizeof(l.asleep), on && asleep ? asleep : "");
		r = record_run_write(lock_fd, &l, false);
	}
	return r < 0 ? err_errno(e, -r, "write whether the box is paused") : 0;
}

int record_set_times(int lock_fd, uint64_t ttl_ms, uint64_t idle_ms, struct err *e)
{
	struct record_run l;
	int r = read_own_run(lock_fd, &l);

	if (r == 0) {
		l.ttl_ms = ttl_ms ? ttl_ms : l.ttl_ms;
		l.ttl_from_ms = ttl_ms ? clock_wall_ms() : l.ttl_from_ms;
		l.idle_ms = idle_ms ? idle_ms : l.idle_ms;
		r = record_run_write(lock_fd, &l, true);
	}
	return r < 0 ? err_errno(e, -r, "write how long the box may run") : 0;
}

int record_set_on_start(int lock_fd, uint64_t exec_id, struct err *e)
{
	struct record_run l;
	int r = read_own_run(lock_fd, &l);

	if (r == 0) {
		l.on_start = exec_id;
		r = record_run_write(lock_fd, &l, false);
	}
	return r < 0 ? err_errno(e, -r, "write which command is that of the box's start") : 0;
}

int record_write_end(int box_fd, const char *cause, const char *by, bool durable, struct err *e)
{
	autoclose int fd = open_run(box_fd);
	struct record_run l = {0};
	int r = fd < 0 ? fd : record_run_read(fd, &l);

	if (r == -EBADMSG || r == -EFBIG)
		l = (struct record_run){0};
	/* The first end of a run is the true one: a sweep does not overwrite what the keeper
	 * said. */
	if (r > 0 && l.ended_ms)
		return 0;
	l.ended_ms = clock_wall_ms();
	str_copy(l.cause, sizeof(l.cause), cause ? cause : "");
	str_copy(l.by, sizeof(l.by), by ? by : "");
	r = fd < 0 ? r : record_run_write(fd, &l, durable);
	return r < 0 ? err_errno(e, -r, "write why the box ended") : 0;
}

/* The spec has what was set since, from now on. */
static int forget_times(int run_fd)
{
	struct record_run l;
	int r = record_run_read(run_fd, &l);

	if (r <= 0 || (!l.ttl_ms && !l.idle_ms))
		return 0;
	l.ttl_ms = l.idle_ms = 0;
	return record_run_write(run_fd, &l, true);
}

/* The lock of an older Cove's box is a file of its own. */
static int replace_older(int box_fd, const struct spec *spec, struct err *e)
{
	autoclose int fd = open_run(box_fd);
	int r = record_renew(box_fd, spec, e);

	if (r < 0)
		return r;
	r = fd < 0 ? fd : forget_times(fd);
	return r < 0 ? err_errno(e, -r, "write the record of box '%s' anew", spec->name) : 0;
}

int record_replace(int box_fd, const struct spec *spec, struct err *e)
{
	autoclose int old_fd = open_run(box_fd), fd = -1;
	struct record_run l = {0};
	struct buf text;
	int r;

	if (faccessat(box_fd, LOCK_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return replace_older(box_fd, spec, e);
	r = format_record(spec, true, &text);
	if (old_fd >= 0)
		(void)record_run_read(old_fd, &l);
	l.ttl_ms = l.idle_ms = 0;
	unlinkat(box_fd, RECORD_FILE ".new", 0);
	if (r == 0)
		r = write_new_file(box_fd, RECORD_FILE ".new", &text, true, true);
	buf_done(&text);
	if (r == 0) {
		fd = openat(box_fd, RECORD_FILE ".new", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		r = fd < 0 ? -errno : record_run_write(fd, &l, true);
	}
	if (r == 0 &&
	    (renameat(box_fd, RECORD_FILE ".new", box_fd, RECORD_FILE) < 0 || fsync(box_fd) < 0))
		r = -errno;
	return r < 0 ? err_errno(e, -r, "write the record of box '%s' anew", spec->name) : 0;
}

int record_mend_run(int box_fd, const char *by, struct err *e)
{
	autoclose int fd = open_run(box_fd);
	struct record_run l;
	int r = fd < 0 ? fd : record_run_read(fd, &l);

	if (r != -EBADMSG && r != -EFBIG)
		return 0;
	if (record_run_place(fd) == 0 && ftruncate(fd, RECORD_RUN_BYTES) < 0)
		return err_errno(e, errno, "write the box's run anew");
	return record_write_end(box_fd, "damaged", by, true, e);
}

int record_trash(struct state *s, const char *name, bool durable, char ret_trash[64], struct err *e)
{
	char trash[32];
	int r = state_check_name("box", name, e);

	if (r < 0)
		return r;
	state_gone_name(trash);
	if (renameat(s->boxes_fd, name, s->boxes_fd, trash) < 0) {
		if (errno != ENOENT)
			return state_error(s, errno, "remove the box in", e);
		ret_trash[0] = 0;
		return 0;
	}
	if (durable && fsync(s->boxes_fd) < 0)
		return state_error(s, errno, "sync", e);
	str_copy(ret_trash, 64, trash);
	return 0;
}

int record_names(struct state *s, char ***ret_names, size_t *ret_count, struct err *e)
{
	int r = state_names(s->boxes_fd, ret_names, ret_count);

	return r < 0 ? err_errno(e, -r, "list the boxes in '%.140s'", s->home) : 0;
}

int record_each_spec(struct state *s, bool strict, int (*fn)(void *arg, const struct spec *spec),
		     void *arg, struct err *e)
{
	char **names;
	size_t count;
	int r = record_names(s, &names, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		struct record box = {0};
		struct text t = {.fd = -1};
		struct err why = {0};

		r = load_spec(s, names[i], &box, &t, &why);
		fd_close(&t.fd);
		if (r == 0) {
			r = fn(arg, &box.spec);
			if (r < 0)
				err_errno(&why, -r, "look at the box '%s'", names[i]);
		} else if (why.kind == ERR_NOT_FOUND || (why.kind == ERR_DAMAGED && !strict)) {
			r = 0;
		}
		if (r < 0 && e)
			*e = why;
		record_done(&box);
	}
	state_names_free(names, count);
	return r;
}
