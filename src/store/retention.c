/* Rules for snapshots; see retention.h. */
#include "store/retention.h"

#include "base/fd.h"
#include "base/limits_snapshot.h"
#include "base/lines.h"
#include "base/str.h"
#include "store/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RULE_BYTES_MAX = 4096 };

static int read_rule(int dir_fd, const char *file, struct retention *ret)
{
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r;

	*ret = (struct retention){0};
	r = fd_read_file(dir_fd, file, RULE_BYTES_MAX, &text, &len);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (lines_check_sum(text, len) <= 0)
		return -EBADMSG;
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while ((r = lines_next(&lines, &key, &value)) > 0) {
		uint64_t max = UINT64_MAX, *at = NULL;

		if (strcmp(key, "keep") == 0) {
			at = &ret->keep;
			max = SNAPSHOT_KEEP_MAX;
		} else if (strcmp(key, "max_age_ms") == 0) {
			at = &ret->max_age_ms;
		}
		if (!at || !str_parse_u64(value, max, at))
			return -EBADMSG;
	}
	return r;
}

static int remove_rule(int dir_fd, const char *file)
{
	if (unlinkat(dir_fd, file, 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	return fsync(dir_fd) < 0 ? -errno : 0;
}

static int write_rule(int dir_fd, const char *file, const struct retention *rule)
{
	struct buf b;
	int r;

	if (retention_is_none(rule))
		return remove_rule(dir_fd, file);
	buf_init(&b, RULE_BYTES_MAX);
	r = lines_begin_sum(&b);
	if (r == 0)
		r = lines_put_u64(&b, "keep", rule->keep);
	if (r == 0)
		r = lines_put_u64(&b, "max_age_ms", rule->max_age_ms);
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(dir_fd, file, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r;
}

int retention_read_box(int box_fd, struct retention *ret)
{
	return read_rule(box_fd, RETENTION_FILE, ret);
}

int retention_write_box(int box_fd, const struct retention *rule)
{
	return write_rule(box_fd, RETENTION_FILE, rule);
}

int retention_read_image(const struct state *s, const char *image, struct retention *ret)
{
	autoclose int dir_fd = fd_open_below(s->home_fd, RETENTION_DIR, false);
	char file[IMAGE_NAME_MAX + 1];

	*ret = (struct retention){0};
	if (dir_fd < 0)
		return dir_fd == -ENOENT ? 0 : dir_fd;
	image_file_name(image, file);
	return read_rule(dir_fd, file, ret);
}

int retention_write_image(const struct state *s, const char *image, const struct retention *rule)
{
	bool is_none = retention_is_none(rule);
	autoclose int dir_fd = fd_open_below(s->home_fd, RETENTION_DIR, !is_none);
	char file[IMAGE_NAME_MAX + 1];

	if (dir_fd < 0)
		return is_none && dir_fd == -ENOENT ? 0 : dir_fd;
	if (!is_none && fsync(s->home_fd) < 0)
		return -errno;
	image_file_name(image, file);
	return write_rule(dir_fd, file, rule);
}
