/*
 * Audit logs. Any bytes as a segment: how many of them there are yet changes nothing about the rows
 * before, and none is shown that the chain does not hold. Any text as a row: what is understood
 * comes back the same from the disk.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "store/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Rows of the chain in the first n bytes, read through a descriptor as a log is. */
static uint64_t count_rows(int dir_fd, int fd, size_t n, char last[AUDIT_HASH + 1])
{
	struct audit_chain at = {0};
	struct audit_reader reader;
	struct audit_line line;
	int r;

	MUST(ftruncate(fd, (off_t)n) == 0);
	audit_first_hash("box.7", at.last);
	r = audit_reader_open(&reader, dir_fd, 1, 0);
	MUST(r == 0);
	while ((r = audit_reader_next(&reader)) > 0) {
		MUST(reader.line_at + reader.line_len < n);
		if (audit_row_parse(&line, reader.line, reader.line_len) < 0 ||
		    !audit_chain_add(&at, &line))
			break;
		MUST(line.row.seq == at.rows && line.row.kind);
	}
	MUST(r >= 0 || r == -EBADMSG);
	audit_reader_close(&reader);
	memcpy(last, at.last, sizeof(at.last));
	return at.rows;
}

static size_t count_lines(const uint8_t *p, size_t n)
{
	size_t lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return lines;
}

static char dir_path[] = "/tmp/cove-fuzz-XXXXXX";

static void dir_remove(void)
{
	rmdir(dir_path);
}

/* One for all inputs, empty between them. */
static int dir_once(void)
{
	static int fd = -1;

	if (fd < 0) {
		MUST(mkdtemp(dir_path) && atexit(dir_remove) == 0);
		fd = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return fd;
}

static void check_segment(const uint8_t *p, size_t n)
{
	char whole_hash[AUDIT_HASH + 1], part_hash[AUDIT_HASH + 1];
	uint64_t whole, part, before = 0;
	int dir_fd = dir_once(), fd;

	fd = openat(dir_fd, "1", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	MUST(fd >= 0 && pwrite(fd, p, n, 0) == (ssize_t)n);
	whole = count_rows(dir_fd, fd, n, whole_hash);
	MUST(whole <= count_lines(p, n));
	for (size_t cut = 0; cut <= n; cut += 1 + n / 16) {
		MUST(pwrite(fd, p, n, 0) == (ssize_t)n);
		part = count_rows(dir_fd, fd, cut, part_hash);
		MUST(part >= before && part <= whole && part <= count_lines(p, cut));
		before = part;
		if (count_lines(p, cut) == count_lines(p, n))
			MUST(part == whole && strcmp(part_hash, whole_hash) == 0);
	}
	close(fd);
	unlinkat(dir_fd, "1", 0);
}

/* What one process says to another, or a box had a say in. */
static void check_row(char *text)
{
	char first[AUDIT_HASH + 1], last[AUDIT_HASH + 1];
	struct audit_line line;
	struct audit_row row;
	struct buf a, b;
	char *copy;

	if (audit_row_unpack(&row, text) < 0)
		return;
	row.seq = 1;
	audit_first_hash("box.7", first);
	memcpy(last, first, sizeof(last));
	buf_init(&a, AUDIT_ROW_MAX);
	buf_init(&b, AUDIT_ROW_MAX);
	MUST(audit_row_format(&a, &row, last) == 0);
	MUST(memchr(buf_data(&a), '\n', buf_len(&a)) == buf_data(&a) + buf_len(&a) - 1);
	copy = strndup((const char *)buf_data(&a), buf_len(&a) - 1);
	MUST(copy && audit_row_parse(&line, copy, buf_len(&a) - 1) == 0);
	MUST(strcmp(line.prev, first) == 0 && strcmp(line.hash, last) == 0);
	memcpy(last, first, sizeof(last));
	MUST(audit_row_format(&b, &line.row, last) == 0);
	MUST(buf_len(&a) == buf_len(&b) && memcmp(buf_data(&a), buf_data(&b), buf_len(&a)) == 0);
	free(copy);
	buf_done(&a);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = input_text(&(struct input){p, n});

	check_segment(p, n);
	check_row(text);
	free(text);
	return 0;
}
