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
 * live/end each run has a random token, written in live and repeated in end. An end without the
 *          token of live belongs to an earlier run and counts for nothing: no clock is compared.
 * premade  a file of the box's own, made with live, that is filled and renamed to end when the disk
 *          has no room for a new one: how a box ended is known although it filled the disk.
 * oplock   the operation lock: flock(2) on the directory, held by whoever makes, starts or removes
 *          the box. The creator has it from the first moment, so a sweep can tell a box whose
 *          keeper is about to start from one that was left behind.
 */
#include "store/record.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/rand.h"
#include "base/str.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define PREMADE_NAME "premade"

/* More than live and end can take, whatever is escaped in them. */
enum { BOOT_ID_LEN = 36, RUN_TOKEN_LEN = 16, PREMADE_BYTES = 1024 };

/* What live and end say. */
struct record_run {
	char run[RUN_TOKEN_LEN + 1];
	char boot[BOOT_ID_LEN + 1];
	char cause[64], by[64];
	uint64_t pid, at_ms, init, paused;
};

static int check_box_name(const char *name, struct err *e)
{
	if (str_is_name(name, BOX_NAME_MAX))
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not the name of a box", name);
}

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
	if (r == 0)
		r = write_new_file(fd, "lock", NULL, durable);
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(s->boxes_fd, tmp, s->boxes_fd, spec->name) < 0)
		r = errno == ENOTEMPTY ? -EEXIST : -errno;
	if (r < 0) {
		unlinkat(fd, "record", 0);
		unlinkat(fd, "lock", 0);
		unlinkat(s->boxes_fd, tmp, AT_REMOVEDIR);
		close(fd);
		return r;
	}
	if (durable && fsync(s->boxes_fd) < 0)
		r = -errno;
	*ret_fd = fd;
	return r;
}

int record_create(struct state *s, const struct spec *spec, int *ret_box_fd, struct err *e)
{
	autoclose int fd = -1;
	struct buf text;
	int r = spec_check(spec, e);

	if (r < 0)
		return r;
	buf_init(&text, SPEC_BYTES_MAX);
	r = spec_format(spec, &text);
	if (r == 0)
		r = place_box(s, spec, &text, &fd);
	buf_done(&text);
	if (r == -EEXIST)
		return err_set(e, ERR_EXISTS, EEXIST,
			       "there is already a box '%s'; remove it (cove rm -f %s) or choose "
			       "another name",
			       spec->name, spec->name);
	if (r < 0)
		return state_error(s, -r, "make the box in", e);
	*ret_box_fd = take_fd(fd);
	return 0;
}

int record_open(struct state *s, const char *name, int *ret_box_fd, struct err *e)
{
	int r = check_box_name(name, e), fd;

	if (r < 0)
		return r;
	if (s->boxes_fd < 0)
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

static int take_life_line(struct record_run *l, const char *key, const char *value)
{
	static const struct {
		const char *key;
		size_t offset, size;
	} fields[] = {
		{"run", offsetof(struct record_run, run), sizeof(((struct record_run *)0)->run)},
		{"boot", offsetof(struct record_run, boot), sizeof(((struct record_run *)0)->boot)},
		{"cause", offsetof(struct record_run, cause),
		 sizeof(((struct record_run *)0)->cause)},
		{"by", offsetof(struct record_run, by), sizeof(((struct record_run *)0)->by)},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strcmp(key, fields[i].key) == 0)
			return str_copy((char *)l + fields[i].offset, fields[i].size, value)
				       ? 0
				       : -EBADMSG;
	if (strcmp(key, "pid") == 0)
		return str_parse_u64(value, INT32_MAX, &l->pid) ? 0 : -EBADMSG;
	if (strcmp(key, "at_ms") == 0)
		return str_parse_u64(value, UINT64_MAX, &l->at_ms) ? 0 : -EBADMSG;
	if (strcmp(key, "init") == 0)
		return str_parse_u64(value, UINT32_MAX, &l->init) ? 0 : -EBADMSG;
	if (strcmp(key, "paused") == 0)
		return str_parse_u64(value, 1, &l->paused) ? 0 : -EBADMSG;
	return -EBADMSG;
}

/* 1 and what the file says, 0 if there is none. */
static int read_run(int box_fd, const char *name, struct record_run *ret)
{
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r = fd_read_file(box_fd, name, RECORD_FILE_MAX, &text, &len);

	memset(ret, 0, sizeof(*ret));
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	lines_init(&lines, text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (take_life_line(ret, key, value) < 0)
			return -EBADMSG;
	if (r == 0 && strlen(ret->run) != RUN_TOKEN_LEN)
		r = -EBADMSG;
	return r < 0 ? r : 1;
}

static int format_run(struct buf *b, const struct record_run *l)
{
	int r = lines_put(b, "run", l->run);

	if (r == 0 && l->pid)
		r = lines_put_u64(b, "pid", l->pid);
	if (r == 0 && l->boot[0])
		r = lines_put(b, "boot", l->boot);
	if (r == 0 && l->cause[0])
		r = lines_put(b, "cause", l->cause);
	if (r == 0 && l->by[0])
		r = lines_put(b, "by", l->by);
	if (r == 0)
		r = lines_put_u64(b, "at_ms", l->at_ms);
	/* In live only; record_set_paused finds the digit. */
	if (r == 0 && l->init)
		r = lines_put_u64(b, "init", l->init);
	if (r == 0 && l->init)
		r = lines_put_u64(b, "paused", l->paused);
	return r;
}

/* Its blocks are there already, and nothing new is needed for a rename in the same directory. */
static int use_premade(int box_fd, const char *name, const struct buf *b, bool durable)
{
	autoclose int fd = openat(box_fd, PREMADE_NAME, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, buf_data(b), buf_len(b));
	if (r == 0 && ftruncate(fd, (off_t)buf_len(b)) < 0)
		r = -errno;
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(box_fd, PREMADE_NAME, box_fd, name) < 0)
		r = -errno;
	if (r == 0 && durable && fsync(box_fd) < 0)
		r = -errno;
	return r;
}

/* Real bytes, because not every filesystem can set room aside. */
static int make_premade(int box_fd)
{
	char nothing[PREMADE_BYTES] = "";
	autoclose int fd =
		openat(box_fd, PREMADE_NAME, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : fd_write_full(fd, nothing, sizeof(nothing));
}

static int write_run(int box_fd, const char *name, const struct record_run *l, bool durable)
{
	struct buf b;
	int r;

	buf_init(&b, PREMADE_BYTES);
	r = format_run(&b, l);
	if (r == 0)
		r = fd_write_file(box_fd, name, buf_data(&b), buf_len(&b), 0600, durable);
	if ((r == -ENOSPC || r == -EDQUOT) && use_premade(box_fd, name, &b, durable) == 0)
		r = 0;
	buf_done(&b);
	return r;
}

/* How a run without an end must have ended. */
static const char *lost_cause(const struct record_run *live)
{
	char now[BOOT_ID_LEN + 1];

	boot_id(now);
	return live->boot[0] && now[0] && strcmp(live->boot, now) != 0 ? "host reboot"
								       : "keeper lost";
}

/* The table of record.h. */
static int load_state(int box_fd, struct record *ret)
{
	struct record_run live, end;
	int has_live, has_end;
	bool running = record_is_live(box_fd);

	has_live = read_run(box_fd, "live", &live);
	has_end = running ? 0 : read_run(box_fd, "end", &end);
	if (has_live < 0 || has_end < 0)
		return has_live < 0 ? has_live : has_end;
	ret->state = running ? BOX_RUNNING : has_live || has_end ? BOX_STOPPED : BOX_CREATED;
	if (has_live) {
		ret->keeper_pid = running ? (pid_t)live.pid : 0;
		ret->started_ms = live.at_ms;
	}
	if (running) {
		ret->paused = live.paused != 0;
		ret->init_revision = live.init;
		return 0;
	}
	if (has_end && (!has_live || strcmp(end.run, live.run) == 0)) {
		ret->ended_ms = end.at_ms;
		str_copy(ret->cause, sizeof(ret->cause), end.cause);
		str_copy(ret->by, sizeof(ret->by), end.by);
	} else if (has_live) {
		str_copy(ret->cause, sizeof(ret->cause), lost_cause(&live));
	}
	return 0;
}

static int damaged(const char *name, int code, struct err *e)
{
	return err_set(e, ERR_INTERNAL, code,
		       "the record of box '%s' is damaged (cove rm -f %s removes it)", name, name);
}

int record_load(struct state *s, const char *name, struct record *ret, struct err *e)
{
	autoclose int fd = -1;
	struct record got = {0};
	size_t len;
	int r = record_open(s, name, &fd, e);

	if (r < 0)
		return r;
	r = fd_read_file(fd, "record", SPEC_BYTES_MAX, &got.text, &len);
	if (r < 0)
		return r == -ENOENT ? record_missing(name, e) : damaged(name, -r, e);
	r = spec_parse(&got.spec, got.text, len, e);
	if (r < 0) {
		record_done(&got);
		err_prefix(e, "box '%s'", name);
		return r;
	}
	r = strcmp(got.spec.name, name) == 0 ? load_state(fd, &got) : -EBADMSG;
	if (r < 0) {
		record_done(&got);
		return damaged(name, -r, e);
	}
	*ret = got;
	return 0;
}

void record_done(struct record *r)
{
	free(r->text);
	memset(r, 0, sizeof(*r));
}

int record_lock(int box_fd, int *ret_lock_fd, struct err *e)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	autoclose int fd = openat(box_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

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
	autoclose int fd = openat(box_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return record_is_locked(fd);
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

int record_write_live(int box_fd, bool durable, struct err *e)
{
	struct record_run live = {
		.pid = (uint64_t)getpid(), .at_ms = clock_wall_ms(), .init = WIRE_INIT_REVISION};
	int r;

	rand_hex(live.run, RUN_TOKEN_LEN / 2);
	boot_id(live.boot);
	r = write_run(box_fd, "live", &live, durable);
	if (r < 0)
		return err_errno(e, -r, "write that the box is live");
	if (unlinkat(box_fd, "end", 0) < 0 && errno != ENOENT)
		return err_errno(e, errno, "remove the box's last end");
	/* One that is not kept has no end to be read later. */
	r = durable ? make_premade(box_fd) : 0;
	return r < 0 ? err_errno(e, -r, "set room aside for the box's end") : 0;
}

int record_set_paused(int box_fd, bool on, struct err *e)
{
	static const char key[] = "\npaused ";
	autoclose int fd = openat(box_fd, "live", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	char text[PREMADE_BYTES + 1];
	const char *at;
	ssize_t n = fd < 0 ? -1 : pread(fd, text, PREMADE_BYTES, 0);

	if (n < 0)
		return err_errno(e, errno, "read what the box's live file says");
	text[n] = 0;
	at = strstr(text, key);
	if (!at)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the box's live file is damaged");
	if (pwrite(fd, on ? "1" : "0", 1, at - text + (off_t)strlen(key)) != 1)
		return err_errno(e, errno, "write whether the box is paused");
	return 0;
}

int record_write_end(int box_fd, const char *cause, const char *by, bool durable, struct err *e)
{
	struct record_run live, end;
	int has_live = read_run(box_fd, "live", &live);
	int r;

	/* The first end of a run is the true one: a sweep does not overwrite what the keeper
	 * said. */
	if (has_live > 0 && read_run(box_fd, "end", &end) > 0 && strcmp(end.run, live.run) == 0)
		return 0;
	end = (struct record_run){.at_ms = clock_wall_ms()};
	if (has_live > 0)
		str_copy(end.run, sizeof(end.run), live.run);
	else
		rand_hex(end.run, RUN_TOKEN_LEN / 2);
	str_copy(end.cause, sizeof(end.cause), cause ? cause : "");
	str_copy(end.by, sizeof(end.by), by ? by : "");
	r = write_run(box_fd, "end", &end, durable);
	if (r < 0)
		return err_errno(e, -r, "write why the box ended");
	unlinkat(box_fd, PREMADE_NAME, 0); /* usually there still; the next start makes it anew */
	return 0;
}

int record_trash(struct state *s, const char *name, bool durable, char ret_trash[64], struct err *e)
{
	char trash[32];
	int r = check_box_name(name, e);

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

void record_names_free(char **names, size_t count)
{
	state_names_free(names, count);
}

/* Does the spec of that box name this image or workspace? A damaged record counts for nothing: its
 * box cannot be started, only removed. */
static bool record_uses(struct state *s, const char *box, const char *image, const char *workspace)
{
	struct record r = {0};
	bool uses;

	if (record_load(s, box, &r, NULL) < 0)
		return false;
	uses = (image && strcmp(r.spec.image, image) == 0) ||
	       (workspace && r.spec.workspace && strcmp(r.spec.workspace, workspace) == 0);
	record_done(&r);
	return uses;
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
		if (!record_uses(s, names[i], image, workspace))
			continue;
		str_copy(ret_box, BOX_NAME_MAX + 1, names[i]);
		r = 1;
	}
	record_names_free(names, count);
	return r;
}
