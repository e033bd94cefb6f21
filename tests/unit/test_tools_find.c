/* Searches by the real cove-init, and how they are ended. */
#include "tap.h"

#include "tool_client.h"

#include "base/fd.h"
#include "base/limits.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- glob ---- */

static void make_tree(void)
{
	static const char *const dirs[] = {"a", "a/b", ".git", "deep", "deep/er"};
	static const char *const files[] = {"a/x.c",	"a/b/y.c",     "a.c",
					    ".git/z.c", "deep/er/w.h", "deep/.hid.c"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		CHECK_EQ(mkdir(tool_at(dirs[i]), 0755), 0);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		tool_write_text(files[i], "needle\n");
	CHECK_EQ(symlink("/etc", tool_at("deep/out")), 0);
	CHECK_EQ(symlink("../a.c", tool_at("deep/in.c")), 0);
	CHECK_EQ(symlink("nowhere", tool_at("deep/broken.c")), 0);
	CHECK_EQ(mkfifo(tool_at("deep/fifo.c"), 0600), 0);
}

static void check_glob(struct client *c, const char *pattern, bool any, const char *lines)
{
	struct tool_answer a = tool_ask(
		c, &(struct wire_file){
			   .op = FILE_GLOB, .path = ".", .pattern = pattern, .any_type = any});

	CHECK_EQ(a.code, 0);
	CHECK_STR(a.lines, lines);
	CHECK_EQ(a.s.truncated, TRUNCATED_NOT);
	tool_answer_done(&a);
}

TEST(glob_finds)
{
	struct client c = tool_start();

	make_tree();
	/* By the bytes of the whole path. */
	check_glob(&c, "*.c", false, "f a.c\nf a/b/y.c\nf a/x.c\nl deep/in.c -> ../a.c\n");
	check_glob(&c, "deep/**", true,
		   "d deep\nl deep/broken.c -> nowhere\nd deep/er\nf deep/er/w.h\n"
		   "o deep/fifo.c\nl deep/in.c -> ../a.c\nl deep/out -> /etc\n");
	check_glob(&c, ".git/*", false, "f .git/z.c\n");
	check_glob(&c, "**/.*.c", false, "f deep/.hid.c\n");
	check_glob(&c, "{a,deep/er}/*", false, "f a/x.c\nf deep/er/w.h\n");
	check_glob(&c, "deep/out/*", false, "");
	tool_finish(&c);
}

TEST(glob_bounds)
{
	struct client c = tool_start();
	struct wire_file m = {.op = FILE_GLOB, .path = ".", .pattern = "*.c", .count = 2};
	struct tool_answer a;

	make_tree();
	a = tool_ask(&c, &m);
	CHECK_STR(a.lines, "f a.c\nf a/b/y.c\n");
	CHECK_EQ(a.s.truncated, TRUNCATED_COUNT);
	tool_answer_done(&a);
	m.count = 4;
	a = tool_ask(&c, &m);
	CHECK_EQ(a.s.truncated, TRUNCATED_NOT);
	tool_answer_done(&a);
	m.pattern = "../*";
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, EINVAL);
	tool_answer_done(&a);
	m.pattern = NULL;
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, EINVAL);
	tool_answer_done(&a);
	m.pattern = "*";
	m.path = "a.c";
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, ENOTDIR);
	tool_answer_done(&a);
	tool_finish(&c);
}

TEST(glob_unusual_names_and_depth)
{
	static const char *const names[] = {"new\nline", "\xff\xfe", " ", "-", "a\"b", "[x]", "\\"};
	struct client c = tool_start();
	char path[2 * INIT_DEPTH_MAX + 16] = "";
	struct tool_answer a;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		tool_write_text(names[i], "");
	check_glob(&c, "*", false, "f  \nf -\nf [x]\nf \\\nf a\"b\nf new\nline\nf \xff\xfe\n");
	check_glob(&c, "new\n*", false, "f new\nline\n");
	check_glob(&c, "\\[x]", false, "f [x]\n");
	for (unsigned i = 0; i < INIT_DEPTH_MAX + 5; i++) {
		strcat(path, i ? "/d" : "d");
		CHECK_EQ(mkdir(tool_at(path), 0755), 0);
	}
	a = tool_ask(&c, &(struct wire_file){
				 .op = FILE_GLOB, .path = ".", .pattern = "d", .any_type = 1});
	CHECK_EQ(a.code, 0);
	CHECK_EQ(a.s.count, INIT_DEPTH_MAX);
	CHECK_EQ(a.s.left_out, 1);
	tool_answer_done(&a);
	tool_finish(&c);
}

/* ---- grep ---- */

static void check_grep(struct client *c, const struct wire_file *how, const char *lines)
{
	struct wire_file m = *how;
	struct tool_answer a;

	m.op = FILE_GREP;
	m.path = m.path ? m.path : ".";
	a = tool_ask(c, &m);
	if (a.code)
		printf("# %s\n", a.msg);
	CHECK_EQ(a.code, 0);
	CHECK_STR(a.lines, lines);
	tool_answer_done(&a);
}

#define GREP(...) (&(struct wire_file){__VA_ARGS__})

TEST(grep_finds)
{
	struct client c = tool_start();

	make_tree();
	tool_write_text("t", "one\ntwo needle needle\nthree\n");
	check_grep(&c, GREP(.pattern = "needle"),
		   ".git/z.c:1:1 needle\na.c:1:1 needle\na/b/y.c:1:1 needle\na/x.c:1:1 needle\n"
		   "deep/.hid.c:1:1 needle\ndeep/er/w.h:1:1 needle\nt:2:5 two needle needle\n");
	check_grep(&c, GREP(.pattern = "needle", .glob = "a/**/*.c"),
		   "a/b/y.c:1:1 needle\na/x.c:1:1 needle\n");
	check_grep(&c, GREP(.pattern = "o", .path = "t"), ":1:1 one\n:2:3 two needle needle\n");
	check_grep(&c, GREP(.pattern = "NEEDLE", .path = "t"), "");
	check_grep(&c, GREP(.pattern = "NEEDLE", .path = "t", .ignore_case = 1),
		   ":2:5 two needle needle\n");
	check_grep(&c, GREP(.pattern = "^t.*e$", .path = "t", .regex = 1),
		   ":2:1 two needle needle\n:3:1 three\n");
	check_grep(&c, GREP(.pattern = "^T(WO|X)", .path = "t", .regex = 1, .ignore_case = 1),
		   ":2:1 two needle needle\n");
	check_grep(&c, GREP(.pattern = "n.*", .path = "t"), "");
	tool_finish(&c);
}

TEST(grep_context)
{
	struct client c = tool_start();

	tool_write_text("t", "1\n2\nx\n4\n5\nx\nx\n8\n9\n");
	check_grep(&c, GREP(.pattern = "x", .path = "t", .context = 1),
		   "-2:0 2\n:3:1 x\n-4:0 4\n-5:0 5\n:6:1 x\n:7:1 x\n-8:0 8\n");
	check_grep(&c, GREP(.pattern = "x", .path = "t", .context = 2),
		   "-1:0 1\n-2:0 2\n:3:1 x\n-4:0 4\n-5:0 5\n:6:1 x\n:7:1 x\n-8:0 8\n-9:0 9\n");
	check_grep(&c, GREP(.pattern = "1", .path = "t", .context = 100),
		   ":1:1 1\n-2:0 2\n-3:0 x\n-4:0 4\n-5:0 5\n-6:0 x\n-7:0 x\n-8:0 8\n-9:0 9\n");
	tool_write_text("u", "a\nx\n");
	/* What came before in one file is not before a line of the next. */
	check_grep(&c, GREP(.pattern = "x", .context = 1, .count = 4),
		   "t-2:0 2\nt:3:1 x\nt-4:0 4\nt-5:0 5\nt:6:1 x\nt:7:1 x\nt-8:0 8\n"
		   "u-1:0 a\nu:2:1 x\n");
	tool_finish(&c);
}

TEST(grep_bounds)
{
	struct client c = tool_start();
	struct wire_file m = {.op = FILE_GREP, .path = ".", .pattern = "x", .count = 2};
	struct tool_answer a;

	tool_write_text("t", "x\nx\nx\n");
	a = tool_ask(&c, &m);
	CHECK_STR(a.lines, "t:1:1 x\nt:2:1 x\n");
	CHECK_EQ(a.s.truncated, TRUNCATED_COUNT);
	tool_answer_done(&a);
	m.count = 3;
	a = tool_ask(&c, &m);
	CHECK_EQ(a.s.truncated, TRUNCATED_NOT);
	CHECK_EQ(a.s.count, 3);
	tool_answer_done(&a);
	m.pattern = "a\nb";
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, EINVAL);
	tool_answer_done(&a);
	m.pattern = "(";
	m.regex = 1;
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, EINVAL);
	tool_answer_done(&a);
	m.pattern = "(((((a{1,200}){1,200}){1,200}){1,200}){1,200})";
	a = tool_ask(&c, &m);
	CHECK_EQ(a.code, ENOMEM);
	tool_answer_done(&a);
	tool_finish(&c);
}

TEST(grep_binary_files_and_bytes)
{
	struct client c = tool_start();
	char text[3 * INIT_SNIFF_BYTES];

	tool_write("bin", "needle\n\0", 8);
	tool_write_text("latin", "caf\xe9 needle\n");
	check_grep(&c, GREP(.pattern = "needle"), "latin:1:6 caf\xe9 needle\n");
	check_grep(&c, GREP(.pattern = "caf. needle$", .regex = 1), "latin:1:1 caf\xe9 needle\n");
	tool_write_text("latin", "caf\xc3\xa9 needle\r\n");
	check_grep(&c, GREP(.pattern = "^caf. needle$", .regex = 1),
		   "latin:1:1 caf\xc3\xa9 needle\n");
	check_grep(&c, GREP(.pattern = "\xe9", .regex = 1), "");
	/* One that is binary only further on is searched as far as that. */
	memset(text, '.', sizeof(text));
	memcpy(text, "needle\n", 7);
	memcpy(text + 2 * INIT_SNIFF_BYTES, "\nneedle\n\0\nneedle\n", 17);
	tool_write("latin", text, sizeof(text));
	check_grep(&c, GREP(.pattern = "needle"), "latin:1:1 needle\nlatin:3:1 needle\n");
	tool_finish(&c);
}

TEST(grep_long_lines)
{
	enum { N = 3 << 20 };
	struct client c = tool_start();
	char *text = malloc(N + 64);
	struct tool_answer a;

	memset(text, 'y', N);
	memcpy(text + 500000, "needle", 6);
	memcpy(text + N - 10, "needle", 6);
	memcpy(text + N, "\nneedle\n", 9);
	tool_write_text("f", text);
	a = tool_ask(&c, GREP(.op = FILE_GREP, .path = "f", .pattern = "needle", .line_bytes = 8));
	CHECK_EQ(a.code, 0);
	CHECK_STR(a.lines, ":1!500001 yyneedle later\n:2:1 needle\n");
	tool_answer_done(&a);
	/* The first MiB of a line is searched. */
	memset(text + 500000, 'y', 6);
	tool_write_text("f", text);
	a = tool_ask(&c, GREP(.op = FILE_GREP, .path = "f", .pattern = "needle"));
	CHECK_STR(a.lines, ":2:1 needle\n");
	tool_answer_done(&a);
	/* Short lines across many buffers. */
	for (size_t i = 0; i < N; i++)
		text[i] = i % 100 == 99 ? '\n' : 'z';
	text[N] = '\0';
	memcpy(text + 2 * 1048576 - 3, "needle", 6);
	tool_write_text("f", text);
	a = tool_ask(&c, GREP(.op = FILE_GREP, .path = "f", .pattern = "needle"));
	CHECK_EQ(a.s.count, 1);
	CHECK(strncmp(a.lines, ":20972:50 ", 10) == 0);
	tool_answer_done(&a);
	a = tool_ask(&c, GREP(.op = FILE_GREP, .path = "f", .pattern = "zzz", .count = 1000000));
	CHECK_EQ(a.s.count, (N + 99) / 100);
	tool_answer_done(&a);
	free(text);
	tool_finish(&c);
}

/* ---- being ended ---- */

/* Takes very long with any libc: so many states for each of so many bytes. */
#define SLOW "((a{1,60}){1,60}b)"

static void write_slow(void)
{
	enum { N = 2 << 20 };
	char *text = malloc(N);

	memset(text, 'a', N);
	tool_write("slow", text, N);
	free(text);
}

static int children_of(pid_t pid)
{
	char path[64], *text = NULL;
	size_t len = 0;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	if (fd_read_file(AT_FDCWD, path, 1 << 20, &text, &len) < 0)
		SKIP("the kernel does not list children");
	for (char *p = text; *p; p++)
		n += *p == ' ';
	free(text);
	return n;
}

TEST(a_search_is_ended_by_its_time)
{
	struct client c = tool_start();
	struct tool_answer a;

	write_slow();
	a = tool_ask(&c, GREP(.op = FILE_GREP, .path = "slow", .pattern = SLOW, .regex = 1,
			      .time_ms = 100));
	CHECK_EQ(a.code, ETIMEDOUT);
	tool_answer_done(&a);
	CHECK_EQ(children_of(c.pid), 0);
	tool_finish(&c);
}

TEST(a_search_is_ended_by_cancel)
{
	struct client c = tool_start();
	struct client_result r;
	uint32_t id;

	write_slow();
	id = client_begin(&c, GREP(.op = FILE_GREP, .path = "slow", .pattern = SLOW, .regex = 1));
	/* Init answers others meanwhile. */
	r = client_file(&c, &(struct wire_file){.op = FILE_STAT, .path = "slow"});
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	CHECK_EQ(children_of(c.pid), 1);
	client_send(&c, WIRE_CANCEL, 0, id, NULL, 0);
	r = client_finish(&c, id);
	CHECK_EQ(r.code, ECANCELED);
	client_result_done(&r);
	/* Its end is init's to hear of, on a host that may be busy. */
	for (int i = 0; i < 20000 && children_of(c.pid) > 0; i++) {
		r = client_file(&c, &(struct wire_file){.op = FILE_STAT, .path = "slow"});
		client_result_done(&r);
	}
	CHECK_EQ(children_of(c.pid), 0);
	tool_finish(&c);
}

TEST(frames_that_do_not_belong)
{
	struct client c = tool_start();
	struct wire_credit all = {.bytes = UINT64_MAX};
	struct client_result r;
	uint32_t id;

	write_slow();
	id = client_begin(&c, GREP(.op = FILE_GREP, .path = "slow", .pattern = SLOW, .regex = 1));
	client_send(&c, WIRE_DATA, WIRE_STDIN, id, "x", 1);
	r = client_finish(&c, id);
	CHECK_EQ(r.code, EPROTO);
	client_result_done(&r);
	id = client_begin(&c, &(struct wire_file){.op = FILE_WATCH, .path = "."});
	CHECK_EQ(wire_credit_encode(&c.out, id, WIRE_STDOUT, &all), 0);
	client_send(&c, WIRE_CANCEL, 0, id + 1, NULL, 0);
	r = client_finish(&c, id);
	CHECK_EQ(r.code, EPROTO);
	client_result_done(&r);
	tool_finish(&c);
}

TAP_MAIN
