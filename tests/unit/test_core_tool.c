/* Reading, editing, searching and watching against a box that lies, and against an old one. */
#include "core_peer.h"
#include "tap.h"

#include "base/limits.h"

/* An answer: the frames in the bytes of the stream, and how it ends. */
struct script {
	struct buf stream;
	size_t cut; /* of each DATA frame */
	int error;  /* the answer is ERROR with this code, not OK */
	bool hang;  /* there is no answer */
	bool half;  /* without the last byte */
};

static void play(struct peer *p, void *arg)
{
	struct script *s = arg;
	size_t n = buf_len(&s->stream) - s->half;
	uint32_t id;

	peer_flush(p); /* HELLO */
	id = peer_expect(p, WIRE_FILE).id;

	for (size_t at = 0; at < n; at += s->cut)
		peer_data(p, id, WIRE_STDOUT, buf_data(&s->stream) + at,
			  n - at < s->cut ? n - at : s->cut);
	if (!s->hang)
		peer_send(p, WIRE_EOF, WIRE_STDOUT, id);
	if (s->error)
		peer_error(p, id, s->error, "no");
	else if (!s->hang)
		peer_send(p, WIRE_OK, 0, id);
	peer_flush(p);
	peer_expect(p, WIRE_SAY); /* never comes: waits for the end */
}

static struct script script_begin(void)
{
	struct script s = {.cut = 7};

	buf_init(&s.stream, 4u << 20);
	return s;
}

static void add_match(struct script *s, const struct wire_match *m)
{
	CHECK_EQ(wire_match_encode(&s->stream, 0, 0, m), 0);
}

static void add_entry(struct script *s, const struct wire_entry *m)
{
	CHECK_EQ(wire_entry_encode(&s->stream, 0, 0, m), 0);
}

static void add_summary(struct script *s, const struct wire_summary *m)
{
	CHECK_EQ(wire_summary_encode(&s->stream, 0, 0, m), 0);
}

static int matches;

static int count_match(void *arg, const struct cove_match *m)
{
	const int *stop = arg;

	matches++;
	CHECK(m->text && m->path);
	return stop && matches == *stop;
}

static int count_name(void *arg, const struct cove_file_info *m)
{
	matches++;
	CHECK(m->name != NULL);
	return 0;
}

static int grep(struct script *s, struct cove_found *ret, struct cove_error *err)
{
	struct cove_grep_options o = {
		.size = sizeof(o), .on_match = count_match, .max_count = 2, .context = 1};
	struct cove_box *box = peer_box_of_today(play, s);
	int r;

	matches = 0;
	r = cove_grep(box, "/x", "p", &o, ret, err);
	cove_box_free(box);
	buf_done(&s->stream);
	return r;
}

static int glob(struct script *s, struct cove_found *ret, struct cove_error *err)
{
	struct cove_glob_options o = {.size = sizeof(o), .on_match = count_name, .max_count = 2};
	struct cove_box *box = peer_box_of_today(play, s);
	int r;

	matches = 0;
	r = cove_glob(box, "/x", "p", &o, ret, err);
	cove_box_free(box);
	buf_done(&s->stream);
	return r;
}

TEST(a_search_as_it_should_be)
{
	struct script s = script_begin();
	struct cove_found found;
	struct cove_error err;

	add_match(&s, &(struct wire_match){.path = "a/b", .line = 1, .text = "x"});
	add_match(&s, &(struct wire_match){.line = 2, .is_context = 1});
	/* One of a newer init's. */
	CHECK_EQ(wire_encode(&s.stream, WIRE_TYPE_COUNT, 0, 0, "?", 1), 0);
	add_summary(&s, &(struct wire_summary){.truncated = TRUNCATED_COUNT, .left_out = 3});
	CHECK_EQ(grep(&s, &found, &err), 0);
	CHECK_EQ(matches, 2);
	CHECK_EQ(found.count, 1);
	CHECK_EQ(found.left_out, 3);
	CHECK_STR(found.truncated, "count");
}

static int grep_of(const struct wire_match *m, size_t count, enum cove_error_kind *ret)
{
	struct script s = script_begin();
	struct cove_error err = {0};
	struct cove_found found;
	int r;

	for (size_t i = 0; i < count; i++)
		add_match(&s, m);
	add_summary(&s, &(struct wire_summary){0});
	r = grep(&s, &found, &err);
	*ret = err.kind;
	return r;
}

TEST(lines_that_cannot_be)
{
	static char text[INIT_LINE_MAX + 2], path[BOX_PATH_MAX + 2];
	enum cove_error_kind kind;

	CHECK_EQ(grep_of(&(struct wire_match){.line = 1}, 2, &kind), 0);
	CHECK(grep_of(&(struct wire_match){.line = 1}, 3, &kind) < 0);
	CHECK_EQ(kind, COVE_PROTOCOL);
	CHECK_EQ(grep_of(&(struct wire_match){.line = 1, .is_context = 1}, 4, &kind), 0);
	CHECK(grep_of(&(struct wire_match){.line = 1, .is_context = 1}, 5, &kind) < 0);
	CHECK_EQ(kind, COVE_PROTOCOL);
	CHECK(grep_of(&(struct wire_match){.path = "a"}, 1, &kind) < 0);
	CHECK_EQ(kind, COVE_PROTOCOL);
	CHECK(grep_of(&(struct wire_match){.path = "../a", .line = 1}, 1, &kind) < 0);
	CHECK_EQ(kind, COVE_PROTOCOL);
	CHECK(grep_of(&(struct wire_match){.path = "/a", .line = 1}, 1, &kind) < 0);
	CHECK_EQ(kind, COVE_PROTOCOL);
	memset(text, 'a', sizeof(text) - 1);
	memset(path, 'a', sizeof(path) - 1);
	CHECK(grep_of(&(struct wire_match){.text = text, .line = 1}, 1, &kind) < 0);
	CHECK_EQ(kind, COVE_PROTOCOL);
	CHECK(grep_of(&(struct wire_match){.path = path, .line = 1}, 1, &kind) < 0);
	CHECK_EQ(kind, COVE_PROTOCOL);
}

TEST(names_that_cannot_be)
{
	static const char *const bad[] = {"", "/etc", "a/../b", "..", "a//b", NULL};
	struct cove_error err;

	for (size_t i = 0; i < 6; i++) {
		struct script s = script_begin();

		add_entry(&s, &(struct wire_entry){.type = 'f', .path = bad[i]});
		add_summary(&s, &(struct wire_summary){0});
		/* The directory itself is a path like another. */
		CHECK_EQ(glob(&s, NULL, &err) < 0, i > 0);
		CHECK(i == 0 || err.kind == COVE_PROTOCOL);
		CHECK_EQ(matches, i == 0);
	}
}

TEST(an_answer_that_stops)
{
	struct script s = script_begin();
	struct cove_found found;
	struct cove_error err;

	add_match(&s, &(struct wire_match){.line = 1});
	CHECK(grep(&s, &found, &err) < 0);
	CHECK_EQ(err.kind, COVE_PROTOCOL);
	s = script_begin();
	add_summary(&s, &(struct wire_summary){.count = 1});
	s.half = true;
	CHECK(grep(&s, &found, &err) < 0);
	CHECK_EQ(err.kind, COVE_PROTOCOL);
	s = script_begin();
	add_summary(&s, &(struct wire_summary){0});
	add_summary(&s, &(struct wire_summary){0});
	CHECK(grep(&s, &found, &err) < 0);
	CHECK_EQ(err.kind, COVE_PROTOCOL);
	s = script_begin();
	CHECK_EQ(buf_append(&s.stream, "\377\377\377\377garbage that is no frame", 28), 0);
	CHECK(grep(&s, &found, &err) < 0);
	CHECK_EQ(err.kind, COVE_PROTOCOL);
}

/* What came before the time was over is as good as ever. */
TEST(a_search_whose_time_was_over)
{
	struct script s = script_begin();
	struct cove_found found;
	struct cove_error err;

	add_match(&s, &(struct wire_match){.line = 1});
	s.error = ETIMEDOUT;
	CHECK_EQ(grep(&s, &found, &err), 0);
	CHECK_EQ(found.count, 1);
	CHECK_STR(found.truncated, "time");
	s = script_begin();
	s.error = EACCES;
	CHECK_EQ(grep(&s, &found, &err), -EACCES);
}

TEST(a_caller_that_has_enough)
{
	struct cove_grep_options o = {
		.size = sizeof(o), .on_match = count_match, .arg = &(int){1}, .max_count = 9};
	struct script s = script_begin();
	struct cove_found found;
	struct cove_error err;
	struct cove_box *box;

	add_match(&s, &(struct wire_match){.line = 1});
	add_match(&s, &(struct wire_match){.line = 2});
	s.hang = true;
	box = peer_box_of_today(play, &s);
	matches = 0;
	CHECK_EQ(cove_grep(box, "/x", "p", &o, &found, &err), 0);
	CHECK_EQ(matches, 1);
	cove_box_free(box);
	buf_done(&s.stream);
}

TEST(a_caller_that_gives_up)
{
	struct cove_grep_options o = {.size = sizeof(o)};
	struct cove_watch_options w = {.size = sizeof(w)};
	struct script s = script_begin();
	struct cove_found found;
	struct cove_error err;
	struct cove_box *box;
	int fds[2];

	s.hang = true;
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	o.cancel_fd = w.stop_fd = fds[0];
	box = peer_box_of_today(play, &s);
	CHECK_EQ(cove_grep(box, "/x", "p", &o, &found, &err), -ECANCELED);
	CHECK_EQ(err.kind, COVE_INTERRUPTED);
	cove_box_free(box);
	box = peer_box_of_today(play, &s);
	CHECK_EQ(cove_watch(box, "/x", &w, &err), 0);
	cove_box_free(box);
	buf_done(&s.stream);
	close(fds[0]);
	close(fds[1]);
}

static int read_of(const struct wire_summary *m, const char *text, struct cove_lines *ret)
{
	struct cove_read_options o = {.size = sizeof(o), .max_bytes = 8};
	struct script s = script_begin();
	struct cove_error err;
	struct cove_box *box;
	int r;

	CHECK_EQ(wire_encode(&s.stream, WIRE_DATA, 0, 0, text, strlen(text)), 0);
	add_summary(&s, m);
	box = peer_box_of_today(play, &s);
	r = cove_read_lines(box, "/x", &o, ret, &err);
	CHECK(r == 0 || err.kind == COVE_PROTOCOL);
	cove_box_free(box);
	buf_done(&s.stream);
	return r;
}

TEST(lines_as_they_should_be_and_not)
{
	struct cove_lines l;

	CHECK_EQ(read_of(&(struct wire_summary){.first = 2, .last = 3, .total = 3, .at_end = 1},
			 "a\nb", &l),
		 0);
	CHECK_STR(l.text, "a\nb");
	CHECK(l.at_end && l.total_lines == 3);
	cove_lines_done(&l);
	CHECK_EQ(read_of(&(struct wire_summary){.total = WIRE_UNKNOWN}, "", &l), 0);
	CHECK(l.total_lines == COVE_UNKNOWN);
	cove_lines_done(&l);
	CHECK(read_of(&(struct wire_summary){.first = 1, .last = 1, .total = 1}, "123456789", &l) <
	      0);
	CHECK(read_of(&(struct wire_summary){.first = 3, .last = 2, .total = 9}, "a", &l) < 0);
	CHECK(read_of(&(struct wire_summary){.first = 1, .last = 3, .total = 2}, "a", &l) < 0);
	CHECK(read_of(&(struct wire_summary){.total = 2}, "a", &l) < 0);
}

TEST(an_edit_that_cannot_be)
{
	const struct cove_edit one = {.old_text = "a", .new_text = "b"};
	struct cove_edit_options o = {.size = sizeof(o), .edits = &one, .count = 1};
	struct cove_edited edited;
	struct cove_error err;
	struct cove_box *box;
	struct script s = script_begin();

	add_summary(&s, &(struct wire_summary){.count = 1, .sha256 = "xyz"});
	box = peer_box_of_today(play, &s);
	CHECK_EQ(cove_edit(box, "/x", &o, &edited, &err), -EPROTO);
	cove_box_free(box);
	buf_done(&s.stream);
}

TEST(edits_that_are_refused_here)
{
	static char huge[INIT_EDITS_BYTES + 1];
	struct cove_edit edits[INIT_EDITS_MAX + 1];
	struct cove_edit_options o = {.size = sizeof(o), .edits = edits};
	struct script s = script_begin();
	struct cove_box *box = peer_box_of_today(play, &s);
	struct cove_error err;

	for (size_t i = 0; i <= INIT_EDITS_MAX; i++)
		edits[i] = (struct cove_edit){.old_text = "a", .new_text = "b"};
	CHECK_EQ(cove_edit(box, "/x", &o, NULL, &err), -EINVAL);
	o.count = INIT_EDITS_MAX + 1;
	CHECK_EQ(cove_edit(box, "/x", &o, NULL, &err), -EINVAL);
	o.count = 1;
	edits[0].new_text = "a";
	CHECK_EQ(cove_edit(box, "/x", &o, NULL, &err), -EINVAL);
	edits[0].old_text = "";
	CHECK_EQ(cove_edit(box, "/x", &o, NULL, &err), -EINVAL);
	memset(huge, 'a', sizeof(huge) - 1);
	edits[0].old_text = huge;
	CHECK_EQ(cove_edit(box, "/x", &o, NULL, &err), -E2BIG);
	CHECK_EQ(err.kind, COVE_LIMIT);
	o.size = 0;
	CHECK_EQ(cove_edit(box, "/x", &o, NULL, &err), -EINVAL);
	CHECK_EQ(cove_glob(box, "/x", "", NULL, NULL, &err), -EINVAL);
	CHECK_EQ(cove_grep(box, "/x", NULL, NULL, NULL, &err), -EINVAL);
	cove_box_free(box);
	buf_done(&s.stream);
}

static enum cove_watch_kind seen[8];
static int seen_count;

static int on_event(void *arg, const struct cove_watch_event *e)
{
	seen[seen_count++] = e->kind;
	CHECK((e->kind == COVE_WATCH_RENAMED) == (e->to != NULL));
	return 0;
}

static int watch_of(const struct wire_change *m, size_t count, struct cove_error *err)
{
	struct cove_watch_options o = {.size = sizeof(o), .on_event = on_event};
	struct script s = script_begin();
	struct cove_box *box;
	int r;

	for (size_t i = 0; i < count; i++)
		CHECK_EQ(wire_change_encode(&s.stream, 0, 0, &m[i]), 0);
	s.error = ENOENT;
	seen_count = 0;
	box = peer_box_of_today(play, &s);
	r = cove_watch(box, "/x", &o, err);
	cove_box_free(box);
	buf_done(&s.stream);
	return r;
}

/* stdin, which can be read, is not what stops a watch that names no descriptor. */
TEST(changes)
{
	const struct wire_change good[] = {{.kind = CHANGE_READY},
					   {.kind = CHANGE_RENAMED, .path = "a", .to = "b"},
					   {.kind = CHANGE_KIND_COUNT}, /* of a newer init */
					   {.kind = CHANGE_LOST}};
	struct cove_error err;
	int fds[2];

	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
	CHECK_EQ(watch_of(good, 4, &err), -ENOENT);
	CHECK_EQ(seen_count, 3);
	CHECK(seen[0] == COVE_WATCH_READY && seen[1] == COVE_WATCH_RENAMED &&
	      seen[2] == COVE_WATCH_LOST);
	CHECK_EQ(watch_of(&(struct wire_change){.kind = CHANGE_CREATED, .path = "/a"}, 1, &err),
		 -EPROTO);
	CHECK_EQ(watch_of(&(struct wire_change){.kind = CHANGE_RENAMED, .path = "a", .to = ".."}, 1,
			  &err),
		 -EPROTO);
	CHECK_EQ(watch_of(&(struct wire_change){.path = "a"}, 1, &err), -EPROTO);
	CHECK_EQ(seen_count, 0);
}

static void say_nothing(struct peer *p, void *arg)
{
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(a_box_of_an_older_cove)
{
	struct cove_box *box = peer_box(say_nothing, NULL);
	struct cove_found found;
	struct cove_error err;
	struct cove_lines l;

	CHECK(cove_glob(box, "/x", "p", NULL, &found, &err) < 0);
	CHECK_EQ(err.kind, COVE_UNSUPPORTED);
	CHECK(strstr(err.message, "cove stop") != NULL);
	/* And once more over the same connection. */
	CHECK(cove_read_lines(box, "/x", NULL, &l, &err) < 0);
	CHECK_EQ(err.kind, COVE_UNSUPPORTED);
	cove_box_free(box);
}

TAP_MAIN
