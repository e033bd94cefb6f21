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

	buf_init(b, 16 << 20);
	if (tree_pack(root, &(struct tree_sink){to_buf, b}, NULL, &e) < 0)
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
