/*
 * Images: what an import makes, that no archive gets out of its directory, and that a half-made or
 * used image is never the one that is seen. Runs with whatever ids the caller has.
 */
#include "store/image.h"

#include "base/sha.h"
#include "base/str.h"
#include "store/layer.h"
#include "store/record.h"
#include "store_home.h"
#include "tar_make.h"

#include <sys/stat.h>

static struct state s;
static struct ids ids;
static struct err why;
static char canary[96];

/* A state directory, and beside it a file that nothing may touch. */
static void begin(void)
{
	char why_single[232];
	int fd;

	home_open(&s);
	CHECK_EQ(ids_detect(&ids, why_single, sizeof(why_single), &why), 0);
	snprintf(canary, sizeof(canary), "%s/canary", home_path);
	fd = open(canary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, "untouched", 9) == 9);
	close(fd);
}

#define STORE_TEST(name) TEST_IN(name, (void), begin(); body(); state_close(&s);)

/* Import from a pipe-like descriptor: a memfd is enough. */
static int import(struct tar_maker *m, const char *name, const char *user)
{
	int fd = sys_memfd_create("tar", 0), r;

	CHECK_EQ(fd_write_full(fd, buf_data(&m->out), buf_len(&m->out)), 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	maker_done(m);
	why = (struct err){0};
	r = image_import(&s, &ids, name, user, fd, &why);
	close(fd);
	return r;
}

static void check_canary(void)
{
	char *text;
	struct stat st;

	CHECK_EQ(fd_read_file(AT_FDCWD, canary, 100, &text, NULL), 0);
	CHECK_STR(text, "untouched");
	free(text);
	CHECK(stat(canary, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 0777) == 0600);
}

static struct tar_maker good_tar(void)
{
	struct tar_maker m;

	maker_init(&m);
	maker_dir(&m, "./");
	maker_dir(&m, "./usr/");
	maker_header(&m,
		     (struct maker_entry){
			     .type = '0', .name = "./usr/sudo", .mode = 04755, .mtime = 1234567});
	maker_header(&m, (struct maker_entry){.type = '0',
					      .name = "./usr/mine",
					      .mode = 0640,
					      .uid = 1000,
					      .gid = 1000,
					      .mtime = 1234567});
	maker_file(&m, "etc/passwd",
		   "root:x:0:0:root:/root:/bin/sh\nbroken\n"
		   "agent:x:1000:1000::/home/agent:/bin/sh\n");
	maker_link(&m, '2', "bin", "usr/bin");
	maker_link(&m, '1', "usr/sudo2", "./usr/sudo");
	maker_header(&m, (struct maker_entry){.type = '4', .name = "dev/sda", .mode = 0666});
	maker_header(&m, (struct maker_entry){
				 .type = '5', .name = "locked", .mode = 0555, .mtime = 1234567});
	maker_file(&m, "locked/file", "inside");
	maker_end(&m);
	return m;
}

static int stat_in(const struct image *im, const char *name, struct stat *st)
{
	char path[800], root[640];

	CHECK_EQ(layer_root(&s, im->layers[0], root, sizeof(root)), 0);
	snprintf(path, sizeof(path), "%s/%s", root, name);
	return lstat(path, st) < 0 ? -errno : 0;
}

STORE_TEST(an_import_keeps_what_the_archive_says)
{
	struct tar_maker m;
	struct image im;
	struct stat st;
	char id[65];

	m = good_tar();
	sha256_hex(buf_data(&m.out), buf_len(&m.out), id);
	if (import(&m, "base", NULL) < 0)
		FAIL(why.msg);
	CHECK_EQ(image_find(&s, "base", &im, &why), 0);
	CHECK_STR(im.config.user, "agent");
	CHECK_EQ(strlen(im.id), 64);
	if (ids.kind != IDS_SINGLE)
		CHECK_STR(im.id, id);
	CHECK(im.created_ms > 0 && im.bytes > 0 && !im.is_host);
	CHECK_EQ(stat_in(&im, "usr/sudo", &st), 0);
	CHECK_EQ(st.st_mode & 07777, ids.kind == IDS_SINGLE ? 0755 : 04755);
	CHECK_EQ(st.st_nlink, 2);
	CHECK_EQ(st.st_mtime, 1234567);
	if (ids.kind != IDS_SINGLE)
		CHECK_EQ(st.st_uid, ids_host_uid(&ids, 0));
	CHECK_EQ(stat_in(&im, "usr/mine", &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0640);
	if (ids.kind != IDS_RANGE)
		CHECK_EQ(st.st_uid, getuid());
	else
		CHECK_EQ(st.st_uid, 1000);
	CHECK_EQ(stat_in(&im, "bin", &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	CHECK_EQ(stat_in(&im, "dev/sda", &st), -ENOENT);
	CHECK_EQ(stat_in(&im, "locked", &st), 0);
	CHECK_EQ(st.st_mode & 0777, ids.kind == IDS_SINGLE ? 0755 : 0555);
	CHECK_EQ(st.st_mtime, 1234567);
	check_canary();
	image_done(&im);
	CHECK_EQ(image_remove(&s, &ids, "base", &why), 0);
	CHECK_EQ(count_names(s.layers_fd), 0);
	CHECK_EQ(count_names(s.images_fd), 0);
}

static void refuse(struct tar_maker *m)
{
	maker_end(m);
	CHECK(import(m, "evil", NULL) < 0);
	CHECK(why.kind != ERR_NONE && why.msg[0]);
	check_canary();
	CHECK_EQ(count_names(s.layers_fd), 0);
	CHECK_EQ(count_names(s.images_fd), 0);
}

STORE_TEST(links_do_not_lead_out)
{
	struct tar_maker m;

	maker_init(&m); /* a file through an absolute link */
	maker_link(&m, '2', "out", home_path);
	maker_file(&m, "out/canary", "overwritten");
	refuse(&m);
	CHECK(strstr(why.msg, "symbolic link") != NULL);
	maker_init(&m); /* through a relative one, deeper */
	maker_dir(&m, "a");
	maker_link(&m, '2', "a/up", "../../../..");
	maker_file(&m, "a/up/canary", "overwritten");
	refuse(&m);
	maker_init(&m); /* even one that stays inside */
	maker_dir(&m, "real");
	maker_link(&m, '2', "alias", "real");
	maker_file(&m, "alias/file", "x");
	refuse(&m);
	maker_init(&m); /* a directory entry on top of a link, then through it */
	maker_link(&m, '2', "x", home_path);
	maker_link(&m, '2', "x/y", "z");
	refuse(&m);
	maker_init(&m); /* making missing parents through a link */
	maker_link(&m, '2', "x", home_path);
	maker_file(&m, "x/new/deep/file", "z");
	refuse(&m);
}

STORE_TEST(hard_links_stay_inside)
{
	struct tar_maker m;

	maker_init(&m);
	maker_link(&m, '1', "h", "missing");
	refuse(&m);
	maker_init(&m);
	maker_link(&m, '2', "d", home_path);
	maker_link(&m, '1', "h", "d/canary");
	refuse(&m);
	maker_init(&m);
	maker_dir(&m, "dir");
	maker_link(&m, '1', "h", "dir");
	refuse(&m);
	maker_init(&m);
	maker_link(&m, '1', "h", "../../../canary");
	refuse(&m);
}

STORE_TEST(the_same_name_twice)
{
	struct tar_maker m;
	struct image im;
	struct stat st;
	char path[800], root[640], *text;

	maker_init(&m);
	maker_dir(&m, "usr");
	maker_file(&m, "usr/f", "first");
	maker_file(&m, "usr/f", "second!");
	maker_link(&m, '2', "usr/l", canary); /* a file over a link replaces the link */
	maker_file(&m, "usr/l", "mine");
	maker_link(&m, '2', "usr/d", home_path); /* and so does a directory */
	maker_dir(&m, "usr/d");
	maker_file(&m, "usr/d/canary", "mine");
	maker_dir(&m, "usr/d");
	maker_link(&m, '1', "usr/f", "usr/f");
	maker_end(&m);
	CHECK_EQ(import(&m, "twice", NULL), 0);
	CHECK_EQ(image_find(&s, "twice", &im, &why), 0);
	CHECK_STR(im.config.user, "root");
	CHECK_EQ(layer_root(&s, im.layers[0], root, sizeof(root)), 0);
	snprintf(path, sizeof(path), "%s/usr/f", root);
	CHECK_EQ(fd_read_file(AT_FDCWD, path, 100, &text, NULL), 0);
	CHECK_STR(text, "second!");
	free(text);
	CHECK_EQ(stat_in(&im, "usr/l", &st), 0);
	CHECK(S_ISREG(st.st_mode));
	CHECK_EQ(stat_in(&im, "usr/d/canary", &st), 0);
	check_canary();
	image_done(&im);
	CHECK_EQ(image_remove(&s, &ids, "twice", &why), 0);
	maker_init(&m);
	maker_file(&m, "d/f", "x");
	maker_file(&m, "d", "a file over a full directory");
	refuse(&m);
	maker_init(&m);
	maker_file(&m, "f", "x");
	maker_file(&m, "f/below", "a file below a file");
	refuse(&m);
}

STORE_TEST(damaged_and_wrong_streams_leave_nothing)
{
	struct tar_maker m, part;

	m = good_tar();
	maker_init(&part);
	CHECK_EQ(buf_append(&part.out, buf_data(&m.out), buf_len(&m.out) / 2), 0);
	maker_done(&m);
	CHECK(import(&part, "cut", NULL) < 0);
	maker_init(&m);
	CHECK_EQ(buf_append_str(&m.out, "\x1f\x8b\x08 this is gzip"), 0);
	CHECK(import(&m, "gz", NULL) < 0);
	CHECK(strstr(why.msg, "gunzip") != NULL);
	maker_init(&m);
	CHECK(import(&m, "empty", NULL) < 0);
	maker_init(&m);
	maker_end(&m);
	CHECK(import(&m, "nothing", NULL) < 0);
	maker_init(&m);
	maker_file(&m, "manifest.json", "[]");
	maker_end(&m);
	CHECK(import(&m, "saved", NULL) < 0);
	CHECK(strstr(why.msg, "docker export") != NULL);
	m = good_tar();
	CHECK(import(&m, "user", "nobody-here") < 0);
	CHECK(strstr(why.msg, "nobody-here") != NULL);
	m = good_tar();
	CHECK(import(&m, "host", NULL) < 0);
	m = good_tar();
	CHECK(import(&m, "../evil", NULL) < 0);
	CHECK_EQ(count_names(s.layers_fd), 0);
	CHECK_EQ(count_names(s.images_fd), 0);
}

STORE_TEST(a_killed_import_leaves_nothing_visible)
{
	struct tar_maker m;
	int pipe_fd[2];
	pid_t pid;

	m = good_tar();
	CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		close(pipe_fd[1]);
		image_import(&s, &ids, "half", NULL, pipe_fd[0], NULL);
		_exit(0);
	}
	close(pipe_fd[0]);
	CHECK(write(pipe_fd[1], buf_data(&m.out), 3072) == 3072);
	while (count_names(s.layers_fd) == 0)
		usleep(1000); /* until the import has begun; nothing tells us */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pipe_fd[1]);
	CHECK_EQ(count_names(s.images_fd), 0);
	/* The next import clears up. What the dead one's helper still holds goes a little later. */
	for (int i = 0; i < 100; i++) {
		struct tar_maker again = good_tar();

		CHECK_EQ(import(&again, "whole", NULL), 0);
		if (count_names(s.layers_fd) == 1)
			break;
		usleep(10000);
	}
	CHECK_EQ(count_names(s.layers_fd), 1);
	CHECK_EQ(image_remove(&s, &ids, "whole", NULL), 0);
	maker_done(&m);
}

static void make_box(const char *name, const char *image)
{
	struct spec spec = {.name = name, .image = image, .wall = "native"};
	int fd;

	CHECK_EQ(record_create(&s, &spec, &fd, &why), 0);
	close(fd);
}

STORE_TEST(an_image_in_use_stays)
{
	char trash[64];
	struct tar_maker m;

	m = good_tar();
	CHECK_EQ(import(&m, "base", NULL), 0);
	make_box("dev", "base");
	CHECK_EQ(image_remove(&s, &ids, "base", &why), -EBUSY);
	CHECK_EQ(why.kind, ERR_CONFLICT);
	m = good_tar();
	CHECK_EQ(import(&m, "base", "root"), -EBUSY);
	CHECK_EQ(record_trash(&s, "dev", false, trash, NULL), 0);
	m = good_tar();
	CHECK_EQ(import(&m, "base", "root"), 0);
	CHECK_EQ(image_remove(&s, &ids, "base", &why), 0);
	CHECK_EQ(image_remove(&s, &ids, "base", &why), -ENOENT);
}

/* A box has its layers in its own record: what its image's name means may change. */
STORE_TEST(a_box_keeps_its_layers)
{
	struct spec spec = {.name = "dev", .image = "base", .wall = "native"};
	char trash[64], id[65];
	struct tar_maker m;
	struct image im;
	int fd;

	m = good_tar();
	CHECK_EQ(import(&m, "base", NULL), 0);
	CHECK_EQ(image_find(&s, "base", &im, &why), 0);
	str_copy(id, sizeof(id), im.layers[0]);
	image_done(&im);
	spec.layers[spec.layer_count++] = id;
	CHECK_EQ(record_create(&s, &spec, &fd, &why), 0);
	close(fd);
	CHECK_EQ(image_remove(&s, &ids, "base", &why), -EBUSY);
	maker_init(&m);
	maker_file(&m, "usr/x", "other");
	maker_end(&m);
	CHECK_EQ(import(&m, "base", NULL), 0);
	CHECK_EQ(count_names(s.layers_fd), 2);
	CHECK_EQ(record_trash(&s, "dev", false, trash, NULL), 0);
	CHECK_EQ(image_tag(&s, &ids, "base", "ghcr.io/acme/agent:1.2", &why), 0);
	CHECK_EQ(image_find(&s, "ghcr.io/acme/agent:1.2", &im, &why), 0);
	CHECK_STR(im.name, "ghcr.io/acme/agent:1.2");
	image_done(&im);
	CHECK_EQ(image_remove(&s, &ids, "base", &why), 0);
	CHECK_EQ(image_remove(&s, &ids, "ghcr.io/acme/agent:1.2", &why), 0);
	CHECK_EQ(count_names(s.layers_fd), 1); /* of the box that went: for `image gc` */
}

STORE_TEST(what_an_image_says_is_kept)
{
	static struct image im, back;
	char one[65], two[65];
	int lock_fd;

	memset(one, '1', 64), one[64] = 0;
	memset(two, '2', 64), two[64] = 0;
	im = (struct image){.name = "app:v1",
			    .layers = {one, two},
			    .layer_count = 2,
			    .config = {.user = "1000:1000",
				       .cwd = "/app",
				       .env = {{"A=b\nc", "PATH=/bin"}, 2},
				       .entrypoint = {{"/bin/sh", "-c"}, 2},
				       .cmd = {{""}, 1},
				       .labels = {{"x=y"}, 1}},
			    .history = {{7, true, "ENV A=b c"}, {8, false, ""}},
			    .history_count = 2,
			    .created_ms = 9,
			    .bytes = 10};
	CHECK_EQ(layers_lock(&s, &lock_fd, &why), 0);
	CHECK_EQ(image_write(&s, &im, &why), 0);
	close(lock_fd);
	CHECK_EQ(image_find(&s, "app:v1", &back, &why), 0);
	CHECK_EQ(back.layer_count, 2);
	CHECK_STR(back.layers[1], two);
	CHECK_STR(back.config.user, "1000:1000");
	CHECK_STR(back.config.env.at[0], "A=b\nc");
	CHECK_EQ(back.config.entrypoint.count, 2);
	CHECK_EQ(back.config.cmd.count, 1);
	CHECK_STR(back.config.cmd.at[0], "");
	CHECK_EQ(back.history_count, 2);
	CHECK(back.history[0].empty && back.history[0].created_ms == 7);
	CHECK_STR(back.history[0].by, "ENV A=b c");
	CHECK_STR(back.history[1].by, "");
	CHECK_EQ(strlen(back.id), 64);
	image_done(&back);
	CHECK_EQ(image_remove(&s, &ids, "app:v1", &why), 0);
}

TEST(names_of_images)
{
	static const char *const good[] = {"a",	       "base",		 "python:3.12",
					   "a/b/c",    "ghcr.io/x/y:V1", "localhost:5000/z",
					   "a@sha256", "x.y_z-1"};
	static const char *const bad[] = {
		"",	     "A",	 "a:",	"/a",	"a//b",		 "../a",
		"a/../b",    "a/.b",	 "a b", "a\nb", "a+b",		 ":a",
		"a::b",	     "a:latest", "-a",	"a-",	"docker.io/a/b", "library/a",
		"(imported)"};
	char clean[IMAGE_NAME_MAX + 1], longest[IMAGE_NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (image_check_name(good[i], NULL) < 0)
			FAIL(good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (image_check_name(bad[i], NULL) == 0)
			FAIL(bad[i]);
	memset(longest, 'a', sizeof(longest));
	longest[IMAGE_NAME_MAX + 1] = 0;
	CHECK(image_check_name(longest, NULL) < 0);
	longest[IMAGE_NAME_MAX] = 0;
	CHECK_EQ(image_check_name(longest, NULL), 0);
	CHECK_EQ(image_name_clean("docker.io/library/alpine:latest", clean, NULL), 0);
	CHECK_STR(clean, "alpine");
	CHECK_EQ(image_name_clean("docker.io/acme/alpine", clean, NULL), 0);
	CHECK_STR(clean, "acme/alpine");
	CHECK_EQ(image_name_clean("library/acme/alpine", clean, NULL), 0);
	CHECK_STR(clean, "library/acme/alpine");
	CHECK(image_name_clean("docker.io/", clean, NULL) < 0);
	/* What is clean stays so. */
	CHECK(image_name_clean("docker.io/docker.io/a/b", clean, NULL) < 0);
	CHECK_EQ(image_name_clean("alpine:latest", clean, NULL), 0);
	CHECK_STR(clean, "alpine");
	CHECK(image_name_clean(":latest", clean, NULL) < 0);
}

STORE_TEST(layers_are_shared_and_go_with_the_last_name)
{
	struct tar_maker m;
	struct image *list, im;
	size_t count;

	m = good_tar();
	CHECK_EQ(import(&m, "one", NULL), 0);
	m = good_tar();
	CHECK_EQ(import(&m, "two", "root"), 0);
	CHECK_EQ(count_names(s.layers_fd), 1);
	CHECK_EQ(image_list(&s, &list, &count, &why), 0);
	CHECK_EQ(count, 3);
	CHECK_STR(list[0].name, "one");
	CHECK_STR(list[1].config.user, "root");
	CHECK(list[2].is_host);
	image_list_free(list, count);
	CHECK_EQ(image_remove(&s, &ids, "one", &why), 0);
	CHECK_EQ(count_names(s.layers_fd), 1);
	CHECK_EQ(image_find(&s, "two", &im, &why), 0);
	image_done(&im);
	/* Replacing the last name of a layer by another stream removes the old one. */
	maker_init(&m);
	maker_file(&m, "usr/x", "other");
	maker_end(&m);
	CHECK_EQ(import(&m, "two", NULL), 0);
	CHECK_EQ(count_names(s.layers_fd), 1);
	CHECK_EQ(image_remove(&s, &ids, "two", &why), 0);
	CHECK_EQ(count_names(s.layers_fd), 0);
}

STORE_TEST(what_is_missing_names_the_remedy)
{
	struct image im;

	CHECK_EQ(image_find(&s, "base", &im, &why), -ENOENT);
	CHECK_EQ(image_find(&s, "x", &im, &why), -ENOENT);
	CHECK_EQ(image_find(&s, "../x", &im, &why), -EINVAL);
	CHECK_EQ(image_find(&s, "host", &im, &why), 0);
	CHECK(im.is_host);
	CHECK_EQ(fd_write_file(s.images_fd, "bad", "layer ../../etc\nuser x\n", 23, 0600, false),
		 0);
	CHECK(image_find(&s, "bad", &im, &why) < 0);
	CHECK_EQ(fd_write_file(s.images_fd, "bad", "layer", 5, 0600, false), 0);
	CHECK(image_find(&s, "bad", &im, &why) < 0);
	CHECK_EQ(image_remove(&s, &ids, "bad", &why), 0);
}

STORE_TEST(the_host_skeleton)
{
	static const char *const never[] = {"etc/ssh",	       "etc/gshadow",	"etc/environment",
					    "etc/ssl/private", "etc/profile.d", "etc/gitconfig",
					    "var/lib/dpkg"};
	struct image im, again;
	struct stat st, before;
	char path[800], root[640], trash[64], *text;

	if (image_host_prepare(&s, &ids, &im, &why) < 0)
		FAIL(why.msg);
	CHECK_EQ(layer_root(&s, im.layers[0], root, sizeof(root)), 0);
	CHECK(im.is_host && str_starts(root, home_path));
	CHECK_STR(im.config.user, "user");
	snprintf(path, sizeof(path), "%s/etc/passwd", root);
	CHECK_EQ(fd_read_file(AT_FDCWD, path, 4096, &text, NULL), 0);
	CHECK(strstr(text, "user:x:1000:1000:") != NULL && strlen(text) < 250);
	free(text);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		CHECK_EQ(stat_in(&im, never[i], &st), -ENOENT);
	CHECK_EQ(stat_in(&im, "tmp", &st), 0);
	CHECK_EQ(st.st_mode & 07777, ids.kind == IDS_SINGLE ? 01777 : 01777);
	CHECK_EQ(stat_in(&im, "usr", &st), 0);
	CHECK(S_ISDIR(st.st_mode));
	CHECK_EQ(stat_in(&im, "home/user", &st), 0);
	CHECK_EQ(st.st_uid, ids.kind == IDS_RANGE ? 1000 : getuid());
	CHECK_EQ(stat_in(&im, "etc", &before), 0);
	CHECK_EQ(image_host_prepare(&s, &ids, &again, &why), 0);
	CHECK_STR(again.layers[0], im.id);
	CHECK_EQ(stat_in(&again, "etc", &st), 0);
	CHECK_EQ(st.st_ino, before.st_ino);
	CHECK_EQ(count_names(s.layers_fd), 1);
	make_box("dev", "host");
	CHECK_EQ(image_remove(&s, &ids, "host", &why), -EBUSY);
	CHECK_EQ(record_trash(&s, "dev", false, trash, NULL), 0);
	CHECK_EQ(image_remove(&s, &ids, "host", &why), 0);
	CHECK_EQ(count_names(s.layers_fd), 0);
	CHECK_EQ(image_remove(&s, &ids, "host", &why), 0);
}

/* An old skeleton stays for as long as a box of the host image is there. */
STORE_TEST(old_host_skeletons_go_with_their_boxes)
{
	struct image im;
	char trash[64];

	CHECK(mkdirat(s.layers_fd, "host-skeleton-0-old", 0700) == 0);
	make_box("dev", "host");
	CHECK_EQ(image_host_prepare(&s, &ids, &im, &why), 0);
	CHECK_EQ(count_names(s.layers_fd), 2);
	CHECK_EQ(record_trash(&s, "dev", false, trash, NULL), 0);
	CHECK_EQ(tree_remove_as(&ids, s.layers_fd, im.id, &why), 0);
	CHECK_EQ(image_host_prepare(&s, &ids, &im, &why), 0);
	CHECK_EQ(count_names(s.layers_fd), 1);
	CHECK_EQ(tree_remove_as(&ids, s.layers_fd, im.id, &why), 0);
}

STORE_TEST(eight_skeletons_at_once)
{
	enum { MAKERS = 8 };
	pid_t pids[MAKERS];

	for (int i = 0; i < MAKERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct image im;

			_exit(image_host_prepare(&s, &ids, &im, &why) < 0);
		}
	}
	for (int i = 0; i < MAKERS; i++) {
		int status;

		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	}
	CHECK_EQ(count_names(s.layers_fd), 1);
	{
		struct image im;

		CHECK_EQ(image_host_prepare(&s, &ids, &im, &why), 0);
		CHECK_EQ(tree_remove_as(&ids, s.layers_fd, im.id, &why), 0);
	}
}

TAP_MAIN
