/* Trees as streams of bytes, and files that hold many of them. */
#include "base/buf.h"
#include "base/fd.h"
#include "storage/tree_pack.h"
#include "store/parcel.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static char home[64];

static void remove_home(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static int make_dir(const char *name)
{
	int fd, dir;

	if (!home[0]) {
		snprintf(home, sizeof(home), "/tmp/cove-test-XXXXXX");
		CHECK(mkdtemp(home));
		tap_state.at_end = remove_home;
	}
	dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(mkdirat(dir, name, 0755), 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(dir);
	return fd;
}

static int to_buf(void *arg, const void *p, size_t n, struct err *e)
{
	return buf_append(arg, p, n);
}

static int from_buf(void *arg, void *p, size_t n, struct err *e)
{
	struct buf *b = arg;

	if (buf_len(b) < n)
		return err_set(e, ERR_PROTOCOL, EBADMSG, "cut short");
	memcpy(p, buf_data(b), n);
	buf_consume(b, n);
	return 0;
}

static void put_file(int dir, const char *name, const char *text, mode_t mode)
{
	autoclose int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && fd_write_full(fd, text, strlen(text)) == 0 && fchmod(fd, mode) == 0);
}

static void make_tree(int root)
{
	const struct timespec old[2] = {{1000000000, 5}, {1000000000, 7}};
	autoclose int sub = -1, fd = -1;

	CHECK_EQ(mkdirat(root, "sub", 0750), 0);
	sub = openat(root, "sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put_file(root, "a", "hello", 0640);
	put_file(sub, "empty", "", 0000);
	CHECK_EQ(linkat(root, "a", sub, "same", 0), 0);
	CHECK_EQ(symlinkat("../a", sub, "link"), 0);
	CHECK_EQ(mknodat(sub, "fifo", S_IFIFO | 0622, 0), 0);
	fd = openat(root, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(pwrite(fd, "x", 1, 8 << 20) == 1 && ftruncate(fd, 16 << 20) == 0);
	CHECK_EQ(utimensat(root, "a", old, 0), 0);
	/* Where there are none, nothing is to be kept. */
	(void)fsetxattr(sub, "user.note", "of mine", 7, 0);
	(void)fsetxattr(sub, "user.overlay.opaque", "y", 1, 0);
	(void)fsetxattr(sub, "user.overlay.redirect", "/etc", 4, 0);
	if (mknodat(sub, "gone", S_IFCHR, makedev(0, 0)) < 0)
		printf("# no whiteout can be made here\n");
	CHECK_EQ(utimensat(root, "sub", old, 0), 0);
}

static void check_tree(int root)
{
	autoclose int sub = openat(root, "sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat a, b;
	char text[64] = "";

	CHECK(sub >= 0);
	CHECK(fstatat(root, "a", &a, 0) == 0 && fstatat(sub, "same", &b, 0) == 0);
	CHECK(a.st_ino == b.st_ino && a.st_nlink == 2 && a.st_mode == (S_IFREG | 0640));
	CHECK(a.st_mtim.tv_sec == 1000000000 && a.st_mtim.tv_nsec == 7);
	CHECK(fstat(sub, &a) == 0 && a.st_mtim.tv_sec == 1000000000 && (a.st_mode & 07777) == 0750);
	CHECK(readlinkat(sub, "link", text, sizeof(text)) == 4 && memcmp(text, "../a", 4) == 0);
	CHECK(fstatat(sub, "fifo", &a, 0) == 0 && S_ISFIFO(a.st_mode));
	CHECK(fstatat(root, "sparse", &a, 0) == 0 && a.st_size == 16 << 20 && a.st_blocks < 4096);
	if (fgetxattr(sub, "user.note", text, sizeof(text)) >= 0)
		CHECK(memcmp(text, "of mine", 7) == 0);
	CHECK(fgetxattr(sub, "user.overlay.redirect", text, sizeof(text)) < 0);
}

static void pack_to(int root, struct buf *b)
{
	struct err e = {0};

	buf_init(b, 64 << 20);
	if (tree_pack(root, &(struct tree_sink){to_buf, b, 0}, NULL, &e) < 0)
		printf("# %s\n", e.msg);
	CHECK(buf_len(b) > 0);
}

TEST(a_tree_comes_back)
{
	int from = make_dir("from"), to = make_dir("to"), again = make_dir("again");
	struct buf one, two, copy;
	struct err e = {0};

	make_tree(from);
	pack_to(from, &one);
	CHECK(buf_len(&one) < 1 << 20); /* holes take nothing */
	buf_init(&copy, 16 << 20);
	CHECK_EQ(buf_append(&copy, buf_data(&one), buf_len(&one)), 0);
	CHECK_EQ(tree_unpack(to, &(struct tree_source){from_buf, &copy}, geteuid() != 0, NULL, &e),
		 0);
	CHECK_EQ(buf_len(&copy), 0);
	check_tree(to);
	pack_to(to, &two);
	CHECK_EQ(
		tree_unpack(again, &(struct tree_source){from_buf, &two}, geteuid() != 0, NULL, &e),
		0);
	check_tree(again);
	buf_done(&one);
	buf_done(&two);
	buf_done(&copy);
}

/* ---- what is packed can be unpacked ---- */

/* Marks that only overlay makes sense of, with values that it does not know. */
static void make_marks(int root)
{
	autoclose int a = -1, b = -1;

	CHECK(mkdirat(root, "a", 0755) == 0 && mkdirat(root, "b", 0755) == 0);
	a = openat(root, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	b = openat(root, "b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)fsetxattr(a, "user.overlay.opaque", "zz", 2, 0);
	(void)fsetxattr(b, "user.overlay.opaque", "", 0, 0);
	(void)fsetxattr(b, "user.empty", "", 0, 0);
}

static void make_large(int root)
{
	autoclose int fd = openat(root, "large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK(ftruncate(fd, (off_t)2 << 40) == 0 || errno == EFBIG);
	CHECK_EQ(pwrite(fd, "x", 1, 1 << 20), 1);
}

/* Nothing but holes: no other file system is sure to take it. */
static void make_too_large(int root)
{
	autoclose int fd = openat(root, "too large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	if (ftruncate(fd, (off_t)1 << 60) < 0)
		printf("# no such file can be made here\n");
	CHECK_EQ(linkat(root, "too large", root, "too large, too", 0), 0);
}

/* Deeper than a path can be, with another name of a file there at the top. */
static void make_deep(int root)
{
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	put_file(root, "one", "1", 0600);
	for (int i = 0; i < 5000; i++) {
		int next;

		CHECK_EQ(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	CHECK_EQ(linkat(root, "one", fd, "first", 0), 0);
	CHECK_EQ(linkat(root, "one", fd, "second", 0), 0);
	close(fd);
}

/* More files with two names than a table once had room for, then a large one. */
static void make_linked(int root)
{
	char name[24], other[24], block[4096];
	autoclose int fd = -1;

	for (int i = 0; i < 17000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		snprintf(other, sizeof(other), "%d-", i);
		put_file(root, name, "", 0600);
		CHECK_EQ(linkat(root, name, root, other, 0), 0);
	}
	memset(block, 'x', sizeof(block));
	CHECK_EQ(mkdirat(root, "z", 0755), 0);
	fd = openat(root, "z/0", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 0; i < 256; i++)
		CHECK_EQ(fd_write_full(fd, block, sizeof(block)), 0);
	for (int i = 1; i < 20; i++) {
		snprintf(name, sizeof(name), "z/%d", i);
		CHECK_EQ(linkat(root, "z/0", root, name, 0), 0);
	}
}

TEST(what_is_packed_can_be_unpacked)
{
	static void (*const makers[])(int root) = {make_tree,	   make_marks, make_large,
						   make_too_large, make_deep,  make_linked};

	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
		char name[2][16];
		struct err e = {0};
		struct buf one, two;
		autoclose int from = -1, to = -1;
		size_t len;

		snprintf(name[0], sizeof(name[0]), "from%zu", i);
		snprintf(name[1], sizeof(name[1]), "to%zu", i);
		from = make_dir(name[0]);
		to = make_dir(name[1]);
		makers[i](from);
		pack_to(from, &one);
		len = buf_len(&one);
		CHECK(len < 4 << 20);
		if (tree_unpack(to, &(struct tree_source){from_buf, &one}, geteuid() != 0, NULL,
				&e) < 0)
			printf("# %zu: %s\n", i, e.msg);
		CHECK_EQ(e.kind, ERR_NONE);
		CHECK_EQ(buf_len(&one), 0);
		pack_to(to, &two);
		CHECK_EQ(buf_len(&two), len);
		buf_done(&one);
		buf_done(&two);
	}
}

TEST(attributes_that_there_is_no_room_for_are_lost_alone)
{
	static char value[60000];
	struct err e = {0};
	struct buf b;
	int to = make_dir("to");

	buf_init(&b, 1 << 20);
	CHECK_EQ(buf_append(&b, "R\xed\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0", 27),
		 0);
	for (int i = 0; i < 12; i++) {
		char head[] = "\7\0user.-x\x60\xea\0\0";

		head[8] = (char)('a' + i);
		CHECK_EQ(buf_append(&b, head, sizeof(head) - 1), 0);
		CHECK_EQ(buf_append(&b, value, sizeof(value)), 0);
	}
	CHECK_EQ(buf_append(&b, "Z", 1), 0);
	CHECK_EQ(tree_unpack(to, &(struct tree_source){from_buf, &b}, true, NULL, &e), 0);
	buf_done(&b);
	close(to);
}

TEST(bytes_are_bounded)
{
	int from = make_dir("from");
	struct err e = {0};
	struct buf b;

	make_tree(from);
	buf_init(&b, 1 << 20);
	CHECK_EQ(tree_pack(from, &(struct tree_sink){to_buf, &b, 1 << 20}, NULL, &e), 0);
	CHECK(tree_pack(from, &(struct tree_sink){to_buf, &b, 4}, NULL, &e) < 0);
	CHECK_EQ(e.kind, ERR_LIMIT);
	buf_done(&b);
	close(from);
}

TEST(a_cut_stream_is_refused)
{
	int from = make_dir("from");
	struct buf whole;

	make_tree(from);
	pack_to(from, &whole);
	for (size_t n = 0; n < buf_len(&whole); n += n < 600 ? 1 : 997) {
		char name[32];
		struct err e = {0};
		struct buf part;
		int to;

		snprintf(name, sizeof(name), "to%zu", n);
		to = make_dir(name);
		buf_init(&part, 16 << 20);
		CHECK_EQ(buf_append(&part, buf_data(&whole), n), 0);
		CHECK(tree_unpack(to, &(struct tree_source){from_buf, &part}, geteuid() != 0, NULL,
				  &e) < 0);
		CHECK(e.msg[0]);
		buf_done(&part);
		close(to);
	}
	buf_done(&whole);
}

/* R META attrs, then what is given, then Z. */
static int try_hostile(const char *name, const void *entry, size_t len)
{
	static const char root[] = "R\xed\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
	int to = make_dir(name), r;
	struct err e = {0};
	struct buf b;

	buf_init(&b, 1 << 20);
	CHECK_EQ(buf_append(&b, root, 1 + 24 + 2), 0);
	CHECK_EQ(buf_append(&b, entry, len), 0);
	CHECK_EQ(buf_append(&b, "Z", 1), 0);
	r = tree_unpack(to, &(struct tree_source){from_buf, &b}, true, NULL, &e);
	buf_done(&b);
	close(to);
	return r;
}

#define META "\xa4\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

TEST(hostile_streams_are_refused)
{
	static const struct {
		const char *what;
		const char *bytes;
		size_t len;
		int ok;
	} cases[] = {
#define CASE(what, text, ok) {what, text, sizeof(text) - 1, ok}
		CASE("plain", "L\1\0a" META "\1\0b", 1),
		CASE("updots", "L\2\0.." META "\1\0b", 0),
		CASE("dot", "L\1\0." META "\1\0b", 0),
		CASE("slash", "L\3\0a/b" META "\1\0b", 0),
		CASE("noname", "L\0\0" META "\1\0b", 0),
		CASE("nul", "L\3\0a\0b" META "\1\0b", 0),
		CASE("leave", "U", 0),
		CASE("unknown", "Q\1\0a" META, 0),
		CASE("link", "H\1\0a\0\0\0\0\0\0\0\0", 0),
		CASE("twice", "L\1\0a" META "\1\0bL\1\0a" META "\1\0b", 0),
		CASE("open", "D\1\0a" META "\0\0", 0),
		CASE("mode", "L\1\0a\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0b",
		     0),
		CASE("attr", "D\1\0a" META "\1\0\x15\0user.overlay.redirect\1\0\0\0xU", 0),
		CASE("trusted", "D\1\0a" META "\1\0\x16\0trusted.overlay.opaque\1\0\0\0yU", 0),
		CASE("more", "F\1\0a" META "\0\0\0\1\0\0\0\0\0\0\0d\2\0\0\0xxe", 0),
		CASE("less", "F\1\0a" META "\0\0\0\2\0\0\0\0\0\0\0d\1\0\0\0xe", 0),
		CASE("hole", "F\1\0a" META "\0\0\0\1\0\0\0\0\0\0\0h\2\0\0\0\0\0\0\0e", 0),
		CASE("through", "L\1\0a" META "\4\0/tmpD\1\0a" META "\0\0U", 0),
		CASE("file", "F\1\0a" META "\0\0\0\1\0\0\0\0\0\0\0d\1\0\0\0xe", 1),
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		printf("# %s\n", cases[i].what);
		CHECK_EQ(try_hostile(cases[i].what, cases[i].bytes, cases[i].len) == 0,
			 cases[i].ok);
	}
}

/* ---- files of many members ---- */

static int make_pack(void)
{
	int dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	static struct parcel_writer w;
	char block[1000];

	fd = openat(dir, "pack", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	memset(block, 'b', sizeof(block));
	CHECK_EQ(parcel_begin(&w, fd, "test", NULL), 0);
	CHECK_EQ(parcel_member(&w, "one", 3, NULL), 0);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(parcel_add(&w, block, sizeof(block), NULL), 0);
	CHECK_EQ(parcel_member_end(&w, NULL), 0);
	CHECK_EQ(parcel_member(&w, "two", 3, NULL), 0);
	CHECK_EQ(parcel_member_end(&w, NULL), 0);
	CHECK_EQ(parcel_end(&w, NULL), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	close(dir);
	return fd;
}

static int count_heads(void *arg, char *head, size_t len, struct err *e)
{
	(*(int *)arg)++;
	CHECK_EQ(len, 3);
	return 0;
}

TEST(members_come_back)
{
	static struct parcel_reader r;
	struct err e = {0};
	char *head, *text;
	int fd, heads = 0;
	size_t len;

	close(make_dir("x"));
	fd = make_pack();
	CHECK_EQ(parcel_check(fd, "test", count_heads, &heads, &e), 0);
	CHECK_EQ(heads, 2);
	CHECK_EQ(parcel_open(&r, fd, "test", &e), 0);
	CHECK_EQ(parcel_next(&r, &head, &len, &e), 1);
	CHECK_STR(head, "one");
	free(head);
	CHECK_EQ(parcel_read_all(&r, 1 << 20, &text, &len, &e), 0);
	CHECK_EQ(len, 200000);
	free(text);
	CHECK_EQ(parcel_next(&r, &head, &len, &e), 1);
	CHECK_STR(head, "two");
	free(head);
	CHECK_EQ(parcel_next(&r, &head, &len, &e), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	CHECK(parcel_open(&r, fd, "other", &e) < 0 && e.kind == ERR_INVALID);
	close(fd);
}

TEST(what_was_begun_can_be_taken_back)
{
	static struct parcel_writer w, before;
	static struct parcel_reader r;
	autoclose int dir = -1, fd = -1;
	struct err e = {0};
	char block[1000] = "", *head;
	int heads = 0;
	size_t len;

	close(make_dir("x"));
	dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(dir, "pack", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK_EQ(parcel_begin(&w, fd, "test", NULL), 0);
	CHECK_EQ(parcel_member(&w, "one", 3, NULL), 0);
	CHECK_EQ(parcel_member_end(&w, NULL), 0);
	before = w;
	CHECK_EQ(parcel_member(&w, "bad", 3, NULL), 0);
	CHECK_EQ(parcel_member_end(&w, NULL), 0);
	CHECK_EQ(parcel_member(&w, "bad", 3, NULL), 0);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(parcel_add(&w, block, sizeof(block), NULL), 0);
	CHECK_EQ(parcel_rewind(&w, &before, &e), 0);
	CHECK_EQ(parcel_member(&w, "two", 3, NULL), 0);
	CHECK_EQ(parcel_member_end(&w, NULL), 0);
	CHECK_EQ(parcel_end(&w, NULL), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	CHECK_EQ(parcel_check(fd, "test", count_heads, &heads, &e), 0);
	CHECK_EQ(heads, 2);
	CHECK_EQ(parcel_open(&r, fd, "test", &e), 0);
	CHECK_EQ(parcel_next(&r, &head, &len, &e), 1);
	free(head);
	CHECK_EQ(parcel_next(&r, &head, &len, &e), 1);
	CHECK_STR(head, "two");
	free(head);
}

TEST(what_is_cut_or_changed_is_damaged)
{
	struct stat st;
	int fd;

	close(make_dir("x"));
	fd = make_pack();
	CHECK_EQ(fstat(fd, &st), 0);
	for (off_t at = 0; at < st.st_size; at += at < 40 || at > st.st_size - 200 ? 1 : 7919) {
		struct err e = {0};
		char byte, other;

		CHECK_EQ(pread(fd, &byte, 1, at), 1);
		other = (char)(byte ^ 0x10);
		CHECK_EQ(pwrite(fd, &other, 1, at), 1);
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		CHECK(parcel_check(fd, "test", NULL, NULL, &e) < 0);
		CHECK(e.kind == ERR_DAMAGED || e.kind == ERR_INVALID);
		CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
	}
	for (off_t n = st.st_size - 1; n >= 0; n -= n > st.st_size - 200 || n < 100 ? 1 : 4999) {
		struct err e = {0};

		CHECK_EQ(ftruncate(fd, n), 0);
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		CHECK(parcel_check(fd, "test", NULL, NULL, &e) < 0);
	}
	close(fd);
	fd = make_pack();
	CHECK_EQ(pwrite(fd, "x", 1, st.st_size), 1);
	CHECK(parcel_check(fd, "test", NULL, NULL, NULL) < 0);
	close(fd);
}

TAP_MAIN
