/* See audit_log.h. */
#include "store/audit_log.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* ---- directories ---- */

static int dir_open(int parent_fd, const char *name, bool make)
{
	int fd;

	if (make && mkdirat(parent_fd, name, 0700) == 0) {
		if (fsync(parent_fd) < 0)
			return -errno;
	} else if (make && errno != EEXIST) {
		return -errno;
	}
	fd = openat(parent_fd, name, DIR_FLAGS);
	return fd < 0 ? -errno : fd;
}

static int open_error(struct state *st, int r, bool make, struct err *e)
{
	if (r >= 0 || (r == -ENOENT && !make))
		return r;
	return state_error(st, -r, "open the directory of the audit log", e);
}

int audit_dir_open(struct state *st, bool make, struct err *e)
{
	int r = make ? state_make(st, e) : 0;

	if (r < 0)
		return r;
	return open_error(st, st->home_fd < 0 ? -ENOENT : dir_open(st->home_fd, AUDIT_DIR, make),
			  make, e);
}

int audit_logs_open(struct state *st, bool make, struct err *e)
{
	autoclose int dir = audit_dir_open(st, make, e);

	return dir < 0 ? dir : open_error(st, dir_open(dir, AUDIT_LOGS, make), make, e);
}

bool audit_box_of(const char *name, char ret[BOX_NAME_MAX + 1])
{
	const char *dot = strchr(name, '.');
	uint64_t created;

	if (!dot || (size_t)(dot - name) > BOX_NAME_MAX ||
	    !str_parse_u64(dot + 1, UINT64_MAX, &created))
		return false;
	memcpy(ret, name, (size_t)(dot - name));
	ret[dot - name] = 0;
	return str_is_name(ret, BOX_NAME_MAX);
}

bool audit_box_is_there(const struct state *st, const char *name)
{
	char box[BOX_NAME_MAX + 1];
	struct stat s;

	return !audit_box_of(name, box) || st->boxes_fd < 0 ||
	       fstatat(st->boxes_fd, box, &s, AT_SYMLINK_NOFOLLOW) == 0;
}

static DIR *dir_stream(int fd)
{
	int own = openat(fd, ".", DIR_FLAGS);
	DIR *d = own < 0 ? NULL : fdopendir(own);

	if (own >= 0 && !d)
		close(own);
	return d;
}

int audit_logs_each(int logs_fd, const char *box, audit_on_log *on_log, void *arg)
{
	char own[BOX_NAME_MAX + 1];
	DIR *dir = dir_stream(logs_fd);
	struct dirent *d;
	int r = dir ? 0 : -errno;

	while (r == 0 && (errno = 0, d = readdir(dir)))
		if (audit_box_of(d->d_name, own) && (!box || strcmp(box, own) == 0))
			r = on_log(arg, d->d_name);
	if (r == 0 && errno != 0)
		r = -errno;
	if (dir)
		closedir(dir);
	return r;
}

static int add_name(void *arg, const char *name)
{
	return state_list_add(arg, name, AUDIT_LOGS_MAX);
}

int audit_logs_list(int logs_fd, const char *box, char ***ret, size_t *ret_count)
{
	struct state_list names = {0};
	int r = audit_logs_each(logs_fd, box, add_name, &names);

	return state_list_take(&names, r, ret, ret_count);
}

int audit_check_known(const struct state *st, const char *box, size_t count, struct err *e)
{
	struct stat s;

	if (!box || count > 0 ||
	    (st->boxes_fd >= 0 && str_is_name(box, BOX_NAME_MAX) &&
	     fstatat(st->boxes_fd, box, &s, AT_SYMLINK_NOFOLLOW) == 0))
		return 0;
	return err_set(e, ERR_NOT_FOUND, ENOENT, "there is no audit log of a box '%.80s'", box);
}

/* ---- one log ---- */

int audit_log_open(int logs_fd, const char *name)
{
	return dir_open(logs_fd, name, false);
}

bool audit_log_is_written(int log_fd)
{
	/* A description of its own: a lock belongs to it. */
	autoclose int fd = openat(log_fd, ".", DIR_FLAGS);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* "rows hash segment bytes\n" */
static bool parse_head(char *text, struct audit_head *h)
{
	char *words[4], *save = NULL, *end = strchr(text, '\n');

	if (!end || end[1])
		return false;
	*end = 0;
	for (int i = 0; i < 4; i++) {
		words[i] = strtok_r(i == 0 ? text : NULL, " ", &save);
		if (!words[i])
			return false;
	}
	return !strtok_r(NULL, " ", &save) && strlen(words[1]) == AUDIT_HASH &&
	       str_copy(h->at.last, sizeof(h->at.last), words[1]) &&
	       str_parse_u64(words[0], UINT64_MAX, &h->at.rows) &&
	       str_parse_u64(words[2], UINT64_MAX, &h->segment) &&
	       str_parse_u64(words[3], INT64_MAX, &h->bytes);
}

int audit_head_read(int log_fd, struct audit_head *ret)
{
	autofree char *text = NULL;
	size_t len;
	int r = fd_read_file(log_fd, AUDIT_HEAD, 256, &text, &len);

	*ret = (struct audit_head){.segment = 1};
	if (r < 0)
		return r == -EFBIG ? -EBADMSG : r;
	if (len == 0)
		return 0;
	return strlen(text) == len && parse_head(text, ret) && ret->at.rows && ret->segment
		       ? 0
		       : -EBADMSG;
}

int audit_segments_find(int log_fd, struct audit_segments *ret)
{
	DIR *dir = dir_stream(log_fd);
	struct dirent *d;
	uint64_t n;
	int r = dir ? 0 : -errno;

	*ret = (struct audit_segments){0};
	while (dir && (errno = 0, d = readdir(dir))) {
		if (d->d_name[0] == '0' || !str_parse_u64(d->d_name, UINT64_MAX - 1, &n))
			continue;
		if (!ret->first || n < ret->first)
			ret->first = n;
		if (n > ret->last)
			ret->last = n;
	}
	if (r == 0 && errno != 0)
		r = -errno;
	if (dir)
		closedir(dir);
	return r;
}

void audit_segment_name(uint64_t segment, char ret[24])
{
	snprintf(ret, 24, "%" PRIu64, segment);
}

/* ---- rows ---- */

int audit_reader_open(struct audit_reader *r, int log_fd, uint64_t segment, uint64_t from)
{
	char name[24];

	*r = (struct audit_reader){.at = from};
	buf_init(&r->in, AUDIT_ROW_MAX + (64 << 10));
	audit_segment_name(segment, name);
	r->fd = openat(log_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return r->fd < 0 ? -errno : 0;
}

void audit_reader_close(struct audit_reader *r)
{
	fd_close(&r->fd);
	buf_done(&r->in);
	free(r->line);
	r->line = NULL;
}

static int hand_out(struct audit_reader *r, size_t len)
{
	if (len + 1 > r->line_cap) {
		char *grown = realloc(r->line, len + 1);

		if (!grown)
			return -ENOMEM;
		r->line = grown;
		r->line_cap = len + 1;
	}
	memcpy(r->line, buf_data(&r->in), len);
	r->line[len] = 0;
	r->line_len = len;
	r->line_at = r->at;
	r->taken = len + 1;
	return 1;
}

int audit_reader_next(struct audit_reader *r)
{
	const uint8_t *end;
	uint8_t *room;
	ssize_t n;

	buf_consume(&r->in, r->taken);
	r->at += r->taken;
	r->taken = 0;
	while (!(end = buf_len(&r->in) ? memchr(buf_data(&r->in), '\n', buf_len(&r->in)) : NULL)) {
		if (buf_len(&r->in) > AUDIT_ROW_MAX)
			return -EBADMSG;
		room = buf_reserve(&r->in, 32 << 10);
		if (!room)
			return -ENOMEM;
		n = pread(r->fd, room, 32 << 10, (off_t)(r->at + buf_len(&r->in)));
		if (n <= 0)
			return n < 0 ? -errno : 0;
		buf_commit(&r->in, (size_t)n);
	}
	return hand_out(r, (size_t)(end - buf_data(&r->in)));
}

bool audit_reader_has_rest(const struct audit_reader *r)
{
	return buf_len(&r->in) > 0;
}

int audit_segment_first(int log_fd, uint64_t segment, struct audit_line *ret, char **ret_line)
{
	struct audit_reader reader;
	int r = audit_reader_open(&reader, log_fd, segment, 0);

	*ret_line = NULL;
	if (r == 0)
		r = audit_reader_next(&reader);
	if (r > 0)
		r = audit_row_parse(ret, reader.line, reader.line_len);
	else if (r == 0)
		r = -EBADMSG;
	if (r == 0)
		*ret_line = take_ptr(reader.line);
	audit_reader_close(&reader);
	return r;
}

int audit_dropped(int log_fd, const char *name, const struct audit_segments *segments,
		  struct audit_chain *ret_at, uint64_t *ret_first)
{
	autofree char *line = NULL;
	struct audit_line row;
	int r;

	*ret_at = (struct audit_chain){0};
	*ret_first = 1;
	audit_first_hash(name, ret_at->last);
	if (segments->last <= 1)
		return 0;
	r = audit_segment_first(log_fd, segments->last, &row, &line);
	/* Begun and not yet written: then it has dropped nothing. */
	if (r == -EBADMSG && segments->last > 2)
		r = audit_segment_first(log_fd, segments->last - 1, &row, &line);
	else if (r == -EBADMSG)
		return 0;
	if (r < 0)
		return r;
	if (strcmp(row.row.kind, AUDIT_SEGMENT) != 0)
		return -EBADMSG;
	if (row.row.status <= 1)
		return 0;
	if (!row.row.reason || strlen(row.row.reason) != AUDIT_HASH)
		return -EBADMSG;
	*ret_first = row.row.status;
	ret_at->rows = row.row.about;
	memcpy(ret_at->last, row.row.reason, sizeof(ret_at->last));
	return 0;
}
