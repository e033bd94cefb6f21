/* Lines and edits of files, by the real cove-init. */
#include "tap.h"

#include "tool_client.h"

#include "base/limits.h"

#include <sys/stat.h>
#include <sys/xattr.h>

/* ---- read ---- */

static struct tool_answer read_lines(struct client *c, const char *path, uint64_t from,
				     uint64_t count, uint64_t bytes)
{
	return tool_ask(c, &(struct wire_file){.op = FILE_READ,
					       .path = path,
					       .from = from,
					       .count = count,
					       .bytes = bytes});
}

static void check_lines(struct client *c, uint64_t from, uint64_t count, uint64_t bytes,
			const char *text, uint64_t first, uint64_t last, bool at_end)
{
	struct tool_answer a = read_lines(c, "f", from, count, bytes);

	CHECK_EQ(a.code, 0);
	CHECK_STR(buf_cstr(&a.text), text);
	CHECK_EQ(a.s.first, first);
	CHECK_EQ(a.s.last, last);
	CHECK_EQ(a.s.at_end, at_end);
	tool_answer_done(&a);
}

TEST(read_some_lines)
{
	struct client c = tool_start();

	tool_write_text("f", "one\ntwo\r\nthree\nfour");
	check_lines(&c, 0, 0, 0, "one\ntwo\r\nthree\nfour", 1, 4, true);
	check_lines(&c, 2, 2, 0, "two\r\nthree\n", 2, 3, false);
	check_lines(&c, 4, 1, 0, "four", 4, 4, true);
	check_lines(&c, 4, UINT64_MAX, 0, "four", 4, 4, true);
	check_lines(&c, 5, 1, 0, "", 0, 0, true);
	check_lines(&c, UINT64_MAX, UINT64_MAX, 0, "", 0, 0, true);
	check_lines(&c, 1, 3, 9, "one\ntwo\r\n", 1, 2, false);
	check_lines(&c, 1, 3, 8, "one\n", 1, 1, false);
	check_lines(&c, 1, 3, 2, "on", 1, 1, false);
	tool_write_text("f", "one\n");
	check_lines(&c, 1, 1, 0, "one\n", 1, 1, true);
	check_lines(&c, 1, 1, 4, "one\n", 1, 1, true);
	tool_write_text("f", "");
	check_lines(&c, 1, 0, 0, "", 0, 0, true);
	tool_write_text("f", "\n\n");
	check_lines(&c, 2, 9, 0, "\n", 2, 2, true);
	tool_finish(&c);
}

TEST(read_counts_lines)
{
	enum { N = 3 << 20 };
	struct client c = tool_start();
	char *text = malloc(N);
	struct tool_answer a;

	for (size_t i = 0; i < N; i++)
		text[i] = i % 10 == 9 ? '\n' : 'x';
	tool_write("f", text, N);
	a = read_lines(&c, "f", 7, 2, 0);
	CHECK_EQ(a.s.total, (N + 9) / 10);
	CHECK_STR(buf_cstr(&a.text), "xxxxxxxxx\nxxxxxxxxx\n");
	tool_answer_done(&a);
	/* All of it, through credit many times. */
	a = read_lines(&c, "f", 1, UINT64_MAX, INIT_TEXT_MAX);
	CHECK_EQ(buf_len(&a.text), N);
	CHECK_MEM(buf_data(&a.text), text, N);
	CHECK(a.s.at_end && a.s.last == a.s.total);
	tool_answer_done(&a);
	free(text);
	tool_finish(&c);
}

TEST(read_does_not_count_for_ever)
{
	struct client c = tool_start();
	struct tool_answer a;

	tool_write_text("f", "one\n");
	CHECK_EQ(truncate(tool_at("f"), (off_t)INIT_COUNT_BYTES * 4), 0);
	a = tool_ask(&c,
		     &(struct wire_file){.op = FILE_READ, .path = "f", .count = 1, .binary = 1});
	CHECK_EQ(a.code, 0);
	CHECK_STR(buf_cstr(&a.text), "one\n");
	CHECK(a.s.total == WIRE_UNKNOWN && !a.s.at_end);
	tool_answer_done(&a);
	tool_finish(&c);
}

TEST(read_cuts_long_lines)
{
	enum { N = 200000 };
	struct client c = tool_start();
	char *text = malloc(N + 3);
	struct tool_answer a;

	memset(text, 'y', N);
	memcpy(text + N, "\nz", 3);
	tool_write_text("f", text);
	a = read_lines(&c, "f", 1, 0, 0);
	CHECK_EQ(buf_len(&a.text), INIT_LINE_MAX + 2);
	CHECK_EQ(a.s.cut_lines, 1);
	CHECK_EQ(a.s.last, 2);
	tool_answer_done(&a);
	a = tool_ask(&c, &(struct wire_file){.op = FILE_READ, .path = "f", .line_bytes = 3});
	CHECK_STR(buf_cstr(&a.text), "yyy\nz");
	CHECK_EQ(a.s.cut_lines, 1);
	tool_answer_done(&a);
	free(text);
	tool_finish(&c);
}

TEST(read_knows_text_from_other_things)
{
	struct client c = tool_start();
	char edge[INIT_SNIFF_BYTES + 2];
	struct tool_answer a;

	tool_write("f", "a\0b\n", 4);
	a = read_lines(&c, "f", 1, 0, 0);
	CHECK(a.code == 0 && a.s.is_binary && buf_len(&a.text) == 0 && a.s.size == 4);
	tool_answer_done(&a);
	a = tool_ask(&c, &(struct wire_file){.op = FILE_READ, .path = "f", .binary = 1});
	CHECK(a.s.is_binary && buf_len(&a.text) == 4);
	tool_answer_done(&a);
	tool_write_text("f", "caf\xe9\n");
	a = read_lines(&c, "f", 1, 0, 0);
	CHECK(a.s.is_binary);
	tool_answer_done(&a);
	tool_write_text("f", "caf\xc3");
	a = read_lines(&c, "f", 1, 0, 0);
	CHECK(a.s.is_binary);
	tool_answer_done(&a);
	/* A character that the looking cuts in two. */
	memset(edge, 'a', sizeof(edge));
	memcpy(edge + INIT_SNIFF_BYTES - 1, "\xc3\xa4\n", 3);
	tool_write("f", edge, sizeof(edge));
	a = read_lines(&c, "f", 1, 0, 0);
	CHECK(!a.s.is_binary && buf_len(&a.text) == sizeof(edge));
	tool_answer_done(&a);
	tool_finish(&c);
}

TEST(read_of_what_is_no_file)
{
	struct client c = tool_start();
	struct tool_answer a;

	CHECK_EQ(mkfifo(tool_at("fifo"), 0600), 0);
	CHECK_EQ(mkdir(tool_at("d"), 0700), 0);
	CHECK_EQ(symlink("loop", tool_at("loop")), 0);
	CHECK_EQ(symlink("f", tool_at("link")), 0);
	tool_write_text("f", "text\n");
	a = read_lines(&c, "fifo", 1, 0, 0);
	CHECK_EQ(a.code, EINVAL);
	tool_answer_done(&a);
	a = read_lines(&c, "/dev/zero", 1, 0, 0);
	CHECK_EQ(a.code, EINVAL);
	tool_answer_done(&a);
	a = read_lines(&c, "d", 1, 0, 0);
	CHECK_EQ(a.code, EISDIR);
	tool_answer_done(&a);
	a = read_lines(&c, "loop", 1, 0, 0);
	CHECK_EQ(a.code, ELOOP);
	tool_answer_done(&a);
	a = read_lines(&c, "nothing", 1, 0, 0);
	CHECK_EQ(a.code, ENOENT);
	tool_answer_done(&a);
	a = read_lines(&c, "/proc/self/fd/0", 1, 0, 0);
	CHECK_EQ(a.code, ELOOP);
	tool_answer_done(&a);
	a = read_lines(&c, "link", 1, 0, 0);
	CHECK_STR(buf_cstr(&a.text), "text\n");
	tool_answer_done(&a);
	a = read_lines(&c, "/proc/self/status", 1, 1, 0);
	CHECK(a.code == 0 && strncmp(buf_cstr(&a.text), "Name:", 5) == 0);
	tool_answer_done(&a);
	tool_finish(&c);
}

/* ---- edit ---- */

/* "all" or "one", old, new, ... NULL. */
static struct wire_file edit_of(struct buf *b, const char *path, const char *const *words)
{
	buf_init(b, 2 * INIT_EDITS_BYTES);
	for (; *words; words++)
		CHECK_EQ(wire_list_add(b, *words), 0);
	return (struct wire_file){.op = FILE_EDIT, .path = path, .edits = wire_list_of(b)};
}

static struct tool_answer edit(struct client *c, const char *path, const char *const *words)
{
	struct buf b;
	struct wire_file m = edit_of(&b, path, words);
	struct tool_answer a = tool_ask(c, &m);

	buf_done(&b);
	return a;
}

static int edit_code(struct client *c, const char *path, const char *const *words)
{
	struct tool_answer a = edit(c, path, words);

	tool_answer_done(&a);
	return a.code;
}

#define EDIT(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(edit_replaces)
{
	struct client c = tool_start();
	struct tool_answer a;
	struct stat st;

	tool_write_text("f", "a b a\nc\n");
	CHECK_EQ(chmod(tool_at("f"), 0751), 0);
	a = edit(&c, "f", EDIT("one", "c", "C", "all", "a", "aa", "one", "C", ""));
	CHECK_EQ(a.code, 0);
	CHECK_EQ(a.s.count, 4);
	CHECK_EQ(a.s.first, 2);
	CHECK_EQ(a.s.size, 9);
	tool_answer_done(&a);
	tool_check_file("f", "aa b aa\n\n");
	CHECK_EQ(stat(tool_at("f"), &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0751);
	CHECK_EQ(tool_count_names(), 1);
	tool_finish(&c);
}

TEST(edit_is_all_or_nothing)
{
	struct client c = tool_start();

	tool_write_text("f", "a b a\n");
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "b", "B", "one", "x", "y")), ENODATA);
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "b", "B", "one", "a", "y")), ENOTUNIQ);
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "", "y")), EINVAL);
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "b")), EINVAL);
	CHECK_EQ(edit_code(&c, "nothing", EDIT("one", "b", "c")), ENOENT);
	tool_check_file("f", "a b a\n");
	CHECK_EQ(mkfifo(tool_at("fifo"), 0600), 0);
	CHECK_EQ(mkdir(tool_at("d"), 0700), 0);
	CHECK_EQ(edit_code(&c, "fifo", EDIT("one", "b", "c")), EINVAL);
	CHECK_EQ(edit_code(&c, "d", EDIT("one", "b", "c")), EISDIR);
	tool_write("bin", "b\0", 2);
	CHECK_EQ(edit_code(&c, "bin", EDIT("one", "b", "c")), EILSEQ);
	CHECK_EQ(tool_count_names(), 4);
	tool_finish(&c);
}

TEST(edit_keeps_ends_of_lines)
{
	struct client c = tool_start();

	tool_write_text("f", "a\r\nb\r\nc\r\n");
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "a\nb", "x\ny\nz")), 0);
	tool_check_file("f", "x\r\ny\r\nz\r\nc\r\n");
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "c", "c\nd")), 0);
	tool_check_file("f", "x\r\ny\r\nz\r\nc\r\nd\r\n");
	/* Who says the carriage return means it. */
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "x\r\ny", "x\ny")), 0);
	tool_check_file("f", "x\ny\r\nz\r\nc\r\nd\r\n");
	tool_write_text("f", "a\nb\nc\n");
	CHECK_EQ(edit_code(&c, "f", EDIT("one", "a\r\nb", "x\r\ny")), 0);
	tool_check_file("f", "x\ny\nc\n");
	tool_finish(&c);
}

TEST(edit_only_what_was_read)
{
	struct client c = tool_start();
	struct buf b;
	struct wire_file m;
	struct tool_answer a;
	struct stat st;

	tool_write_text("f", "abc");
	m = edit_of(&b, "f", EDIT("one", "b", "B"));
	m.if_sha256 = "0000";
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, ESTALE);
	tool_answer_done(&a);
	m.if_sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	CHECK_EQ(stat(tool_at("f"), &st), 0);
	m.if_mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
	m.if_size = 4;
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, ESTALE);
	tool_answer_done(&a);
	m.if_size = 3;
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, 0);
	tool_answer_done(&a);
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, ESTALE);
	tool_answer_done(&a);
	tool_check_file("f", "aBc");
	buf_done(&b);
	tool_finish(&c);
}

TEST(edit_through_a_link_and_of_one_name)
{
	struct client c = tool_start();
	struct stat st;

	tool_write_text("f", "abc");
	CHECK_EQ(symlink("f", tool_at("link")), 0);
	CHECK_EQ(link(tool_at("f"), tool_at("other")), 0);
	if (setxattr(tool_at("f"), "user.cove", "kept", 4, 0) < 0)
		CHECK(errno == ENOTSUP);
	CHECK_EQ(edit_code(&c, "link", EDIT("one", "b", "B")), 0);
	tool_check_file("f", "aBc");
	tool_check_file("other", "abc");
	CHECK_EQ(lstat(tool_at("link"), &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	if (getxattr(tool_at("other"), "user.cove", NULL, 0) == 4)
		CHECK_EQ(getxattr(tool_at("f"), "user.cove", NULL, 0), 4);
	tool_finish(&c);
}

TEST(edit_bounds)
{
	struct client c = tool_start();
	char *huge = malloc(INIT_EDIT_FILE + 2), *text = malloc(1 << 19);

	memset(huge, 'a', INIT_EDIT_FILE + 1);
	tool_write("f", huge, INIT_EDIT_FILE + 1);
	CHECK_EQ(edit_code(&c, "f", EDIT("all", "a", "b")), EFBIG);
	tool_write("f", huge, INIT_EDIT_FILE);
	CHECK_EQ(edit_code(&c, "f", EDIT("all", "a", "bb")), EFBIG);
	memset(text, 'x', 1 << 19);
	text[(1 << 19) - 1] = '\0';
	tool_write("f", huge, 100);
	CHECK_EQ(edit_code(&c, "f", EDIT("all", "a", text)), EFBIG);
	CHECK_EQ(edit_code(&c, "f", EDIT("all", "a", "")), 0);
	tool_check_file("f", "");
	CHECK_EQ(tool_count_names(), 1);
	free(huge);
	free(text);
	tool_finish(&c);
}

TAP_MAIN
