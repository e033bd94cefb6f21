/* Audit logs of many segments: the chain goes on, the oldest are dropped and it shows as that, and
 * whatever else was done to a segment shows too. */
#include "store_home.h"
#include "tap.h"

#include "base/limits.h"
#include "store/audit.h"

#include <dirent.h>
#include <sys/stat.h>

enum { SEGMENT_BYTES = 600, SEGMENTS = 3 };

static struct state st;
static struct err e;
static struct audit_writer w;

static void open_log(void)
{
	CHECK_EQ(audit_open(&w, &st, "box", 7, &e), 0);
	w.segment_bytes_max = SEGMENT_BYTES;
	w.segments_max = SEGMENTS;
}

static void append(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct audit_row row = {.kind = "connect", .host = "a.test", .verdict = "allow"};

		CHECK_EQ(audit_append(&w, &row, &e), 0);
	}
}

static void close_log(void)
{
	CHECK_EQ(audit_sync(&w, &e), 0);
	audit_close(&w);
}

static struct audit_report report;

static int verify(void)
{
	return audit_verify(&st, NULL, &report, &e);
}

struct seen {
	unsigned rows, done;
	uint64_t dropped;
	bool dropped_first;
};

static int on_row(void *arg, const char *box, const struct audit_row *row)
{
	struct seen *s = arg;

	CHECK(strcmp(row->kind, "segment") != 0);
	if (strcmp(row->kind, "dropped") == 0) {
		s->dropped += row->count;
		s->dropped_first = s->rows == 0;
		return 0;
	}
	s->rows++;
	s->done += row->bytes_down == 5;
	return 0;
}

static struct seen read_all(void)
{
	struct audit_filter f = {.box = "box"};
	struct seen s = {0};

	CHECK_EQ(audit_read(&st, &f, on_row, &s, &e), 0);
	return s;
}

static int log_dir(void)
{
	int fd = openat(st.home_fd, "audit/boxes/box.7", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

TEST(segments_are_one_chain)
{
	uint64_t rows;
	struct seen s;

	home_in_memory();
	home_open(&st);
	open_log();
	append(4);
	CHECK(w.segment > 1 && w.first_segment == 1);
	rows = w.at.rows;
	close_log();
	CHECK_EQ(verify(), 0);
	CHECK_EQ(report.rows, rows);
	CHECK_EQ(report.dropped, 0);
	s = read_all();
	CHECK_EQ(s.rows, 4);
	CHECK_EQ(s.dropped, 0);
	open_log();
	CHECK_EQ(w.at.rows, rows);
	append(1);
	close_log();
	CHECK_EQ(verify(), 0);
	CHECK_EQ(read_all().rows, 5);
}

TEST(the_oldest_are_dropped_and_it_is_said)
{
	struct seen s;

	home_in_memory();
	home_open(&st);
	open_log();
	append(200);
	CHECK_EQ(w.segment - w.first_segment + 1, SEGMENTS);
	close_log();
	CHECK_EQ(verify(), 0);
	CHECK(report.dropped > 100);
	CHECK_EQ(report.rows + report.dropped, w.at.rows);
	CHECK_EQ(report.cut, 0);
	autoclose int dir = log_dir();
	CHECK_EQ(count_names(dir), SEGMENTS + 1);
	s = read_all();
	CHECK(s.dropped_first);
	CHECK_EQ(s.dropped, report.dropped);
	/* Each segment's first row is the log's own. */
	CHECK_EQ(s.rows + SEGMENTS, report.rows);
}

/* What a drop leaves when it is cut short. */
TEST(a_drop_is_finished_later)
{
	autofree char *old = NULL;
	size_t len;
	uint64_t first;

	home_in_memory();
	home_open(&st);
	open_log();
	append(1);
	while (w.first_segment == 1) {
		autoclose int dir = log_dir();

		free(old);
		CHECK_EQ(fd_read_file(dir, "1", 1 << 20, &old, &len), 0);
		append(1);
	}
	first = w.first_segment;
	close_log();
	autoclose int dir = log_dir();
	CHECK_EQ(fd_write_file(dir, "1", old, len, 0600, false), 0);
	CHECK_EQ(verify(), 0);
	open_log();
	CHECK_EQ(w.first_segment, first);
	CHECK_EQ(faccessat(dir, "1", F_OK, 0), -1);
	close_log();
	CHECK_EQ(verify(), 0);
}

TEST(what_became_of_it_may_be_in_a_later_segment)
{
	struct audit_row row = {.kind = "connect", .host = "a.test", .verdict = "allow"};
	struct audit_row done = {.kind = "done", .bytes_down = 5};

	home_in_memory();
	home_open(&st);
	open_log();
	CHECK_EQ(audit_append(&w, &row, &e), 0);
	append(3);
	CHECK(w.segment > 1);
	done.about = row.seq;
	CHECK_EQ(audit_append(&w, &done, &e), 0);
	CHECK_EQ(read_all().done, 1);
	append(100);
	done.about = row.seq; /* dropped since */
	CHECK_EQ(audit_append(&w, &done, &e), 0);
	CHECK_EQ(read_all().done, 0);
	close_log();
}

TEST(following_goes_on_over_segments)
{
	struct audit_filter f = {.box = "box"};
	struct audit_tail *t;
	struct seen s = {0};

	home_in_memory();
	home_open(&st);
	CHECK_EQ(mkdirat(st.boxes_fd, "box", 0700), 0);
	open_log();
	append(1);
	CHECK_EQ(audit_tail_new(&t, &st, &f, &e), 0);
	for (unsigned i = 0; i < 40; i++) {
		CHECK_EQ(audit_tail_read(t, on_row, &s, &e), 0);
		CHECK_EQ(s.rows, i + 1);
		append(1);
	}
	CHECK(w.first_segment > 1);
	CHECK_EQ(audit_tail_read(t, on_row, &s, &e), 0);
	CHECK_EQ(s.dropped, 0);
	/* Who looks too late hears that there was more. */
	append(100);
	CHECK_EQ(audit_tail_read(t, on_row, &s, &e), 0);
	CHECK(s.dropped > 0);
	audit_tail_free(t);
	close_log();
}

/* ---- what somebody did ---- */

struct file {
	char name[24];
	char *text; /* owned */
	size_t len;
};

static struct file files[SEGMENTS + 2];
static unsigned file_count;

/* All files of the log: its head and its segments, oldest first. */
static void load_files(int dir)
{
	file_count = 0;
	for (uint64_t i = w.first_segment; i <= w.segment + 1; i++) {
		struct file *f = &files[file_count++];

		if (i > w.segment)
			snprintf(f->name, sizeof(f->name), "head");
		else
			snprintf(f->name, sizeof(f->name), "%llu", (unsigned long long)i);
		CHECK_EQ(fd_read_file(dir, f->name, 1 << 20, &f->text, &f->len), 0);
	}
}

static void put_file(int dir, const char *name, const char *text, size_t len)
{
	CHECK_EQ(fd_write_file(dir, name, text, len, 0600, false), 0);
}

static int set_up(unsigned rows)
{
	int dir;

	home_in_memory();
	home_open(&st);
	open_log();
	append(rows);
	close_log();
	CHECK_EQ(verify(), 0);
	dir = log_dir();
	load_files(dir);
	return dir;
}

TEST(every_changed_byte_of_every_file_shows)
{
	autoclose int dir = set_up(30);

	CHECK(w.first_segment > 1);
	for (unsigned i = 0; i < file_count; i++) {
		struct file *f = &files[i];

		/* In the open file: one write each, not a new file. */
		autoclose int fd = openat(dir, f->name, O_WRONLY | O_CLOEXEC);

		for (size_t at = 0; at < f->len; at++) {
			char changed = (char)(f->text[at] ^ 1);

			CHECK_EQ(pwrite(fd, &changed, 1, (off_t)at), 1);
			if (verify() != -EBADMSG)
				FAIL(f->name);
			CHECK_EQ(pwrite(fd, f->text + at, 1, (off_t)at), 1);
		}
	}
	CHECK_EQ(verify(), 0);
}

/* A whole number of rows less at the end of any file, and bytes too. */
TEST(every_file_that_is_cut_shows)
{
	autoclose int dir = set_up(30);

	for (unsigned i = 0; i < file_count; i++) {
		struct file *f = &files[i];

		for (size_t len = f->len - 1; len > 1; len -= len < 8 ? 1 : 7) {
			autoclose int fd = openat(dir, f->name, O_WRONLY | O_CLOEXEC);

			CHECK_EQ(ftruncate(fd, (off_t)len), 0);
			if (verify() != -EBADMSG)
				FAIL(f->name);
		}
		put_file(dir, f->name, f->text, f->len);
	}
	CHECK_EQ(verify(), 0);
}

TEST(a_segment_that_is_removed_replaced_or_swapped_shows)
{
	autoclose int dir = set_up(30);

	for (unsigned i = 0; i < file_count; i++) {
		CHECK_EQ(unlinkat(dir, files[i].name, 0), 0);
		CHECK_EQ(verify(), -EBADMSG);
		for (unsigned k = 0; k < file_count; k++) {
			put_file(dir, files[i].name, files[k].text, files[k].len);
			CHECK_EQ(verify(), k == i ? 0 : -EBADMSG);
		}
		put_file(dir, files[i].name, files[i].text, files[i].len);
	}
	/* Of a log that nobody lists a head is expected all the same. */
	CHECK_EQ(renameat(st.home_fd, "audit/list", st.home_fd, "list"), 0);
	CHECK_EQ(renameat(dir, "head", st.home_fd, "head"), 0);
	CHECK_EQ(verify(), -EBADMSG);
	CHECK_EQ(renameat(st.home_fd, "head", dir, "head"), 0);
	CHECK_EQ(renameat(st.home_fd, "list", st.home_fd, "audit/list"), 0);
	put_file(dir, "1", files[0].text, files[0].len);
	CHECK_EQ(verify(), 0); /* dropped: what is still there of that says nothing */
	put_file(dir, "999999999999", files[0].text, files[0].len);
	CHECK_EQ(verify(), -EBADMSG);
}

static bool has_two_rows(const struct file *f, const char **ret_second)
{
	const char *end = strchr(f->text, '\n');

	*ret_second = end + 1;
	return end && strchr(end + 1, '\n');
}

TEST(rows_that_are_removed_or_swapped_show)
{
	autoclose int dir = set_up(30);

	for (unsigned i = 0; i + 1 < file_count; i++) {
		const struct file *f = &files[i];
		const char *second, *third;
		char *other = malloc(f->len);
		size_t one, two;

		CHECK(has_two_rows(f, &second));
		third = strchr(second, '\n') + 1;
		one = (size_t)(second - f->text);
		two = (size_t)(third - second);
		put_file(dir, f->name, second, f->len - one);
		CHECK_EQ(verify(), -EBADMSG);
		memcpy(other, second, two);
		memcpy(other + two, f->text, one);
		memcpy(other + one + two, third, f->len - one - two);
		put_file(dir, f->name, other, f->len);
		CHECK_EQ(verify(), -EBADMSG);
		put_file(dir, f->name, f->text, f->len);
		free(other);
	}
	CHECK_EQ(verify(), 0);
}

/* Whatever was done, a box keeps its door, and what was done is not covered up by it. */
TEST(a_damaged_log_is_gone_on_with_and_stays_damaged)
{
	autoclose int dir = set_up(30);
	uint64_t segment = w.segment, first = w.first_segment;

	for (unsigned i = 0; i < file_count; i++)
		for (unsigned how = 0; how < 3; how++) {
			char extra[24];

			put_file(dir, files[i].name, files[i].text,
				 how == 0 ? files[i].len / 2 : files[i].len);
			if (how == 1)
				CHECK_EQ(unlinkat(dir, files[i].name, 0), 0);
			if (how == 2)
				put_file(dir, files[i].name, "x\n", 2);
			open_log();
			append(1);
			close_log();
			CHECK_EQ(verify(), -EBADMSG);
			CHECK(read_all().rows > 0);
			snprintf(extra, sizeof(extra), "%llu", (unsigned long long)segment + 1);
			(void)unlinkat(dir, extra, 0);
			for (unsigned k = 0; k < file_count; k++)
				put_file(dir, files[k].name, files[k].text, files[k].len);
			CHECK_EQ(verify(), 0);
		}
	CHECK(first > 1);
}

TAP_MAIN
