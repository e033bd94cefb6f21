/* The audit log: rows come back as they were, and whatever was done to them shows. */
#include "store_home.h"
#include "tap.h"

#include "base/limits.h"
#include "store/audit.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct state st;
static struct err e;

static void write_rows(const char *box, unsigned count)
{
	struct audit_writer w;

	CHECK_EQ(audit_open(&w, &st, box, 7, &e), 0);
	for (unsigned i = 0; i < count; i++) {
		struct audit_row row = {.kind = "connect",
					.time_ms = 1000 + 10 * i,
					.host = "api.test",
					.port = 443,
					.verdict = i % 2 ? "deny" : "allow"};

		CHECK_EQ(audit_append(&w, &row, &e), 0);
	}
	CHECK_EQ(audit_sync(&w, &e), 0);
	audit_close(&w);
}

static int verify_box(const char *box, uint64_t *ret_rows)
{
	struct audit_report report;
	int r = audit_verify(&st, box, &report, &e);

	*ret_rows = report.rows;
	return r;
}

static int verify(uint64_t *ret_rows)
{
	return verify_box(NULL, ret_rows);
}

static int log_dir(const char *name)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "audit/boxes/%s", name);
	fd = openat(st.home_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static char *file_text(const char *name, size_t *ret_len)
{
	autoclose int dir = log_dir(name);
	static char *text; /* static: of a local one GCC 12 believes that it may point to itself */
	int r = fd_read_file(dir, "1", 1 << 20, &text, ret_len);

	CHECK_EQ(r, 0);
	return text;
}

static void file_put(const char *name, const char *text, size_t len)
{
	autoclose int dir = log_dir(name);

	CHECK_EQ(fd_write_file(dir, "1", text, len, 0600, false), 0);
}

struct seen {
	unsigned count;
	uint64_t last_ms;
	struct audit_row row;
	char host[64], path[64], box[64], first_verdict[16], first_reason[64];
};

static int on_row(void *arg, const char *box, const struct audit_row *row)
{
	struct seen *s = arg;

	CHECK(row->time_ms >= s->last_ms);
	s->last_ms = row->time_ms;
	if (s->count++ == 0) {
		snprintf(s->first_verdict, sizeof(s->first_verdict), "%s",
			 row->verdict ? row->verdict : "");
		snprintf(s->first_reason, sizeof(s->first_reason), "%s",
			 row->reason ? row->reason : "");
	}
	s->row = *row;
	snprintf(s->box, sizeof(s->box), "%s", box);
	snprintf(s->host, sizeof(s->host), "%s", row->host ? row->host : "");
	snprintf(s->path, sizeof(s->path), "%s", row->path ? row->path : "");
	return 0;
}

static struct seen read_all(const char *box, bool denied)
{
	struct audit_filter f = {.box = box, .denied_only = denied};
	struct seen s = {0};

	CHECK_EQ(audit_read(&st, &f, on_row, &s, &e), 0);
	return s;
}

TEST(nothing_was_recorded)
{
	uint64_t rows;

	home_open(&st);
	CHECK_EQ(read_all(NULL, false).count, 0);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 0);
}

TEST(rows_come_back_in_order_of_time)
{
	uint64_t rows;

	home_open(&st);
	write_rows("one", 10);
	write_rows("two", 4);
	CHECK_EQ(read_all(NULL, false).count, 14);
	CHECK_EQ(read_all("two", false).count, 4);
	CHECK_EQ(read_all("one", true).count, 5);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 14);
}

TEST(any_bytes_in_a_text_stay_in_it)
{
	struct audit_row row = {.kind = "request", .path = "/a\tb\nhash=\\x41\x1b\xff", .host = ""};
	struct audit_writer w;
	struct seen s;
	uint64_t rows;

	home_open(&st);
	CHECK_EQ(audit_open(&w, &st, "box", 1, &e), 0);
	CHECK_EQ(audit_append(&w, &row, &e), 0);
	CHECK_EQ(audit_sync(&w, &e), 0);
	audit_close(&w);
	s = read_all("box", false);
	CHECK_EQ(s.count, 1);
	CHECK_STR(s.path, row.path);
	CHECK_EQ(verify(&rows), 0);
}

TEST(a_long_text_is_cut)
{
	static char huge[200000];
	struct audit_row row = {.kind = "request", .path = huge, .host = huge, .reason = huge};
	struct audit_writer w;

	home_open(&st);
	memset(huge, 0xff, sizeof(huge) - 1);
	CHECK_EQ(audit_open(&w, &st, "box", 1, &e), 0);
	CHECK_EQ(audit_append(&w, &row, &e), 0);
	audit_close(&w);
	CHECK_EQ(audit_open(&w, &st, "box", 1, &e), 0);
	CHECK_EQ(w.at.rows, 1);
	audit_close(&w);
}

TEST(what_became_of_it_comes_with_it)
{
	struct audit_row row = {.kind = "connect", .host = "a.test", .verdict = "allow"};
	struct audit_row done = {.kind = "done", .bytes_up = 5, .bytes_down = 6, .duration_ms = 7};
	struct audit_writer w;
	struct seen s;

	home_open(&st);
	CHECK_EQ(audit_open(&w, &st, "box", 1, &e), 0);
	CHECK_EQ(audit_append(&w, &row, &e), 0);
	done.about = row.seq;
	CHECK_EQ(audit_append(&w, &done, &e), 0);
	audit_close(&w);
	s = read_all("box", false);
	CHECK_EQ(s.count, 1);
	CHECK_EQ(s.row.bytes_down, 6);
	CHECK_EQ(s.row.duration_ms, 7);
}

TEST(what_was_cut_is_shown_as_cut_and_with_what_was_refused)
{
	struct audit_row rows[] = {
		{.kind = "connect", .host = "a.test", .verdict = "allow", .reason = "a person"},
		{.kind = "connect", .host = "b.test", .verdict = "allow"},
		{.kind = "grant", .host = "c.test", .verdict = "deny", .by = "somebody"},
		{.kind = "done", .about = 1, .verdict = "cut", .reason = "no more"},
		{.kind = "done", .about = 2, .verdict = "ok"},
		{.kind = "connect", .host = "d.test", .verdict = "deny", .count = 12},
	};
	struct audit_writer w;
	struct seen s;

	home_open(&st);
	CHECK_EQ(audit_open(&w, &st, "box", 1, &e), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rows[i].time_ms = 100 + i;
		CHECK_EQ(audit_append(&w, &rows[i], &e), 0);
	}
	audit_close(&w);
	CHECK_EQ(read_all("box", false).count, 4);
	s = read_all("box", true);
	CHECK_EQ(s.count, 2);
	CHECK_STR(s.host, "d.test");
	CHECK_EQ(s.row.count, 12);
	CHECK_STR(s.first_verdict, "cut");
	CHECK_STR(s.first_reason, "no more");
}

TEST(a_note_without_a_door_is_a_row_as_any_other)
{
	struct audit_row row = {.kind = "grant", .host = "a.test", .verdict = "allow", .by = "me"};
	uint64_t rows;

	home_open(&st);
	CHECK_EQ(audit_note(&st, "box", 7, &row, &e), 0);
	write_rows("box", 2);
	CHECK_EQ(audit_note(&st, "box", 7, &row, &e), 0);
	CHECK_EQ(row.seq, 4);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 4);
}

static void make_box(const char *name)
{
	CHECK_EQ(state_make(&st, &e), 0);
	CHECK_EQ(mkdirat(st.boxes_fd, name, 0700), 0);
}

static int ignore_row(void *arg, const char *box, const struct audit_row *row)
{
	return 0;
}

TEST(a_box_that_never_was_has_no_record)
{
	struct audit_filter f = {.box = "none"};
	struct audit_tail *t;
	uint64_t rows;

	home_open(&st);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(audit_read(&st, &f, ignore_row, NULL, &e), -ENOENT);
		CHECK_EQ(verify_box("none", &rows), -ENOENT);
		CHECK_EQ(audit_tail_new(&t, &st, &f, &e), -ENOENT);
		write_rows("one", 1);
	}
	make_box("none");
	CHECK_EQ(audit_read(&st, &f, ignore_row, NULL, &e), 0);
	CHECK_EQ(verify_box("none", &rows), 0);
}

/* The whole directory, not only a file of it. */
TEST(a_box_knows_that_it_had_a_record)
{
	struct audit_writer w;
	uint64_t rows;

	home_open(&st);
	make_box("box");
	write_rows("box", 2);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(renameat(st.home_fd, "audit", st.home_fd, "elsewhere"), 0);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK_EQ(verify_box("box", &rows), -EBADMSG);
	CHECK(strstr(e.msg, "had a door"));
	CHECK_EQ(audit_open(&w, &st, "box", 7, &e), 0);
	audit_close(&w);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK(strstr(e.msg, "removed"));
}

TEST(a_changed_byte_shows)
{
	uint64_t rows;
	size_t len;
	char *text;

	home_in_memory();
	home_open(&st);
	write_rows("box", 5);
	text = file_text("box.7", &len);
	/* Every byte of the file, one at a time. */
	for (size_t i = 0; i < len; i++) {
		text[i] ^= 1;
		file_put("box.7", text, len);
		CHECK(verify(&rows) < 0);
		text[i] ^= 1;
	}
	file_put("box.7", text, len);
	CHECK_EQ(verify(&rows), 0);
	free(text);
}

TEST(a_removed_row_shows_wherever_it_was)
{
	uint64_t rows;
	size_t len;
	char *text, *without, *begin, *end;

	home_open(&st);
	write_rows("box", 4);
	text = file_text("box.7", &len);
	for (begin = text; *begin; begin = end) {
		size_t at = (size_t)(begin - text), cut;

		end = strchr(begin, '\n') + 1;
		cut = (size_t)(end - begin);
		without = malloc(len);
		memcpy(without, text, at);
		memcpy(without + at, end, len - at - cut);
		file_put("box.7", without, len - cut);
		CHECK(verify(&rows) < 0);
		free(without);
	}
	free(text);
}

TEST(a_row_twice_or_moved_shows)
{
	uint64_t rows;
	size_t len, first;
	char *text, *other;

	home_open(&st);
	write_rows("box", 3);
	text = file_text("box.7", &len);
	first = (size_t)(strchr(text, '\n') - text) + 1;
	other = malloc(len + first);
	memcpy(other, text, first);
	memcpy(other + first, text, len);
	file_put("box.7", other, len + first);
	CHECK(verify(&rows) < 0);
	memcpy(other, text + first, len - first);
	memcpy(other + len - first, text, first);
	file_put("box.7", other, len);
	CHECK(verify(&rows) < 0);
	free(other);
	free(text);
}

TEST(a_file_that_goes_or_comes_shows)
{
	autoclose int dir = -1;
	uint64_t rows;

	home_open(&st);
	write_rows("one", 2);
	write_rows("two", 2);
	dir = openat(st.home_fd, "audit/boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(renameat(dir, "one.7", dir, "one.8"), 0);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK_EQ(renameat(dir, "one.8", dir, "one.7"), 0);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(renameat(dir, "one.7/head", dir, "away"), 0);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK_EQ(renameat(dir, "away", dir, "one.7/head"), 0);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(renameat(dir, "two.7/1", dir, "away"), 0);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK_EQ(renameat(dir, "two.7", dir, "gone"), 0);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK(strstr(e.msg, "two.7") != NULL);
}

/* Made by the same program elsewhere: right in itself, and not of this place. */
TEST(a_log_that_the_list_does_not_know_shows)
{
	uint64_t rows;

	home_open(&st);
	write_rows("one", 2);
	CHECK_EQ(renameat(st.home_fd, "audit/list", st.home_fd, "list"), 0);
	write_rows("two", 2);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK(strstr(e.msg, "one.7") != NULL);
	CHECK_EQ(verify_box("two", &rows), 0);
}

TEST(a_torn_row_is_cut_off_and_noted)
{
	struct audit_writer w;
	uint64_t rows;
	size_t len;
	char *text;

	home_open(&st);
	write_rows("box", 3);
	text = file_text("box.7", &len);
	/* As kill -9 in the middle of the next write leaves it. */
	text = realloc(text, len + 10);
	memcpy(text + len, "seq=4\tkind", 10);
	file_put("box.7", text, len + 10);
	CHECK_EQ(audit_open(&w, &st, "box", 7, &e), 0);
	CHECK_EQ(w.at.rows, 4);
	CHECK_EQ(audit_sync(&w, &e), 0);
	audit_close(&w);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 4);
	free(text);
}

TEST(rows_that_were_cut_off_before_a_door_began_still_show)
{
	struct audit_writer w;
	uint64_t rows;
	size_t len;
	char *text;

	home_open(&st);
	write_rows("box", 3);
	text = file_text("box.7", &len);
	len = (size_t)(strchr(text, '\n') - text) + 1;
	file_put("box.7", text, len);
	CHECK_EQ(audit_open(&w, &st, "box", 7, &e), 0);
	CHECK_EQ(audit_sync(&w, &e), 0);
	audit_close(&w);
	CHECK_EQ(verify(&rows), -EBADMSG);
	CHECK(strstr(e.msg, "row 2") != NULL);
	free(text);
}

TEST(deleting_on_purpose_is_remembered)
{
	uint64_t rows;

	home_open(&st);
	write_rows("gone", 3);
	write_rows("here", 3);
	CHECK_EQ(mkdirat(st.boxes_fd, "here", 0700), 0);
	CHECK_EQ(audit_delete(&st, "here", 0, "test", &rows, &e), -EBUSY);
	CHECK_EQ(audit_delete(&st, "none", 0, "test", &rows, &e), -ENOENT);
	CHECK_EQ(audit_delete(&st, "gone", 0, "test", &rows, &e), 0);
	CHECK_EQ(rows, 3);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 3);
	CHECK_EQ(audit_delete(&st, NULL, UINT64_MAX, "test", &rows, &e), 0);
	CHECK_EQ(rows, 0);
}

TEST(what_is_too_old_goes_when_a_door_begins)
{
	struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	uint64_t rows, keep_ms;

	home_open(&st);
	write_rows("gone", 3);
	CHECK_EQ(audit_keep(&st, &keep_ms, &e), 0);
	CHECK_EQ(keep_ms, 0);
	CHECK_EQ(audit_set_keep(&st, 3600000, &e), 0);
	CHECK_EQ(audit_keep(&st, &keep_ms, &e), 0);
	CHECK_EQ(keep_ms, 3600000);
	write_rows("new", 1);
	CHECK_EQ(read_all("gone", false).count, 3);
	CHECK_EQ(utimensat(st.home_fd, "audit/boxes/gone.7", old, 0), 0);
	write_rows("new", 1); /* somebody looked a moment ago */
	CHECK_EQ(read_all("gone", false).count, 3);
	CHECK_EQ(utimensat(st.home_fd, "audit/swept", old, 0), 0);
	write_rows("new", 1);
	CHECK_EQ(verify_box("gone", &rows), -ENOENT);
	CHECK_EQ(verify(&rows), 0);
}

TEST(setting_how_long_deletes_what_is_older)
{
	struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	uint64_t rows;

	home_open(&st);
	write_rows("gone", 3);
	write_rows("here", 3);
	CHECK_EQ(mkdirat(st.boxes_fd, "here", 0700), 0);
	CHECK_EQ(utimensat(st.home_fd, "audit/boxes/gone.7", old, 0), 0);
	CHECK_EQ(utimensat(st.home_fd, "audit/boxes/here.7", old, 0), 0);
	CHECK_EQ(audit_set_keep(&st, 3600000, &e), 0);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 3);
}

/* A door must start whatever is wrong with old logs; the log says it. */
TEST(what_cannot_be_swept_is_said_and_stops_nothing)
{
	struct audit_writer w;
	struct seen s;

	home_open(&st);
	write_rows("box", 1);
	autoclose int dir = openat(st.home_fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(fd_write_file(dir, "keep", "x", 1, 0600, false), 0);
	CHECK_EQ(audit_open(&w, &st, "box", 7, &e), 0);
	CHECK_EQ(w.at.rows, 2);
	audit_close(&w);
	s = read_all("box", false);
	CHECK_EQ(s.count, 2);
}

/* Of boxes that are gone there may be any number. */
TEST(many_logs_stop_no_door)
{
	char name[64];
	uint64_t rows;

	home_in_memory();
	home_open(&st);
	write_rows("one", 1);
	for (unsigned i = 0; i <= STATE_NAMES_MAX / 2; i++) {
		snprintf(name, sizeof(name), "audit/boxes/old-%u.7", i);
		CHECK_EQ(mkdirat(st.home_fd, name, 0700), 0);
	}
	CHECK_EQ(audit_set_keep(&st, 3600000, &e), 0);
	write_rows("two", 1);
	CHECK_EQ(read_all("two", false).count, 1);
	CHECK_EQ(verify_box("two", &rows), 0);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 2);
}

TEST(following_gives_each_row_once)
{
	struct audit_filter f = {0};
	struct audit_tail *t;
	struct seen s = {0};
	struct pollfd p;

	home_open(&st);
	CHECK_EQ(audit_tail_new(&t, &st, &f, &e), 0);
	p = (struct pollfd){.fd = audit_tail_fd(t), .events = POLLIN};
	CHECK_EQ(audit_tail_read(t, on_row, &s, &e), 0);
	CHECK_EQ(s.count, 0);
	write_rows("box", 3);
	CHECK_EQ(poll(&p, 1, -1), 1);
	CHECK_EQ(audit_tail_read(t, on_row, &s, &e), 0);
	CHECK_EQ(s.count, 3);
	CHECK_EQ(audit_tail_read(t, on_row, &s, &e), 0);
	CHECK_EQ(s.count, 3);
	audit_tail_free(t);
}

TEST(a_write_that_does_not_fit_leaves_no_half_row)
{
	struct audit_row row = {.kind = "connect", .host = "a.test"};
	struct rlimit limit;
	struct audit_writer w;
	uint64_t rows;

	home_open(&st);
	write_rows("box", 2);
	CHECK_EQ(audit_open(&w, &st, "box", 7, &e), 0);
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = w.bytes + 20; /* a part of the row fits */
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(audit_append(&w, &row, &e), -EFBIG);
	limit.rlim_cur = limit.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	row.seq = 0;
	CHECK_EQ(audit_append(&w, &row, &e), 0);
	CHECK_EQ(audit_sync(&w, &e), 0);
	audit_close(&w);
	CHECK_EQ(verify(&rows), 0);
	CHECK_EQ(rows, 3);
}

TAP_MAIN
