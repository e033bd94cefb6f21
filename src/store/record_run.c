/*
 * The run of a record; see record_run.h.
 *
 * One table of the fields serves writing and reading. A reader who meets a writer finds a wrong
 * sum, and looks again.
 */
#include "store/record_run.h"

#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_TRIES = 8 };

void record_boot_id(char ret[RECORD_BOOT_LEN + 1])
{
	autofree char *text = NULL;
	size_t len;

	ret[0] = 0;
	if (fd_read_plain(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 128, &text, &len) == 0 &&
	    len >= RECORD_BOOT_LEN) {
		memcpy(ret, text, RECORD_BOOT_LEN);
		ret[RECORD_BOOT_LEN] = 0;
	}
}

/* With size 0 a number. What is not known of a run, or is rarely so, has no line. */
static const struct {
	const char *key;
	size_t offset, size;
	uint64_t max;
	bool is_of_end, is_optional;
} fields[] = {
#define TEXT(name, ...)                                                                           \
	{                                                                                         \
#name, offsetof(struct record_run, name), sizeof(((struct record_run *)0)->name), \
			0, __VA_ARGS__                                                            \
	}
#define NUMBER(name, max, ...)                                                \
	{                                                                     \
#name, offsetof(struct record_run, name), 0, max, __VA_ARGS__ \
	}
	NUMBER(pid, INT32_MAX, false, false),
	TEXT(boot, false, true),
	NUMBER(started_ms, UINT64_MAX, false, false),
	NUMBER(init, UINT32_MAX, false, false),
	NUMBER(paused, 1, false, false),
	NUMBER(visit, 1, false, true),
	TEXT(asleep, false, true),
	NUMBER(ttl_ms, UINT64_MAX, false, true),
	NUMBER(idle_ms, UINT64_MAX, false, true),
	NUMBER(ttl_from_ms, UINT64_MAX, false, true),
	NUMBER(before_ms, UINT64_MAX, false, true),
	TEXT(before, false, true),
	NUMBER(on_start, INT32_MAX, false, true),
	TEXT(cause, true, false),
	TEXT(by, true, false),
	NUMBER(ended_ms, UINT64_MAX, true, false),
#undef TEXT
#undef NUMBER
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

int record_run_line(struct record_run *l, const char *key, const char *value)
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

static int parse_run(char text[RECORD_RUN_BYTES + 2], size_t len, struct record_run *ret)
{
	char *end = strstr(text, "\n\n");
	const char *key, *value;
	struct lines lines;
	bool filled;
	int r;

	*ret = (struct record_run){0};
	filled = end && len == RECORD_RUN_BYTES && strspn(end, "\n") == (size_t)(text + len - end);
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
		if (record_run_line(ret, key, value) < 0)
			return -EBADMSG;
	return r < 0 ? r : ret->started_ms || ret->ended_ms ? 1 : -EBADMSG;
}

/* The last bytes of a record have a sum or are empty lines. */
int record_run_parse(const char *block, struct record_run *ret)
{
	char text[RECORD_RUN_BYTES + 2];

	memcpy(text, block, RECORD_RUN_BYTES);
	text[RECORD_RUN_BYTES] = 0;
	if (strspn(text, "\n") == RECORD_RUN_BYTES) {
		*ret = (struct record_run){0};
		return 0;
	}
	return str_starts(text, "sum ") ? parse_run(text, RECORD_RUN_BYTES, ret) : -EBADMSG;
}

off_t record_run_place(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_size >= 2 * RECORD_RUN_BYTES && st.st_size % RECORD_RUN_BYTES == 0
		       ? st.st_size - RECORD_RUN_BYTES
		       : 0;
}

int record_run_read(int fd, struct record_run *ret)
{
	char text[RECORD_RUN_BYTES + 2];
	off_t at = record_run_place(fd);
	int r = at < 0 ? (int)at : -EBADMSG;

	for (int i = 0; i < READ_TRIES && r == -EBADMSG; i++) {
		ssize_t n = pread(fd, text, RECORD_RUN_BYTES + 1, at);

		if (n < 0)
			return -errno;
		text[n] = 0;
		if (at > 0)
			r = n == RECORD_RUN_BYTES ? record_run_parse(text, ret) : -EBADMSG;
		else if (n == 0 || n > RECORD_RUN_BYTES)
			r = n == 0 ? 0 : -EFBIG;
		else
			r = parse_run(text, (size_t)n, ret);
	}
	return r;
}

int record_run_write(int fd, const struct record_run *l, bool durable)
{
	off_t place = record_run_place(fd);
	struct buf b;
	int r;

	if (place < 0)
		return (int)place;
	buf_init(&b, RECORD_RUN_BYTES);
	r = lines_begin_sum(&b);
	for (size_t i = 0; i < FIELD_COUNT && r == 0; i++) {
		const char *at = (const char *)l + fields[i].offset;
		bool is_text = fields[i].size > 0;
		uint64_t number = is_text ? 0 : *(const uint64_t *)(const void *)at;

		if (!(fields[i].is_of_end ? l->ended_ms : l->started_ms) ||
		    (fields[i].is_optional && (is_text ? !*at : !number)))
			continue;
		r = is_text ? lines_put(&b, fields[i].key, at)
			    : lines_put_u64(&b, fields[i].key, number);
	}
	if (r == 0)
		lines_end_sum(&b);
	while (r == 0 && buf_len(&b) < RECORD_RUN_BYTES)
		r = buf_append(&b, "\n", 1);
	if (r == 0) {
		ssize_t n = pwrite(fd, buf_data(&b), RECORD_RUN_BYTES, place);

		r = n == RECORD_RUN_BYTES ? 0 : n < 0 ? -errno : -ENOSPC;
	}
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	buf_done(&b);
	return r;
}
