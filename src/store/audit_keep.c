/* Deleting audit logs of boxes that are gone, by hand and by age; see audit.h. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "store/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP_FILE  "keep"
#define SWEPT_FILE "swept" /* its time is that of the last look for old logs */

/* As audit_read gives them; what cannot be read counts for nothing. */
static uint64_t count_shown(int log_fd, const struct audit_segments *segments)
{
	struct audit_line row;
	uint64_t count = 0;

	for (uint64_t n = segments->first; n > 0 && n <= segments->last; n++) {
		struct audit_reader reader;
		int r = audit_reader_open(&reader, log_fd, n, 0);

		while (r == 0 && audit_reader_next(&reader) > 0)
			if (audit_row_parse(&row, reader.line, reader.line_len) == 0 &&
			    strcmp(row.row.kind, "done") != 0 &&
			    strcmp(row.row.kind, AUDIT_SEGMENT) != 0)
				count++;
		audit_reader_close(&reader);
		if (r < 0)
			break;
	}
	return count;
}

static int remove_files(int logs_fd, int log_fd, const char *name)
{
	static const char *const others[] = {AUDIT_HEAD, AUDIT_HEAD_NEW};
	struct audit_segments segments;
	char segment[24];
	int r;

	while ((r = audit_segments_find(log_fd, &segments)) == 0 && segments.first) {
		audit_segment_name(segments.first, segment);
		if (unlinkat(log_fd, segment, 0) < 0)
			return -errno;
	}
	for (size_t i = 0; i < 2 && r == 0; i++)
		if (unlinkat(log_fd, others[i], 0) < 0 && errno != ENOENT)
			r = -errno;
	if (r == 0 && (unlinkat(logs_fd, name, AT_REMOVEDIR) < 0 || fsync(logs_fd) < 0))
		r = -errno;
	return r;
}

struct deleting {
	struct state *st;
	int logs_fd;
	const char *box; /* NULL: all that are old */
	uint64_t before_ms;
	const char *by;
	uint64_t rows, logs;
	struct err *e;
};

static int delete_log(struct deleting *d, int log_fd, const char *name)
{
	struct audit_row row = {.kind = "deleted", .host = name, .by = d->by};
	struct audit_segments segments;
	struct audit_head head;
	uint64_t shown;
	int r = audit_segments_find(log_fd, &segments);

	if (r < 0)
		return err_errno(d->e, -r, "delete the audit log %s", name);
	shown = count_shown(log_fd, &segments);
	if (audit_head_read(log_fd, &head) == 0 && head.at.rows) {
		row.about = head.at.rows;
		row.reason = head.at.last;
	}
	r = audit_list_add(d->st, &row, d->e);
	if (r < 0)
		return r;
	r = remove_files(d->logs_fd, log_fd, name);
	if (r < 0)
		return err_errno(d->e, -r, "delete the audit log %s", name);
	d->rows += shown;
	return 0;
}

static int consider(void *arg, const char *name)
{
	struct deleting *d = arg;
	autoclose int fd = -1;
	struct stat s;

	d->logs++;
	if (!d->box && (fstatat(d->logs_fd, name, &s, AT_SYMLINK_NOFOLLOW) < 0 ||
			(uint64_t)s.st_mtim.tv_sec * 1000 >= d->before_ms))
		return 0;
	if (audit_box_is_there(d->st, name))
		return d->box ? err_set(d->e, ERR_CONFLICT, EBUSY,
					"box '%s' is there: its audit log goes when it is gone",
					d->box)
			      : 0;
	fd = audit_log_open(d->logs_fd, name);
	/* A door that is not at its end yet holds the lock. */
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	return delete_log(d, fd, name);
}

int audit_delete(struct state *st, const char *box, uint64_t before_ms, const char *by,
		 uint64_t *ret_rows, struct err *e)
{
	autoclose int logs = audit_logs_open(st, false, e);
	struct err own = {0};
	struct deleting d = {
		.st = st, .logs_fd = logs, .box = box, .before_ms = before_ms, .by = by, .e = &own};
	int r;

	*ret_rows = 0;
	if (logs < 0 && logs != -ENOENT)
		return logs;
	r = logs < 0 ? 0 : audit_logs_each(logs, box, consider, &d);
	if (r < 0 && own.kind == ERR_NONE)
		err_errno(&own, -r, "list the audit logs");
	if (r < 0 && e)
		*e = own;
	*ret_rows = d.rows;
	return r < 0 ? r : audit_check_known(st, box, d.logs, e);
}

int audit_keep(struct state *st, uint64_t *ret_ms, struct err *e)
{
	autoclose int dir = audit_dir_open(st, false, e);
	autofree char *text = NULL;
	size_t len;
	int r = dir < 0 ? dir : fd_read_file(dir, KEEP_FILE, 64, &text, &len);

	*ret_ms = 0;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_errno(e, -r, "read how long audit logs are kept");
	text[strcspn(text, "\n")] = 0;
	if (!str_parse_u64(text, UINT64_MAX, ret_ms))
		return err_set(e, ERR_INTERNAL, EBADMSG,
			       "audit/" KEEP_FILE
			       " is damaged: say again how long with `cove audit keep`");
	return 0;
}

static int sweep(struct state *st, uint64_t keep_ms, struct err *e)
{
	uint64_t now = clock_wall_ms(), rows;

	return keep_ms == 0 || keep_ms >= now
		       ? 0
		       : audit_delete(st, NULL, now - keep_ms, "its age", &rows, e);
}

int audit_set_keep(struct state *st, uint64_t ms, struct err *e)
{
	autoclose int dir = audit_dir_open(st, true, e);
	char text[32];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", ms);
	int r = dir < 0 ? dir : fd_write_file(dir, KEEP_FILE, text, (size_t)n, 0600, true);

	if (r < 0)
		return dir < 0 ? r : err_errno(e, -r, "keep audit logs so long");
	return sweep(st, ms, e);
}

int audit_sweep(struct state *st, struct err *e)
{
	uint64_t keep_ms, swept_ms, now = clock_wall_ms();
	autoclose int dir = -1, swept = -1;
	struct stat s;
	int r = audit_keep(st, &keep_ms, e);

	if (r < 0 || keep_ms == 0)
		return r;
	dir = audit_dir_open(st, false, e);
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	if (fstatat(dir, SWEPT_FILE, &s, AT_SYMLINK_NOFOLLOW) == 0) {
		swept_ms = (uint64_t)s.st_mtim.tv_sec * 1000;
		if (swept_ms <= now && now - swept_ms < AUDIT_SWEEP_MS)
			return 0;
	}
	swept = openat(dir, SWEPT_FILE, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (swept < 0 || futimens(swept, NULL) < 0)
		return err_errno(e, errno, "note when old audit logs were looked for");
	return sweep(st, keep_ms, e);
}
