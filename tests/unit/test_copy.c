/* Copies of trees that are written to meanwhile. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits_snapshot.h"
#include "storage/copy.h"
#include "storage/tree.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

static char dir[] = "/tmp/cove-copy-XXXXXX";
static int top_fd, from_fd, to_fd, links_fd;
static struct copy copy;
static struct err why;
static struct ids ids;

static int make_dir(const char *name)
{
	CHECK_EQ(mkdirat(top_fd, name, 0755), 0);
	return openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void take_down(void)
{
	copy_done(&copy);
	tree_remove(open("/tmp", O_RDONLY | O_DIRECTORY), strrchr(dir, '/') + 1, NULL);
}

static void begin(void)
{
	CHECK(mkdtemp(dir) != NULL);
	tap_state.at_end = take_down;
	top_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	from_fd = make_dir("from");
	to_fd = make_dir("to");
	links_fd = make_dir("links");
	CHECK_EQ(ids_detect(&ids, NULL, 0, &why), 0);
	if (ids.kind == IDS_SUBORDINATE)
		ids.kind = IDS_SINGLE; /* what the tests make is the caller's */
	CHECK_EQ(copy_init(&copy, from_fd, to_fd, links_fd, &why), 0);
}

static void put(int dir_fd, const char *name, const void *p, size_t n)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, p, n), 0);
	close(fd);
}

static void put_text(int dir_fd, const char *name, const char *text)
{
	put(dir_fd, name, text, strlen(text));
}

static void must_pass(enum copy_kind kind)
{
	int r = copy_pass(&copy, &ids, kind, 0, &why);

	if (r < 0)
		printf("# %s\n", why.msg);
	CHECK_EQ(r, 0);
}

static void same_content(int a, int b, const char *name)
{
	autoclose int fa = openat(a, name, O_RDONLY | O_CLOEXEC),
		      fb = openat(b, name, O_RDONLY | O_CLOEXEC);
	char ba[4096], bb[4096];
	ssize_t n;

	CHECK(fa >= 0 && fb >= 0);
	while ((n = read(fa, ba, sizeof(ba))) > 0) {
		CHECK_EQ(fd_read_full(fb, bb, (size_t)n), n);
		CHECK_EQ(memcmp(ba, bb, (size_t)n), 0);
	}
	CHECK_EQ(read(fb, bb, 1), 0);
}

static void same_attrs(int a, int b, const char *name)
{
	autoclose int fa = openat(a, name, O_RDONLY | O_CLOEXEC),
		      fb = openat(b, name, O_RDONLY | O_CLOEXEC);
	char names[4096], va[4096], vb[4096];
	ssize_t n;

	/* What cannot be opened here cannot be there either. */
	if (fa < 0) {
		CHECK(fb < 0);
		return;
	}
	n = flistxattr(fa, names, sizeof(names));
	CHECK(n >= 0);
	for (char *at = names; at < names + n; at += strlen(at) + 1) {
		ssize_t len = fgetxattr(fa, at, va, sizeof(va));

		if (strcmp(at, "user.overlay.origin") == 0 ||
		    strcmp(at, "user.overlay.impure") == 0 || strncmp(at, "user.", 5) != 0) {
			CHECK(fgetxattr(fb, at, vb, sizeof(vb)) < 0);
			continue;
		}
		CHECK_EQ(fgetxattr(fb, at, vb, sizeof(vb)), len);
		CHECK_EQ(memcmp(va, vb, (size_t)len), 0);
	}
}

/* The one is the other, down to the times; what is left out is not looked for. */
static unsigned same_tree(int a, int b)
{
	DIR *d = fdopendir(openat(a, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	unsigned n = 0, others = 0;
	struct stat sa, sb;
	char la[4096], lb[4096];

	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		CHECK_EQ(fstatat(a, e->d_name, &sa, AT_SYMLINK_NOFOLLOW), 0);
		if (S_ISSOCK(sa.st_mode)) {
			CHECK(fstatat(b, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) < 0);
			continue;
		}
		n++;
		if (fstatat(b, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
			printf("# '%s' is missing\n", e->d_name);
		CHECK_EQ(fstatat(b, e->d_name, &sb, AT_SYMLINK_NOFOLLOW), 0);
		CHECK(sa.st_mode == sb.st_mode && sa.st_uid == sb.st_uid &&
		      sa.st_gid == sb.st_gid && sa.st_rdev == sb.st_rdev);
		CHECK(sa.st_mtim.tv_sec == sb.st_mtim.tv_sec &&
		      sa.st_mtim.tv_nsec == sb.st_mtim.tv_nsec);
		if (S_ISREG(sa.st_mode)) {
			CHECK_EQ(sa.st_size, sb.st_size);
			same_content(a, b, e->d_name);
			same_attrs(a, b, e->d_name);
		} else if (S_ISLNK(sa.st_mode)) {
			ssize_t len = readlinkat(a, e->d_name, la, sizeof(la));

			CHECK_EQ(readlinkat(b, e->d_name, lb, sizeof(lb)), len);
			CHECK_EQ(memcmp(la, lb, (size_t)len), 0);
		} else if (S_ISDIR(sa.st_mode)) {
			autoclose int da = openat(a, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				      db = openat(b, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			same_attrs(a, b, e->d_name);
			n += same_tree(da, db);
		}
	}
	closedir(d);
	d = fdopendir(openat(b, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (struct dirent *e; (e = readdir(d));)
		others += faccessat(a, e->d_name, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
	closedir(d);
	CHECK_EQ(others, 0);
	return n;
}

static bool has_whiteouts(void)
{
	bool can = mknodat(top_fd, "w", S_IFCHR | 0600, makedev(0, 0)) == 0;

	unlinkat(top_fd, "w", 0);
	return can;
}

static void make_everything(void)
{
	struct timespec old[2] = {{.tv_sec = 5, .tv_nsec = 7}, {.tv_sec = 1000, .tv_nsec = 1}};
	struct sockaddr_un sock = {.sun_family = AF_UNIX};
	autoclose int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), d = -1, fd = -1;

	put_text(from_fd, "plain", "hello");
	put_text(from_fd, "empty", "");
	put_text(from_fd, "run", "#!/bin/sh\n");
	fchmodat(from_fd, "run", 04755, 0);
	put_text(from_fd, "closed", "x");
	fchmodat(from_fd, "closed", 0, 0);
	put_text(from_fd, "new\nline \xff", "odd");
	CHECK_EQ(symlinkat("/etc/passwd", from_fd, "link"), 0);
	CHECK_EQ(mkfifoat(from_fd, "fifo", 0640), 0);
	if (has_whiteouts())
		CHECK_EQ(mknodat(from_fd, "gone", S_IFCHR | 0600, makedev(0, 0)), 0);
	CHECK_EQ(mkdirat(from_fd, "d", 0711), 0);
	d = openat(from_fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put_text(d, "one", "linked");
	CHECK_EQ(linkat(d, "one", from_fd, "two", 0), 0);
	CHECK_EQ(linkat(d, "one", d, "three", 0), 0);
	fsetxattr(d, "user.overlay.opaque", "y", 1, 0);
	fsetxattr(d, "user.overlay.impure", "y", 1, 0);
	fsetxattr(d, "user.overlay.overlay.opaque", "y", 1, 0);
	fsetxattr(d, "user.mine", "\0\1", 2, 0);
	fd = openat(d, "holes", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(ftruncate(fd, 1 << 28), 0);
	CHECK_EQ(pwrite(fd, "x", 1, 3 << 20), 1);
	fsetxattr(fd, "user.mine", "v", 1, 0);
	snprintf(sock.sun_path, sizeof(sock.sun_path), "%s/from/sock", dir);
	CHECK_EQ(bind(s, (struct sockaddr *)&sock, sizeof(sock)), 0);
	utimensat(from_fd, "link", old, AT_SYMLINK_NOFOLLOW);
	utimensat(from_fd, "plain", old, 0);
	futimens(d, old);
}

TEST(all_that_there_is)
{
	struct stat a, b, c;

	begin();
	make_everything();
	must_pass(COPY_LAST);
	CHECK_EQ(copy.counts.left_out, 1);
	CHECK_EQ(same_tree(from_fd, to_fd), copy.counts.names);
	CHECK_EQ(fstatat(to_fd, "d/one", &a, 0), 0);
	CHECK_EQ(fstatat(to_fd, "two", &b, 0), 0);
	CHECK_EQ(fstatat(to_fd, "d/three", &c, 0), 0);
	CHECK(a.st_ino == b.st_ino && b.st_ino == c.st_ino);
	CHECK_EQ(fstatat(to_fd, "d/holes", &a, 0), 0);
	CHECK(a.st_size == 1 << 28 && a.st_blocks < 1024);
}

TEST(a_second_pass_has_little_to_do)
{
	struct timespec moment = {.tv_nsec = 60 * 1000 * 1000};

	begin();
	make_everything();
	nanosleep(&moment, NULL); /* so that nothing is as new as the pass */
	must_pass(COPY_LIVE);
	CHECK(copy.counts.moved_names > 8);
	must_pass(COPY_LIVE);
	CHECK_EQ(copy.counts.moved_names, 0);
	CHECK_EQ(copy.counts.moved_bytes, 0);
	put_text(from_fd, "plain", "jello"); /* as long as it was */
	must_pass(COPY_LAST);
	CHECK_EQ(copy.counts.moved_names, 1);
	same_tree(from_fd, to_fd);
}

TEST(what_changed_between)
{
	autoclose int d = -1;

	begin();
	make_everything();
	d = openat(from_fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(mkdirat(d, "deep", 0755), 0);
	put_text(d, "deep/er", "1");
	CHECK_EQ(mkdirat(from_fd, "emptied", 0755), 0);
	put_text(from_fd, "emptied/x", "1");
	must_pass(COPY_LIVE);
	/* A file is a directory, a directory a file, a link a file; moved, exchanged, deleted. */
	CHECK_EQ(unlinkat(from_fd, "plain", 0), 0);
	CHECK_EQ(mkdirat(from_fd, "plain", 0700), 0);
	put_text(from_fd, "plain/in", "side");
	CHECK_EQ(renameat(d, "deep", from_fd, "moved"), 0);
	put_text(d, "deep", "now a file");
	CHECK_EQ(unlinkat(from_fd, "link", 0), 0);
	put_text(from_fd, "link", "no link");
	CHECK_EQ(unlinkat(from_fd, "emptied/x", 0), 0);
	CHECK_EQ(unlinkat(from_fd, "two", 0), 0);
	put_text(d, "one", "longer than it was");
	CHECK_EQ(renameat(from_fd, "run", from_fd, "empty"), 0);
	fchmodat(from_fd, "emptied", 0701, 0);
	must_pass(COPY_LAST);
	same_tree(from_fd, to_fd);
	CHECK_EQ(faccessat(to_fd, "two", F_OK, 0), -1);
}

/* A process that has a page mapped, and wrote to it before, changes no time by writing again. */
TEST(pages_that_are_mapped)
{
	struct timespec moment = {.tv_nsec = 60 * 1000 * 1000};
	char *p;
	int fd;

	begin();
	put_text(from_fd, "map", "0000");
	fd = openat(from_fd, "map", O_RDWR | O_CLOEXEC);
	p = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	p[0] = '1';
	nanosleep(&moment, NULL);
	must_pass(COPY_LIVE);
	p[0] = '2';
	must_pass(COPY_LAST);
	same_tree(from_fd, to_fd);
	close(fd);
}

TEST(deep_and_wide)
{
	enum { DEPTH = 400, WIDE = 3000 };
	char name[32];
	int fd;

	begin();
	fd = dup(from_fd);
	for (int i = 0; i < DEPTH; i++) {
		int next;

		CHECK_EQ(mkdirat(fd, "d", 0755), 0);
		put_text(fd, "f", "x");
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	put_text(fd, "first", "x");
	for (int i = 0; i < WIDE; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK_EQ(linkat(fd, "first", fd, name, 0), 0);
	}
	must_pass(COPY_LIVE);
	must_pass(COPY_LAST);
	CHECK_EQ(copy.counts.names, 2 * DEPTH + WIDE + 1);
	CHECK_EQ(same_tree(from_fd, to_fd), 2 * DEPTH + WIDE + 1);
	close(fd);
}

/* Writes, moves and swaps things for links to what is none of the tree's. */
static void disturb(unsigned seed)
{
	char a[32], b[32];

	for (unsigned i = seed;; i = i * 1103515245 + 12345) {
		snprintf(a, sizeof(a), "s%u", i >> 8 & 15);
		snprintf(b, sizeof(b), "s%u", i >> 16 & 15);
		switch (i >> 4 & 7) {
		case 0:
			renameat(from_fd, a, from_fd, b);
			break;
		case 1:
			unlinkat(from_fd, a, 0);
			unlinkat(from_fd, a, AT_REMOVEDIR);
			break;
		case 2:
			symlinkat("/etc", from_fd, a);
			break;
		case 3:
			mkdirat(from_fd, a, 0755);
			break;
		case 4:
			mkfifoat(from_fd, a, 0600);
			break;
		case 5:
			linkat(from_fd, a, from_fd, b, 0);
			break;
		default: {
			int fd = openat(from_fd, a,
					O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
					0644);

			if (fd >= 0) {
				dprintf(fd, "%u", i);
				ftruncate(fd, i >> 6 & 0xffff);
				close(fd);
			}
			break;
		}
		}
	}
}

TEST(while_it_is_written_to)
{
	pid_t pid;

	begin();
	make_everything();
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		disturb((unsigned)getpid());
	for (int i = 0; i < 20; i++)
		must_pass(COPY_LIVE);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	must_pass(COPY_LAST);
	same_tree(from_fd, to_fd);
}

/* ---- layers that become one ---- */

enum { LAYERS = 5 };

/* An overlay of these, top first, at top_fd/all; upper may be NULL. */
static int mount_all(const char *const *lowers, size_t count, const char *upper)
{
	char options[2048] = "", at[128];
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += (size_t)snprintf(options + n, sizeof(options) - n, "%s%s/%s",
				      i ? ":" : "lowerdir=", dir, lowers[i]);
	if (upper)
		n += (size_t)snprintf(options + n, sizeof(options) - n,
				      ",upperdir=%s/%s,workdir=%s/work", dir, upper, dir);
	snprintf(options + n, sizeof(options) - n, ",userxattr");
	snprintf(at, sizeof(at), "%s/all", dir);
	return mount("overlay", at, "overlay", 0, options);
}

static void unmount_all(void)
{
	char at[128];

	snprintf(at, sizeof(at), "%s/all", dir);
	CHECK_EQ(umount(at), 0);
}

/* Some changes by somebody who works in the whole. */
static void work(int fd, unsigned seed)
{
	for (unsigned i = 0, x = seed * 2654435761u + 1; i < 60; i++, x = x * 1103515245 + 12345) {
		char a[16], b[16];

		snprintf(a, sizeof(a), "n%u", x >> 8 & 7);
		snprintf(b, sizeof(b), "n%u/m%u", x >> 16 & 7, x >> 20 & 3);
		switch (x >> 4 & 7) {
		case 0:
		case 1:
			tree_remove(fd, a, NULL);
			mkdirat(fd, a, 0755);
			break;
		case 2:
			tree_remove(fd, a, NULL);
			break;
		case 3:
			renameat(fd, a, fd, b);
			break;
		case 4:
			(void)!linkat(fd, a, fd, b, 0);
			break;
		case 5:
			(void)!fchmodat(fd, a, 0700 | (x >> 24 & 077), 0);
			break;
		default: {
			int file = openat(fd, x & 8 ? a : b,
					  O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

			if (file >= 0)
				dprintf(file, "%u", x);
			if (file >= 0)
				close(file);
			break;
		}
		}
	}
}

TEST(layers_become_one)
{
	static const char *const names[LAYERS + 1] = {"l5", "l4", "l3", "l2", "l1", "base"};
	char at[128];
	int all;

	/* Before anything is opened: what is mounted here is not there for older descriptors. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		SKIP("needs root");
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	begin();
	for (int i = 0; i <= LAYERS; i++)
		close(make_dir(names[i]));
	close(make_dir("all"));
	close(make_dir("work"));
	for (int i = LAYERS; i >= 0; i--) {
		int fd;

		if (i < LAYERS && mount_all(names + i + 1, (size_t)(LAYERS - i), names[i]) < 0)
			SKIP("this kernel mounts no overlay here");
		fd = openat(top_fd, i < LAYERS ? "all" : "base",
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		work(fd, (unsigned)getpid() + (unsigned)i);
		close(fd);
		if (i < LAYERS)
			unmount_all();
		if (i == LAYERS)
			continue;
		/* Laid over what is in `to`. */
		tree_remove(top_fd, "links", NULL);
		links_fd = make_dir("links");
		copy_done(&copy);
		fd = openat(top_fd, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK_EQ(copy_init(&copy, fd, to_fd, links_fd, &why), 0);
		must_pass(COPY_OVER);
		close(fd);
	}
	/* What all of them show is what the one shows. */
	CHECK_EQ(mount_all(names, LAYERS + 1, NULL), 0);
	all = openat(top_fd, "all", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(at, sizeof(at), "%s/from", dir);
	CHECK_EQ(mount("overlay", at, "overlay", 0, ({
			       static char o[512];
			       snprintf(o, sizeof(o), "lowerdir=%s/to:%s/base,userxattr", dir, dir);
			       o;
		       })),
		 0);
	close(from_fd);
	from_fd = openat(top_fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	same_tree(all, from_fd);
	same_tree(from_fd, all);
	close(all);
	close(from_fd);
	unmount_all();
	CHECK_EQ(umount(at), 0);
}

TEST(a_last_pass_has_its_time)
{
	char name[32];

	begin();
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		put_text(from_fd, name, "x");
	}
	CHECK_EQ(copy_pass(&copy, &ids, COPY_LAST, 1, &why), -ETIMEDOUT);
	CHECK_EQ(why.kind, ERR_TIMEOUT);
}

TAP_MAIN
