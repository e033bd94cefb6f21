/* Compressed streams: read whole, damage noticed, bounded, and by a process that can do nothing. */
#include "oci/expand.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct err why;
static const char *const programs[] = {"cat", "gzip -c", "xz -c", "zstd -qc", "bzip2 -c"};

/* What a shell line prints, in a memory file. */
static int made_by(const char *line)
{
	FILE *in = popen(line, "re");
	int fd = sys_memfd_create("x", 0);
	char block[65536];
	size_t n;

	CHECK(in && fd >= 0);
	while ((n = fread(block, 1, sizeof(block), in)) > 0)
		CHECK_EQ(fd_write_full(fd, block, n), 0);
	CHECK_EQ(pclose(in), 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static int read_all(int fd, const struct expand_how *how, struct buf *ret)
{
	struct expand x;
	ssize_t n;
	int r;

	why = (struct err){0};
	r = expand_open(fd, how, &x, &why);
	if (r < 0)
		return r;
	r = expand_peek(&x, 100, &why);
	do {
		uint8_t *at = buf_reserve(ret, 65536);

		CHECK(at != NULL);
		n = expand_read(&x, at, 65536);
		if (n > 0)
			buf_commit(ret, (size_t)n);
	} while (n > 0);
	return expand_close(&x, r, &why);
}

static bool has_program(const char *line)
{
	char test[100];

	snprintf(test, sizeof(test), "echo | %s >/dev/null 2>&1", line);
	return system(test) == 0;
}

TEST(every_kind_comes_out_as_it_went_in)
{
	struct expand_how how = {0};
	struct buf b;

	for (size_t i = 0; i < 5; i++) {
		char line[100];
		int fd;

		if (!has_program(programs[i]))
			continue;
		snprintf(line, sizeof(line), "seq 300000 | %s", programs[i]);
		fd = made_by(line);
		buf_init(&b, 64 << 20);
		if (read_all(fd, &how, &b) < 0)
			FAIL(why.msg);
		CHECK_EQ(buf_len(&b), 1988895);
		CHECK(memcmp(buf_data(&b), "1\n2\n", 4) == 0);
		CHECK(memcmp(buf_data(&b) + buf_len(&b) - 7, "300000\n", 7) == 0);
		buf_done(&b);
		close(fd);
		/* Nothing in it at all: libarchive calls that damaged. */
		if (i > 1)
			continue;
		snprintf(line, sizeof(line), "%s </dev/null", programs[i]);
		fd = made_by(line);
		buf_init(&b, 1 << 20);
		CHECK_EQ(read_all(fd, &how, &b), 0);
		CHECK_EQ(buf_len(&b), 0);
		buf_done(&b);
		close(fd);
	}
}

TEST(a_gzip_of_several_parts_and_with_zeros_behind)
{
	struct expand_how how = {0};
	struct buf b;
	int fd = made_by("(echo a | gzip -c; echo b | gzip -c; head -c 3000 /dev/zero)");

	buf_init(&b, 1 << 20);
	CHECK_EQ(read_all(fd, &how, &b), 0);
	CHECK_EQ(buf_len(&b), 4);
	CHECK(memcmp(buf_data(&b), "a\nb\n", 4) == 0);
	buf_done(&b);
	close(fd);
}

TEST(damage_is_noticed)
{
	struct expand_how how = {0};
	struct stat st;
	struct buf b;

	for (size_t i = 1; i < 5; i++) {
		char line[100], byte;
		int fd;

		if (!has_program(programs[i]))
			continue;
		snprintf(line, sizeof(line), "seq 30000 | %s", programs[i]);
		/* Cut, and one bit in its last third. */
		for (int kind = 0; kind < 2; kind++) {
			fd = made_by(line);
			CHECK(fstat(fd, &st) == 0);
			if (kind == 0) {
				CHECK(ftruncate(fd, st.st_size - 20) == 0);
			} else {
				CHECK(pread(fd, &byte, 1, st.st_size * 2 / 3) == 1);
				byte ^= 0x10;
				CHECK(pwrite(fd, &byte, 1, st.st_size * 2 / 3) == 1);
			}
			buf_init(&b, 64 << 20);
			CHECK_EQ(read_all(fd, &how, &b), -EBADMSG);
			CHECK_EQ(why.kind, ERR_INVALID);
			buf_done(&b);
			close(fd);
		}
	}
}

TEST(what_comes_out_is_bounded)
{
	struct expand_how how = {.bytes_max = 1000};
	struct buf b;
	int fd = made_by("seq 10000 | gzip -c");

	buf_init(&b, 1 << 20);
	CHECK_EQ(read_all(fd, &how, &b), -EFBIG);
	CHECK_EQ(why.kind, ERR_LIMIT);
	CHECK(strstr(why.msg, "--max-size") != NULL);
	CHECK(buf_len(&b) <= 1000);
	buf_done(&b);
	close(fd);
}

TEST(a_bomb_is_noticed)
{
	struct expand_how how = {0}, told = {.any_ratio = true, .bytes_max = 3ull << 29};
	struct expand x;
	static char block[1 << 20];
	uint64_t bytes = 0;
	ssize_t n;
	int fd, r;

	/* A gigabyte and a half of zeros, gzipped twice over by hand: one part again and again. */
	fd = made_by(
		"f=$(mktemp); head -c 67108864 /dev/zero | gzip -1c >$f; "
		"for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat $f; done; "
		"rm $f");
	CHECK_EQ(expand_open(fd, &how, &x, &why), 0);
	while ((n = expand_read(&x, block, sizeof(block))) > 0)
		bytes += (uint64_t)n;
	r = expand_close(&x, 0, &why);
	CHECK_EQ(r, -EFBIG);
	CHECK_EQ(why.kind, ERR_LIMIT);
	CHECK(bytes <= (EXPAND_FREE_MAX + (1 << 20)));
	/* Who says how much it may be gets it. */
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK_EQ(expand_open(fd, &told, &x, &why), 0);
	bytes = 0;
	while ((n = expand_read(&x, block, sizeof(block))) > 0)
		bytes += (uint64_t)n;
	CHECK_EQ(expand_close(&x, 0, &why), 0);
	CHECK_EQ(bytes, 20ull << 26);
	close(fd);
}

TEST(a_reader_that_stops_is_not_kept_waiting)
{
	struct expand_how how = {0};
	struct expand x;
	char byte;
	int ends[2], fd = made_by("seq 10 | gzip -c");
	struct stat st;
	char bytes[200];

	/* The writer stays and sends no end. */
	CHECK(fstat(fd, &st) == 0 && st.st_size < 200 && pread(fd, bytes, 200, 0) == st.st_size);
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK_EQ(fd_write_full(ends[1], bytes, (size_t)st.st_size - 10), 0);
	CHECK_EQ(expand_open(ends[0], &how, &x, &why), 0);
	CHECK_EQ(expand_read(&x, &byte, 1), 1);
	CHECK_EQ(expand_close(&x, -EINVAL, &why), -EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}
