/*
 * A box's life on disk; see record.h.
 *
 * How it works
 *
 * create   boxes/.new-<random>/ gets record and lock, then one rename gives it its name. A
 *          directory that holds files is never replaced by rename(2), so of several creators
 *          exactly one wins.
 * lock     an open file description lock (fcntl F_OFD_SETLK). Asking (F_OFD_GETLK) takes nothing,
 *          so looking at a box never disturbs a keeper that is starting, which flock(LOCK_SH)
 *          would. The kernel drops it when the keeper's last descriptor closes, however it died.
 *          What the file says is always written whole, in one write of RUN_BYTES within its first
 *          block: a crash leaves the text before or after it, and once there is one the next
 *          needs no room on the disk. So how a box ended is known although it filled the disk.
 *          The text ends at the first empty line, and empty lines fill the rest; a reader who meets
 *          a writer looks again.
 * oplock   the operation lock: flock(2) on the directory, held by whoever makes, starts or removes
 *          the box. The creator has it from the first moment, so a sweep can tell a box whose
 *          keeper is about to start from one that was left behind.
 */
#include "store/record.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK_FILE "lock"

/* More than the text can take, whatever is escaped in it. */
enum { BOOT_ID_LEN = 36, RUN_TOKEN_LEN = 16, RUN_BYTES = 1024, READ_TRIES = 8 };
enum { RECORD_BYTES_MAX = LINES_SUM_BYTES + SPEC_BYTES_MAX };

/* What the lock's file says of the last run. */
struct record_run {
	char boot[BOOT_ID_LEN + 1];
	char cause[64], by[64];
	uint64_t pid, started_ms, ended_ms, init, paused, visit;
};

int record_missing(const char *name, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "no box '%.80s' (cove ls shows all)", name);
}

/* Writes a new file into a directory that has no name yet. */
static int write_new_file(int dir_fd, const char *name, const struct buf *b, bool durable)
{
	autoclose int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = b ? fd_write_full(fd, buf_data(b), buf_len(b)) : 0;
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	return r;
}

/* The part between having the text and having the box. */
static int place_box(struct state *s, const struct spec *spec, const struct buf *record,
		     int *ret_fd)
{
	bool durable = !spec->one_shot;
	char tmp[32];
	int fd = -1, r;

	r = state_new_dir(s->boxes_fd, tmp, &fd);
	if (r < 0)
		return r;
	r = write_new_file(fd, "record", record, durable);
	if (r == 0) /* it is empty: the directory's sync is all that it needs */
		r = write_new_file(fd, LOCK_FILE, NULL, false);
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(s->boxes_fd, tmp, s->boxes_fd, spec->name) < 0)
		r = errno == ENOTEMPTY ? -EEXIST : -errno;
	if (r < 0) {
		unlinkat(fd, "record", 0);
		unlinkat(fd, LOCK_FILE, 0);
		unlinkat(s->boxes_fd, tmp, AT_REMOVEDIR);
		close(fd);
		return r;
	}
	if (durable && fsync(s->boxes_fd) < 0)
		r = -errno;
	*ret_fd = fd;
	return r;
}

/* The text of a record. Negative errno; buf_done in every case. */
static int format_record(const struct spec *spec, struct buf *text)
{
	int r;

	buf_init(text, RECORD_BYTES_MAX);
	r = lines_begin_sum(text);
	if (r == 0)
		r = spec_format(spec, text);
	if (r == 0)
		lines_end_sum(text);
	return r;
}

int record_renew(int box_fd, const struct spec *spec, struct err *e)
{
	struct buf text;
	int r = format_record(spec, &text);

	if (r == 0)
		r = fd_write_file(box_fd, "record", buf_data(&text), buf_len(&text), 0600, true);
	buf_done(&text);
	return r < 0 ? err_errno(e, -r, "write the record of box '%s' anew", spec->name) : 0;
}

int record_create(struct state *s, const struct spec *spec, int *ret_box_fd, struct err *e)
{
	autoclose int fd = -1;
	struct buf text;
	int r = spec_check(spec, e);

	if (r < 0)
		return r;
	r = format_record(spec, &text);
	if (r == 0)
		r = place_box(s, spec, &text, &fd);
	buf_done(&text);
	if (r == -EEXIST)
		return err_set(e, ERR_EXISTS, EEXIST,
			       "box '%s' already exists; remove it (cove rm -f %s) or choose "
			       "another name",
			       spec->name, spec->name);
	if (r < 0)
		return state_error(s, -r, "make the box in", e);
	*ret_box_fd = take_fd(fd);
	return 0;
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

/* The kernel's name for this boot; empty where it does not say. */
static void boot_id(char ret[BOOT_ID_LEN + 1])
{
	autofree char *text = NULL;
	size_t len;

	ret[0] = 0;
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 128, &text, &len) == 0 &&
	    len >= BOOT_ID_LEN) {
		memcpy(ret, text, BOOT_ID_LEN);
		ret[BOOT_ID_LEN] = 0;
	}
}

static const struct {
	const char *key;
	size_t offset, size; /* size 0: a number */
	uint64_t max;
} fields[] = {
	{"pid", offsetof(struct record_run, pid), 0, INT32_MAX},
	{"boot", offsetof(struct record_run, boot), BOOT_ID_LEN + 1, 0},
	{"started_ms", offsetof(struct record_run, started_ms), 0, UINT64_MAX},
	{"init", offsetof(struct record_run, init), 0, UINT32_MAX},
	{"paused", offsetof(struct record_run, paused), 0, 1},
	{"visit", offsetof(struct record_run, visit), 0, 1},
	/* Of one that ended: */
	{"cause", offsetof(struct record_run, cause), 64, 0},
	{"by", offsetof(struct record_run, by), 64, 0},
	{"ended_ms", offsetof(struct record_run, ended_ms), 0, UINT64_MAX},
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]), FIRST_OF_END = 6 };

static int parse_run_line(struct record_run *l, const char *key, const char *value)
{
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		char *at = (char *)l + fields[i].offset;

		if (strcmp(key, fields[i].key) != 0)
			continue;
		return (fields[i].size ? str_copy(at, fields[i].size, value)
				       : str_parse_u64(value, fields[i].max, (uint64_t *)at))
			       ? 0
			       : -EBADMSG;
	}
	return -EBADMSG;
}

static int parse_run(char text[RUN_BYTES + 2], size_t len, struct record_run *ret)
{
	char *end = strstr(text, "\n\n");
	const char *key, *value;
	struct lines lines;
	bool filled;
	int r;

	*ret = (struct record_run){0};
	filled = end && len == RUN_BYTES && strspn(end, "\n") == (size_t)(text + len - end);
	if (end) {
		end[1] = 0;
		len = (size_t)(end + 1 - text);
	}
	r = lines_check_sum(text, len);
	if (r < 0 || (r > 0 && !filled))
		return -EBADMSG;
	if (r > 0)
		r = LINES_SUM_BYTES;
	lines_init(&lines, text + r, len - (size_t)r);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (parse_run_line(ret, key, value) < 0)
			return -EBADMSG;
	return r < 0 ? r : ret->started_ms || ret->ended_ms ? 1 : -EBADMSG;
}

/* 1 and what the open lock's file says, 0 if there is nothing. */
static int read_run(int fd, struct record_run *ret)
{
	char text[RUN_BYTES + 2];
	int r = -EBADMSG;

	for (int i = 0; i < READ_TRIES && r == -EBADMSG; i++) {
		ssize_t n = pread(fd, text, RUN_BYTES + 1, 0);

		if (n < 0)
			return -errno;
		text[n] = 0;
		r = n == 0 ? 0 : n > RUN_BYTES ? -EFBIG : parse_run(text, (size_t)n, ret);
	}
	return r;
}

static int write_run(int fd, const struct record_run *l, bool durable)
{
	struct buf b;
	int r;

	buf_init(&b, RUN_BYTES);
	r = lines_begin_sum(&b);
	for (size_t i = 0; i < FIELD_COUNT && r == 0; i++) {
		const char *at = (const char *)l + fields[i].offset;

		if (!(i < FIRST_OF_END ? l->started_ms : l->ended_ms) || (at == l->boot && !*at) ||
		    (at == (const char *)&l->visit && !l->visit))
			continue;
		r = fields[i].size ? lines_put(&b, fields[i].key, at)
				   : lines_put_u64(&b, fields[i].key, *(const uint64_t *)at);
	}
	if (r == 0)
		lines_end_sum(&b);
	while (r == 0 && buf_len(&b) < RUN_BYTES)
		r = buf_append(&b, "\n", 1);
	if (r == 0) {
		ssize_t n = pwrite(fd, buf_data(&b), RUN_BYTES, 0);

		r = n == RUN_BYTES ? 0 : n < 0 ? -errno : -ENOSPC;
	}
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	buf_done(&b);
	return r;
}

/* Without its record a box cannot be started; without the text of its lock only how its last run
 * went is lost, and whoever ends the box writes it anew. */
static int damaged(struct state *s, const char *name, const char *file, struct err *e)
{
	if (strcmp(file, LOCK_FILE) == 0)
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "the file '%s' of box '%s' is damaged: how its last run went is "
			       "lost; `cove stop %s` writes it anew",
			       file, name, name);
	return err_set(e, ERR_DAMAGED, EBADMSG,
		       "the file '%s' of box '%s' is damaged: save what you need from "
		       "%.90s/boxes/%s, then `cove rm -f %s`",
		       file, name, s->home, name, name);
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
		int r = fd < 0 ? fd : fd_read_regular(fd, RUN_BYTES, &text, &len);

		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		lines_init(&lines, text, len);
		while ((r = lines_next(&lines, &key, &value)) > 0)
			if (strcmp(key, "run") == 0
				    ? !str_copy(run[i], sizeof(run[i]), value)
				    : parse_run_line(ret, strcmp(key, "at_ms") == 0 ? at : key,
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

/* The table of record.h. */
static int load_state(struct state *s, int lock_fd, struct record *ret)
{
	bool running = record_is_locked(lock_fd);
	char now[BOOT_ID_LEN + 1];
	struct record_run l = {0};
	int r = read_run(lock_fd, &l);

	if (r == 0)
		r = read_older(s, ret->spec.name, &l);
	if (r < 0)
		return r;
	ret->state = running ? BOX_RUNNING : r > 0 ? BOX_STOPPED : BOX_CREATED;
	ret->started_ms = l.started_ms;
	if (running && !l.ended_ms) {
		ret->keeper_pid = (pid_t)l.pid;
		ret->paused = l.paused != 0;
		ret->init_revision = l.init;
	} else if (!running && l.ended_ms) {
		ret->ended_ms = l.ended_ms;
		str_copy(ret->cause, sizeof(ret->cause), l.cause);
		str_copy(ret->by, sizeof(ret->by), l.by);
	} else if (!running && r > 0) {
		boot_id(now);
		str_copy(ret->cause, sizeof(ret->cause),
			 l.boot[0] && now[0] && strcmp(l.boot, now) != 0 ? "host reboot"
									 : "keeper lost");
	}
	return 0;
}

/* The spec of a box. What cannot be read for want of rights or room is not called damage. */
static int load_spec(struct state *s, const char *name, struct record *ret, struct err *e)
{
	autoclose int fd = s->boxes_fd < 0 ? -ENOENT : open_in_box(s, name, "record");
	size_t len, skip;
	int r = fd < 0 ? fd : fd_read_regular(fd, RECORD_BYTES_MAX, &ret->text, &len);

	if (r == -ENOENT)
		return record_missing(name, e);
	if (r == -EACCES || r == -EPERM || r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return err_errno(e, -r, "read the record of box '%s'", name);
	if (r == 0)
		r = lines_check_sum(ret->text, len);
	ret->has_sum = r > 0;
	skip = r > 0 ? LINES_SUM_BYTES : 0;
	if (r >= 0)
		r = spec_parse(&ret->spec, ret->text + skip, len - skip, e);
	/* As it was written, and not understood: by a newer Cove. */
	if (r < 0 && ret->has_sum) {
		err_prefix(e, "box '%s'", name);
		return r;
	}
	return r < 0 || strcmp(ret->spec.name, name) != 0 ? damaged(s, name, "record", e) : 0;
}

int record_load(struct state *s, const char *name, struct record *ret, struct err *e)
{
	struct record got = {0};
	int r = str_is_name(name, BOX_NAME_MAX) ? load_spec(s, name, &got, e)
						: record_missing(name, e);

	if (r == 0) {
		autoclose int lock_fd = open_in_box(s, name, LOCK_FILE);

		if (lock_fd != -ENOENT) /* without one it never ran */
			r = lock_fd < 0 ? lock_fd : load_state(s, lock_fd, &got);
		if (r == -EBADMSG || r == -EFBIG)
			r = damaged(s, name, LOCK_FILE, e);
		else if (r < 0)
			r = err_errno(e, -r, "read the lock of box '%s'", name);
	}
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

static int open_lock(int box_fd)
{
	return openat(box_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int record_lock(int box_fd, int *ret_lock_fd, struct err *e)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	autoclose int fd = open_lock(box_fd);

	if (fd < 0)
		return err_errno(e, errno, "open the box's lock");
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
	autoclose int fd = openat(box_fd, LOCK_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return record_is_locked(fd);
}

bool record_is_visited(int box_fd)
{
	autoclose int fd = openat(box_fd, LOCK_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct record_run l;

	return record_is_locked(fd) && read_run(fd, &l) > 0 && l.visit && !l.ended_ms;
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

static int write_start(int box_fd, bool visit, bool durable, struct err *e)
{
	struct record_run l = {.pid = (uint64_t)getpid(),
			       .started_ms = clock_wall_ms(),
			       .init = WIRE_INIT_REVISION,
			       .visit = visit};
	autoclose int fd = open_lock(box_fd);
	int r;

	boot_id(l.boot);
	r = fd < 0 ? -errno : write_run(fd, &l, durable);
	return r < 0 ? err_errno(e, -r, "write that the box is live") : 0;
}

int record_write_live(int box_fd, bool durable, struct err *e)
{
	return write_start(box_fd, false, durable, e);
}

int record_write_visit(int box_fd, bool durable, struct err *e)
{
	return write_start(box_fd, true, durable, e);
}

int record_set_paused(int box_fd, bool on, struct err *e)
{
	autoclose int fd = open_lock(box_fd);
	struct record_run l;
	int r = fd < 0 ? -errno : read_run(fd, &l);

	if (r == 0 || (r > 0 && !l.started_ms))
		r = -EBADMSG;
	l.paused = on;
	if (r > 0)
		r = write_run(fd, &l, false);
	return r < 0 ? err_errno(e, -r, "write whether the box is paused") : 0;
}

int record_write_end(int box_fd, const char *cause, const char *by, bool durable, struct err *e)
{
	autoclose int fd = open_lock(box_fd);
	struct record_run l = {0};
	int r = fd < 0 ? -errno : read_run(fd, &l);

	if (r == -EBADMSG || r == -EFBIG)
		l = (struct record_run){0};
	/* The first end of a run is the true one: a sweep does not overwrite what the keeper
	 * said. */
	if (r > 0 && l.ended_ms)
		return 0;
	l.ended_ms = clock_wall_ms();
	str_copy(l.cause, sizeof(l.cause), cause ? cause : "");
	str_copy(l.by, sizeof(l.by), by ? by : "");
	r = fd < 0 ? r : write_run(fd, &l, durable);
	return r < 0 ? err_errno(e, -r, "write why the box ended") : 0;
}

int record_mend_lock(int box_fd, const char *by, struct err *e)
{
	autoclose int fd = open_lock(box_fd);
	struct record_run l;
	int r = fd < 0 ? -errno : read_run(fd, &l);

	if (r != -EBADMSG && r != -EFBIG)
		return 0;
	if (ftruncate(fd, RUN_BYTES) < 0)
		return err_errno(e, errno, "write the box's lock anew");
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

int record_find_user(struct state *s, const char *image, const char *workspace,
		     char ret_box[BOX_NAME_MAX + 1], struct err *e)
{
	char **names;
	size_t count;
	int r = record_names(s, &names, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		struct record box = {0};
		struct err why = {0};

		r = load_spec(s, names[i], &box, &why);
		/* A damaged record counts for nothing: its box cannot be started, only removed. Of
		 * one that cannot be read just now, or that is a newer Cove's, nobody knows. */
		if (r < 0)
			r = why.kind == ERR_DAMAGED || why.kind == ERR_NOT_FOUND ? 0 : r;
		else
			r = (image && strcmp(box.spec.image, image) == 0) ||
			    (workspace && box.spec.workspace &&
			     strcmp(box.spec.workspace, workspace) == 0);
		if (r > 0)
			str_copy(ret_box, BOX_NAME_MAX + 1, names[i]);
		if (r < 0 && e)
			*e = why;
		record_done(&box);
	}
	state_names_free(names, count);
	return r;
}
