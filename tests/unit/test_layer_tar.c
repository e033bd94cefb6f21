/*
 * Layers as tar streams: packing is canonical, what was packed unpacks to the same, whiteouts mean
 * the same on both sides, and tricks with them are refused. Runs with whatever ids the caller has.
 */
#include "store/layer_tar.h"

#include "base/limits.h"
#include "base/sha.h"
#include "base/str.h"
#include "store/unpack.h"
#include "store_home.h"
#include "tar_make.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static struct state s;
static struct err why;
static int root_fd = -1;
static bool single;

static int new_root(const char *name)
{
	int fd;

	CHECK(mkdirat(s.layers_fd, name, 0755) == 0);
	fd = openat(s.layers_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void begin(void)
{
	home_open(&s);
	umask(0);
	single = geteuid() != 0;
	root_fd = new_root("one");
}

#define LAYER_TEST(name) TEST_IN(name, (void), begin(); body(); state_close(&s);)

static int unpack_into(struct tar_maker *m, int fd, enum unpack_kind kind,
		       struct unpack_result *ret)
{
	struct unpack_how how = {.kind = kind, .single = single};
	int tar_fd = sys_memfd_create("tar", 0), r;

	CHECK_EQ(fd_write_full(tar_fd, buf_data(&m->out), buf_len(&m->out)), 0);
	CHECK(lseek(tar_fd, 0, SEEK_SET) == 0);
	maker_done(m);
	why = (struct err){0};
	r = unpack_stream(tar_fd, fd, &how, ret, &why);
	close(tar_fd);
	return r;
}

static int unpack(struct tar_maker *m)
{
	struct unpack_result result;

	maker_end(m);
	return unpack_into(m, root_fd, UNPACK_LAYER, &result);
}

static void write_file(int dir_fd, const char *path, const char *text, mode_t mode)
{
	int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	CHECK(fd >= 0 && fd_write_full(fd, text, strlen(text)) == 0);
	close(fd);
}

static void set_time(int dir_fd, const char *path, time_t s_, long ns)
{
	struct timespec t[2] = {{s_, ns}, {s_, ns}};

	CHECK(utimensat(dir_fd, path, t, AT_SYMLINK_NOFOLLOW) == 0);
}

static bool is_whiteout(const char *path)
{
	struct stat st;

	return fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == 0;
}

static bool is_opaque(const char *path)
{
	int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char mark[4] = "";
	ssize_t n;

	CHECK(fd >= 0);
	n = fgetxattr(fd, LAYER_OPAQUE_XATTR, mark, sizeof(mark));
	close(fd);
	return n == 1 && mark[0] == 'y';
}

static int hash(int fd, char diff[65])
{
	struct layer_tar_result result = {0};
	int r = layer_tar_pack(fd, -1, &(struct layer_tar_how){0}, &result, &why);

	memcpy(diff, result.diff, sizeof(result.diff));
	return r;
}

/* Packs fd into a memory file, which is returned. */
static int pack(int fd, char diff[65], uint64_t *bytes, uint64_t *files)
{
	struct layer_tar_result result;
	int out = sys_memfd_create("tar", 0), r;

	why = (struct err){0};
	r = layer_tar_pack(fd, out, &(struct layer_tar_how){0}, &result, &why);
	if (r < 0) {
		close(out);
		return r;
	}
	memcpy(diff, result.diff, sizeof(result.diff));
	if (bytes)
		*bytes = result.bytes;
	if (files)
		*files = result.files;
	CHECK(lseek(out, 0, SEEK_SET) == 0);
	return out;
}

/* A tree with one of everything; `back` makes it in another order. */
static void make_tree(int fd, bool back)
{
	static const char *const dirs[] = {"etc", "usr", "usr/bin", "var", "zzz"};
	char deep[300];

	for (size_t i = 0; i < 5; i++)
		CHECK(mkdirat(fd, dirs[i], 0755) == 0);
	memset(deep, 'n', sizeof(deep));
	memcpy(deep, "var/", 4);
	deep[4 + 200] = 0;
	for (int i = 0; i < 2; i++) {
		if ((i == 0) != back) {
			write_file(fd, "etc/passwd", "root", 0644);
			write_file(fd, deep, "long", 0600);
		} else {
			write_file(fd, "usr/bin/\xff\n", "odd", 0755);
			write_file(fd, "usr/a", "first", 0644);
		}
	}
	CHECK(linkat(fd, "usr/a", fd, "zzz/hard", 0) == 0);
	CHECK(symlinkat("/etc/../x", fd, "link") == 0);
	CHECK(mknodat(fd, "usr/gone", S_IFCHR, 0) == 0);
	CHECK(mknodat(fd, "fifo", S_IFIFO | 0640, 0) == 0);
	CHECK(fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) == 0);
	int var = openat(fd, "var", O_RDONLY | O_CLOEXEC);
	CHECK(fsetxattr(var, "user.overlay.opaque", "y", 1, 0) == 0);
	CHECK(fsetxattr(var, "user.other", "x", 1, 0) == 0);
	close(var);
	set_time(fd, "usr/a", 1000, 123456789);
	set_time(fd, "etc/passwd", -5, 0);
	set_time(fd, deep, 1000, 0);
	set_time(fd, "usr/bin/\xff\n", 1ll << 34, 0);
	set_time(fd, "link", 7, 500000000);
	set_time(fd, "fifo", 7, 0);
	for (size_t i = 5; i-- > 0;)
		set_time(fd, dirs[i], 2000, 0);
	set_time(fd, ".", 3000, 0);
}

LAYER_TEST(the_same_tree_is_the_same_stream)
{
	char first[65], second[65], hashed[65];
	uint64_t bytes, files;
	int other = new_root("two"), out;

	make_tree(root_fd, false);
	make_tree(other, true);
	out = pack(root_fd, first, &bytes, &files);
	if (out < 0)
		FAIL(why.msg);
	CHECK_EQ(bytes, 4 + 4 + 3 + 5);
	CHECK_EQ(files, 6 + 4 + 1 + 1 + 1 + 1 + 1);
	close(out);
	out = pack(other, second, NULL, NULL);
	CHECK_STR(first, second);
	CHECK_EQ(hash(root_fd, hashed), 0);
	CHECK_STR(first, hashed);
	/* What the stream says is what was hashed. */
	{
		off_t n = lseek(out, 0, SEEK_END);
		char *p = malloc((size_t)n);

		CHECK(pread(out, p, (size_t)n, 0) == n && n % 512 == 0);
		sha256_hex(p, (size_t)n, hashed);
		free(p);
	}
	CHECK_STR(second, hashed);
	close(out);
	close(other);
}

LAYER_TEST(what_was_packed_unpacks_to_the_same)
{
	struct unpack_how how = {.kind = UNPACK_LAYER, .single = single};
	struct unpack_result result;
	char first[65], second[65];
	struct stat a, b;
	int out, other;

	make_tree(root_fd, false);
	out = pack(root_fd, first, NULL, NULL);
	CHECK(out >= 0);
	other = new_root("two");
	if (unpack_stream(out, other, &how, &result, &why) < 0)
		FAIL(why.msg);
	CHECK_STR(result.id, first);
	close(out);
	CHECK(fstatat(other, "usr/a", &a, 0) == 0 && fstatat(other, "zzz/hard", &b, 0) == 0);
	CHECK(a.st_ino == b.st_ino && a.st_mtim.tv_nsec == 123456789);
	out = pack(other, second, NULL, NULL);
	CHECK(out >= 0);
	CHECK_STR(first, second);
	close(out);
	close(root_fd);
	root_fd = other;
	CHECK(is_whiteout("usr/gone") && is_opaque("var") && !is_opaque("usr"));
	/* The mark of a root means nothing, to overlay and to us. */
	CHECK(!is_opaque("."));
	CHECK(fstatat(other, "fifo", &a, 0) == 0 && S_ISFIFO(a.st_mode) &&
	      (a.st_mode & 0777) == 0640);
}

LAYER_TEST(a_change_of_anything_changes_the_diff_id)
{
	char first[65], now[65];

	make_tree(root_fd, false);
	CHECK(hash(root_fd, first) == 0);
	CHECK(fchmodat(root_fd, "usr/a", 0600, 0) == 0);
	CHECK(hash(root_fd, now) == 0 && strcmp(first, now) != 0);
	CHECK(fchmodat(root_fd, "usr/a", 0644, 0) == 0);
	CHECK(hash(root_fd, now) == 0);
	CHECK_STR(first, now);
	set_time(root_fd, "usr/a", 1000, 123456788);
	CHECK(hash(root_fd, now) == 0 && strcmp(first, now) != 0);
}

LAYER_TEST(a_name_like_a_whiteout_cannot_be_packed)
{
	char diff[65];

	write_file(root_fd, ".wh.passwd", "", 0644);
	CHECK_EQ(hash(root_fd, diff), -EINVAL);
	CHECK_EQ(why.kind, ERR_INVALID);
}

LAYER_TEST(a_deep_tree_is_packed_or_refused)
{
	char diff[65];
	int fd = dup(root_fd);

	for (unsigned i = 0; i < 1000; i++) {
		int next;

		CHECK(mkdirat(fd, "d", 0755) == 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(fd);
		fd = next;
	}
	if (hash(root_fd, diff) < 0)
		FAIL(why.msg);
	for (unsigned i = 0; i < 100; i++) {
		int next;

		CHECK(mkdirat(fd, "d", 0755) == 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(fd);
		fd = next;
	}
	close(fd);
	CHECK(hash(root_fd, diff) < 0);
	CHECK_EQ(why.kind, ERR_LIMIT);
}

LAYER_TEST(a_file_of_holes_is_bounded)
{
	char diff[65];

	write_file(root_fd, "holes", "", 0644);
	int fd = openat(root_fd, "holes", O_WRONLY | O_CLOEXEC);
	if (ftruncate(fd, (off_t)LAYER_BYTES_MAX + 1) < 0)
		SKIP("this filesystem has no files that large");
	close(fd);
	CHECK(hash(root_fd, diff) == -EFBIG);
	CHECK_EQ(why.kind, ERR_LIMIT);
}

LAYER_TEST(packing_has_the_callers_bound_and_end)
{
	struct layer_tar_result result;
	int ends[2];

	write_file(root_fd, "a", "12345", 0644);
	write_file(root_fd, "b", "12345", 0644);
	CHECK_EQ(layer_tar_pack(root_fd, -1, &(struct layer_tar_how){.bytes_max = 10}, &result,
				&why),
		 0);
	CHECK_EQ(
		layer_tar_pack(root_fd, -1, &(struct layer_tar_how){.bytes_max = 9}, &result, &why),
		-EFBIG);
	CHECK_EQ(why.kind, ERR_LIMIT);
	CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
	CHECK_EQ(layer_tar_pack(root_fd, -1, &(struct layer_tar_how){.cancel_fd = ends[0]}, &result,
				&why),
		 -ECANCELED);
	CHECK_EQ(why.kind, ERR_INTERRUPTED);
	close(ends[0]);
	close(ends[1]);
}

/* ---- whiteouts of a stream ---- */

LAYER_TEST(whiteouts_become_overlays)
{
	struct tar_maker m;
	struct stat st;

	maker_init(&m);
	maker_dir(&m, "etc/");
	maker_file(&m, "etc/.wh.passwd", "");
	maker_file(&m, ".wh.top", "");
	maker_dir(&m, "var/");
	maker_file(&m, "var/new", "x");
	maker_file(&m, "var/.wh..wh..opq", "");
	maker_file(&m, "implied/.wh..wh..opq", "");
	maker_file(&m, "a/b/.wh.c", "");
	if (unpack(&m) < 0)
		FAIL(why.msg);
	CHECK(is_whiteout("etc/passwd") && is_whiteout("top") && is_whiteout("a/b/c"));
	CHECK(is_opaque("var") && is_opaque("implied") && !is_opaque("etc"));
	CHECK(fstatat(root_fd, "var/new", &st, 0) == 0 && S_ISREG(st.st_mode));
	CHECK(fstatat(root_fd, "etc/.wh.passwd", &st, 0) < 0 && errno == ENOENT);
	/* What the stream only implies does not depend on the hour. */
	CHECK(fstatat(root_fd, "a/b", &st, 0) == 0 && st.st_mtime == 0 &&
	      (st.st_mode & 07777) == 0755);
	CHECK(fstat(root_fd, &st) == 0 && st.st_mtime == 0);
}

LAYER_TEST(a_whiteout_hides_nothing_of_its_own_layer)
{
	struct tar_maker m;
	struct stat st;

	maker_init(&m);
	maker_file(&m, "before", "x");
	maker_file(&m, ".wh.before", "");
	maker_file(&m, ".wh.after", "");
	maker_file(&m, "after", "x");
	maker_dir(&m, "dir/");
	maker_file(&m, "dir/x", "x");
	maker_file(&m, ".wh.dir", "");
	maker_file(&m, ".wh.later", "");
	maker_dir(&m, "later/");
	maker_file(&m, "later/x", "x");
	maker_file(&m, ".wh.implied", "");
	maker_file(&m, "implied/x/y", "x");
	maker_file(&m, ".wh.twice", "");
	maker_file(&m, ".wh.twice", "");
	maker_file(&m, ".wh.link", "");
	maker_link(&m, '2', "link", "/etc");
	if (unpack(&m) < 0)
		FAIL(why.msg);
	CHECK(fstatat(root_fd, "before", &st, 0) == 0 && S_ISREG(st.st_mode));
	CHECK(fstatat(root_fd, "after", &st, 0) == 0 && S_ISREG(st.st_mode));
	CHECK(is_opaque("dir") && is_opaque("later") && is_opaque("implied"));
	CHECK(fstatat(root_fd, "dir/x", &st, 0) == 0 && fstatat(root_fd, "later/x", &st, 0) == 0);
	CHECK(fstatat(root_fd, "implied/x/y", &st, 0) == 0 && !is_opaque("implied/x"));
	CHECK(is_whiteout("twice"));
	CHECK(fstatat(root_fd, "link", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode));
}

static void check_refused(struct maker_entry entry)
{
	struct tar_maker m;
	int kept = root_fd, r;
	char name[32];
	static unsigned count;

	snprintf(name, sizeof(name), "refused-%u", count++);
	root_fd = new_root(name);
	maker_init(&m);
	maker_dir(&m, "etc/");
	maker_header(&m, entry);
	if (entry.size)
		maker_bytes(&m, "12345678", entry.size);
	r = unpack(&m);
	if (r == 0) {
		fprintf(stderr, "# %s was taken\n", entry.name);
		FAIL("a whiteout that means nothing was taken");
	}
	CHECK(why.kind == ERR_INVALID || why.kind == ERR_UNSUPPORTED);
	CHECK(why.msg[0]);
	close(root_fd);
	root_fd = kept;
}

LAYER_TEST(tricks_with_whiteouts_are_refused)
{
	static const char *const names[] = {
		".wh.",		  "etc/.wh.",	       "etc/.wh..",	   ".wh...",
		".wh..wh.x",	  ".wh..wh..opq",      "etc/.wh..wh.aufs", ".wh.dir/file",
		".wh..wh.plnk/9", "etc/.wh..wh..opq/x"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		check_refused((struct maker_entry){.type = '0', .name = names[i], .mode = 0644});
	check_refused((struct maker_entry){.type = '5', .name = "etc/.wh.dir/", .mode = 0755});
	check_refused((struct maker_entry){.type = '5', .name = "etc/.wh..wh..opq/"});
	check_refused((struct maker_entry){.type = '2', .name = "etc/.wh.x", .target = "/etc"});
	check_refused((struct maker_entry){.type = '1', .name = "etc/.wh.x", .target = "etc"});
	check_refused((struct maker_entry){.type = '0', .name = "etc/.wh.x", .size = 3});
	check_refused((struct maker_entry){.type = '6', .name = "etc/.wh.x"});
}

LAYER_TEST(a_whiteout_does_not_go_through_a_link)
{
	struct tar_maker m;
	struct stat st;

	write_file(s.layers_fd, "outside", "x", 0644);
	maker_init(&m);
	maker_link(&m, '2', "out", "..");
	maker_file(&m, "out/.wh.outside", "");
	CHECK_EQ(unpack(&m), -EBADMSG);
	maker_init(&m);
	maker_link(&m, '2', "out", "..");
	maker_file(&m, "out/.wh..wh..opq", "");
	CHECK_EQ(unpack(&m), -EBADMSG);
	CHECK(fstatat(s.layers_fd, "outside", &st, 0) == 0 && S_ISREG(st.st_mode));
	CHECK(getxattr(home_path, LAYER_OPAQUE_XATTR, NULL, 0) < 0);
}

LAYER_TEST(a_hard_link_to_a_whiteout_is_refused)
{
	struct tar_maker m;

	maker_init(&m);
	maker_file(&m, ".wh.x", "");
	maker_link(&m, '1', "y", "x");
	CHECK_EQ(unpack(&m), -EBADMSG);
}

LAYER_TEST(attributes_of_an_archive_are_not_kept)
{
	static const char *const keys[] = {
		"SCHILY.xattr.user.overlay.opaque",	"SCHILY.xattr.trusted.overlay.redirect",
		"SCHILY.xattr.security.capability",	"LIBARCHIVE.xattr.user.overlay.whiteout",
		"SCHILY.xattr.system.posix_acl_access", "SCHILY.xattr.user.mine"};
	struct tar_maker m;
	char list[256];
	int fd;

	maker_init(&m);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		maker_pax(&m, keys[i], "y");
		maker_dir(&m, "dir/");
	}
	if (unpack(&m) < 0)
		FAIL(why.msg);
	fd = openat(root_fd, "dir", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	/* A security module may have labels of its own. */
	for (ssize_t at = 0, n = flistxattr(fd, list, sizeof(list)); at < n;
	     at += (ssize_t)strlen(list + at) + 1)
		CHECK(str_starts(list + at, "security.") &&
		      strcmp(list + at, "security.capability") != 0);
	close(fd);
}

LAYER_TEST(a_root_filesystem_has_no_whiteouts)
{
	static const char *const names[] = {".wh.x", "etc/.wh..wh..opq", ".wh.d/f"};
	struct unpack_result result;

	for (size_t i = 0; i < 3; i++) {
		struct tar_maker m;

		maker_init(&m);
		maker_file(&m, names[i], "");
		maker_end(&m);
		CHECK_EQ(unpack_into(&m, root_fd, UNPACK_ROOT, &result), -EBADMSG);
	}
}

LAYER_TEST(what_files_hold_is_bounded)
{
	struct unpack_how how = {.kind = UNPACK_LAYER, .single = single, .bytes_max = 10};
	struct unpack_result result;
	struct tar_maker m;
	int tar_fd = sys_memfd_create("tar", 0);

	maker_init(&m);
	maker_file(&m, "a", "123456");
	maker_file(&m, "b", "123456");
	maker_end(&m);
	CHECK_EQ(fd_write_full(tar_fd, buf_data(&m.out), buf_len(&m.out)), 0);
	CHECK(lseek(tar_fd, 0, SEEK_SET) == 0);
	CHECK_EQ(unpack_stream(tar_fd, root_fd, &how, &result, &why), -EFBIG);
	CHECK_EQ(why.kind, ERR_LIMIT);
	CHECK(strstr(why.msg, "--max-size") != NULL);
	maker_done(&m);
	close(tar_fd);
}
