/*
 * File operations of the real cove-init, over a socketpair, as its keeper would drive it.
 *
 * Most tests run it with --single in a directory of their own. What needs other ids runs as root
 * without --single, and is skipped elsewhere.
 */
#include "tap.h"

#include "file_client.h"

#include "base/fd.h"
#include "base/limits.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

static char dir[64]; /* this test's own */

static void remove_dir(void)
{
	char cmd[] = "rm", flag[] = "-rf";
	char *argv[] = {cmd, flag, dir, NULL};
	pid_t pid = fork();

	if (pid == 0) {
		execvp(cmd, argv);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static struct client start(void)
{
	const char *const args[] = {"--single", "--cwd", dir, NULL};

	snprintf(dir, sizeof(dir), "/tmp/cove-files-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	CHECK_EQ(chmod(dir, 0755), 0);
	return client_start(args);
}

static void finish(struct client *c)
{
	client_stop(c);
	remove_dir();
}

static const char *at(const char *rel)
{
	static char paths[4][8192];
	static unsigned n;
	char *p = paths[n++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", dir, rel);
	return p;
}

static void write_file(const char *rel, const void *p, size_t n)
{
	int fd = open(at(rel), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, p, n), 0);
	close(fd);
}

static char *read_file(const char *rel, size_t *ret_len)
{
	char *text = NULL;

	CHECK_EQ(fd_read_file(AT_FDCWD, at(rel), 64u << 20, &text, ret_len), 0);
	return text;
}

static bool exists(const char *rel)
{
	struct stat st;

	return lstat(at(rel), &st) == 0;
}

/* Names in the test's directory, to see that no temporary stayed. */
static int count_names(const char *rel)
{
	struct client_result r;
	const char *const args[] = {"--single", NULL};
	struct client c = client_start(args);
	int n;

	r = client_file(&c, &(struct wire_file){.op = FILE_LIST, .path = at(rel)});
	CHECK_EQ(r.code, 0);
	n = (int)r.entries;
	client_result_done(&r);
	client_stop(&c);
	return n;
}

static int put_bytes(struct client *c, const char *path, const void *p, size_t n, mode_t mode)
{
	uint32_t id = client_begin(c, &(struct wire_file){.op = FILE_PUT, .path = path});
	struct client_result r;

	client_put_file(c, id, "", mode, p, n);
	client_entry(c, id, &(struct wire_entry){.type = 'E'});
	r = client_finish(c, id);
	client_result_done(&r);
	return r.code;
}

TEST(put_and_get_one_file)
{
	struct client c = start();
	struct client_result r;
	struct stat st;

	CHECK_EQ(put_bytes(&c, "a.txt", "hello", 5, 0640), 0);
	CHECK_EQ(stat(at("a.txt"), &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0640);
	CHECK_EQ(st.st_size, 5);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "a.txt"});
	CHECK_EQ(r.code, 0);
	CHECK_EQ(r.entries, 1);
	CHECK_STR(r.log, "f  640 5\n");
	CHECK_EQ(buf_len(&r.data), 5);
	CHECK_MEM(buf_data(&r.data), "hello", 5);
	client_result_done(&r);
	CHECK_EQ(count_names(""), 1);
	finish(&c);
}

TEST(large_file_both_ways)
{
	enum { N = 20 << 20 };
	struct client c = start();
	uint8_t *bytes = malloc(N);
	struct client_result r;

	for (size_t i = 0; i < N; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	CHECK_EQ(put_bytes(&c, at("big"), bytes, N, 0600), 0);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = at("big")});
	CHECK_EQ(r.code, 0);
	CHECK_EQ(buf_len(&r.data), N);
	CHECK_MEM(buf_data(&r.data), bytes, N);
	client_result_done(&r);
	free(bytes);
	finish(&c);
}

TEST(put_sets_time_and_makes_parents)
{
	struct client c = start();
	uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "x/y/z"});
	struct wire_entry m = {.type = 'f', .path = "", .mtime_ns = 1234567890123456789u};
	struct client_result r;
	struct stat st;

	client_entry(&c, id, &m);
	client_send(&c, WIRE_EOF, WIRE_STDIN, id, NULL, 0);
	client_entry(&c, id, &(struct wire_entry){.type = 'E'});
	r = client_finish(&c, id);
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	CHECK_EQ(stat(at("x/y/z"), &st), 0);
	CHECK_EQ(st.st_mtim.tv_sec, 1234567890);
	CHECK_EQ(st.st_mtim.tv_nsec, 123456789);
	CHECK_EQ(st.st_mode & 07777, 0644);
	finish(&c);
}

TEST(tree_both_ways)
{
	struct client c = start();
	uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "t"});
	struct client_result r;
	struct stat st;

	client_entry(&c, id, &(struct wire_entry){.type = 'd', .path = "", .mode = 0750});
	client_entry(&c, id, &(struct wire_entry){.type = 'd', .path = "locked", .mode = 0555});
	client_put_file(&c, id, "locked/f", 0600, "abc", 3);
	client_entry(&c, id,
		     &(struct wire_entry){.type = 'l', .path = "link", .target = "/nowhere"});
	client_put_file(&c, id, "empty", 0644, "", 0);
	client_entry(&c, id, &(struct wire_entry){.type = 'E'});
	r = client_finish(&c, id);
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	CHECK_EQ(stat(at("t/locked"), &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0555);
	CHECK_EQ(stat(at("t"), &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0750);

	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "t"});
	CHECK_EQ(r.code, 0);
	CHECK_EQ(r.entries, 5);
	CHECK(strstr(r.log, "d  750 0\n") == r.log);
	CHECK(strstr(r.log, "d locked 555 0\nf locked/f 600 3\n"));
	CHECK(strstr(r.log, "l link 777 0 -> /nowhere\n"));
	CHECK(strstr(r.log, "f empty 644 0\n"));
	client_result_done(&r);
	CHECK_EQ(chmod(at("t/locked"), 0755), 0);
	finish(&c);
}

/* Each is the second entry of a put below a directory, and refused. */
TEST(marks_out_of_place_are_refused)
{
	static const struct {
		struct wire_entry entry;
		int code;
	} cases[] = {
		{{.type = 'z', .path = "", .size = 5}, EPROTO},
		{{.type = 'h', .path = "b", .target = "../secret"}, EPROTO},
		{{.type = 'h', .path = "b", .target = "/etc/passwd"}, EPROTO},
		{{.type = 'h', .path = "b"}, EPROTO},
		{{.type = 'h', .path = "b", .target = "missing"}, ENOENT},
		{{.type = 'h', .path = "b", .target = "up/secret"}, ELOOP},
		{{.type = 'x', .path = "b", .target = "why"}, EINVAL},
	};
	struct client c = start();

	write_file("secret", "s", 1);
	CHECK_EQ(mkdir(at("t"), 0755), 0);
	CHECK_EQ(symlink("..", at("t/up")), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "t"});
		struct client_result r;

		client_entry(&c, id, &(struct wire_entry){.type = 'd', .path = "", .mode = 0755});
		client_entry(&c, id, &cases[i].entry);
		r = client_finish(&c, id);
		CHECK_EQ(r.code, cases[i].code);
		client_result_done(&r);
		CHECK(!exists("t/b"));
	}
	finish(&c);
}

TEST(put_onto_a_directory_is_refused)
{
	struct client c = start();

	CHECK_EQ(mkdir(at("d"), 0755), 0);
	CHECK_EQ(put_bytes(&c, "d", "x", 1, 0644), EISDIR);
	CHECK_EQ(put_bytes(&c, "new/", "x", 1, 0644), EISDIR);
	CHECK_EQ(put_bytes(&c, "/", "x", 1, 0644), EISDIR);
	CHECK_EQ(put_bytes(&c, ".", "x", 1, 0644), EISDIR);
	CHECK(!exists("new"));
	finish(&c);
}

TEST(special_files_are_refused_at_once)
{
	struct client c = start();
	struct client_result r;

	CHECK_EQ(mkfifo(at("fifo"), 0666), 0);
	CHECK_EQ(symlink("fifo", at("to-fifo")), 0);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "fifo"});
	CHECK_EQ(r.code, EINVAL);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "to-fifo"});
	CHECK_EQ(r.code, EINVAL);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "/dev/zero"});
	CHECK_EQ(r.code, EINVAL);
	client_result_done(&r);
	CHECK_EQ(put_bytes(&c, "fifo", "x", 1, 0644), EINVAL);
	CHECK_EQ(put_bytes(&c, "to-fifo", "x", 1, 0644), EINVAL);
	CHECK_EQ(put_bytes(&c, "/dev/null", "x", 1, 0644), EINVAL);
	/* In a tree they are named, never opened. */
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "."});
	CHECK_EQ(r.code, 0);
	CHECK(strstr(r.log, "o fifo "));
	client_result_done(&r);
	finish(&c);
}

TEST(links)
{
	struct client c = start();
	struct client_result r;
	char *text;

	CHECK_EQ(symlink("b", at("a")), 0);
	CHECK_EQ(symlink("a", at("b")), 0);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "a"});
	CHECK_EQ(r.code, ELOOP);
	client_result_done(&r);
	CHECK_EQ(put_bytes(&c, "a", "x", 1, 0644), ELOOP);
	/* A put writes through a link, also to what is not there yet. */
	CHECK_EQ(mkdir(at("sub"), 0755), 0);
	CHECK_EQ(symlink("sub/real", at("through")), 0);
	CHECK_EQ(put_bytes(&c, "through", "one", 3, 0644), 0);
	CHECK_EQ(put_bytes(&c, "through", "two", 3, 0644), 0);
	text = read_file("sub/real", NULL);
	CHECK_STR(text, "two");
	free(text);
	/* Init's own descriptors are out of reach. */
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "/proc/self/fd/2"});
	CHECK_EQ(r.code, ELOOP);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_STAT, .path = "through"});
	CHECK_STR(r.log, "l  777 0 -> sub/real\n");
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_STAT, .path = "through", .follow = 1});
	CHECK_STR(r.log, "f  644 3\n");
	client_result_done(&r);
	finish(&c);
}

TEST(planted_link_does_not_redirect_a_tree)
{
	struct client c = start();
	uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "t"});
	struct client_result r;

	CHECK_EQ(mkdir(at("t"), 0755), 0);
	CHECK_EQ(mkdir(at("outside"), 0755), 0);
	CHECK_EQ(symlink("../outside", at("t/sub")), 0);
	client_entry(&c, id, &(struct wire_entry){.type = 'd', .path = ""});
	client_entry(&c, id, &(struct wire_entry){.type = 'f', .path = "sub/x"});
	client_send(&c, WIRE_EOF, WIRE_STDIN, id, NULL, 0);
	client_entry(&c, id, &(struct wire_entry){.type = 'E'});
	r = client_finish(&c, id);
	CHECK_EQ(r.code, ELOOP);
	client_result_done(&r);
	CHECK(!exists("outside/x"));
	/* Nor is it followed on the way out, nor by remove. */
	write_file("outside/keep", "k", 1);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "t"});
	CHECK_EQ(r.code, 0);
	CHECK(strstr(r.log, "l sub 777 0 -> ../outside\n"));
	CHECK(!strstr(r.log, "keep"));
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_REMOVE, .path = "t", .recursive = 1});
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	CHECK(!exists("t"));
	CHECK(exists("outside/keep"));
	finish(&c);
}

TEST(put_entries_stay_below_the_path)
{
	static const char *const bad[] = {"../x", "a/../../x", "/etc/x", "a//b", "a/.", "a/"};
	struct client c = start();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "t"});
		struct client_result r;

		client_entry(&c, id, &(struct wire_entry){.type = 'f', .path = bad[i]});
		r = client_finish(&c, id);
		CHECK_EQ(r.code, EINVAL);
		client_result_done(&r);
	}
	finish(&c);
}

TEST(names_too_long)
{
	struct client c = start();
	char name[BOX_PATH_MAX + 8];
	struct client_result r;

	for (size_t n = 256; n < sizeof(name); n += 1280) {
		memset(name, 'n', sizeof(name));
		name[n] = '\0';
		CHECK_EQ(put_bytes(&c, name, "x", 1, 0644), ENAMETOOLONG);
		r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = name});
		CHECK_EQ(r.code, ENAMETOOLONG);
		client_result_done(&r);
		r = client_file(&c, &(struct wire_file){.op = FILE_MKDIR, .path = name});
		CHECK_EQ(r.code, ENAMETOOLONG);
		client_result_done(&r);
	}
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK_EQ(put_bytes(&c, name, "x", 1, 0644), ENAMETOOLONG);
	name[255] = '\0';
	CHECK_EQ(put_bytes(&c, name, "x", 1, 0644), 0);
	CHECK(exists(name));
	finish(&c);
}

static void make_deep(unsigned levels)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < levels; i++) {
		int next;

		CHECK_EQ(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(fd);
		fd = next;
	}
	close(fd);
}

TEST(deep_trees)
{
	struct client c = start();
	struct client_result r;

	make_deep(INIT_DEPTH_MAX);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "d"});
	CHECK_EQ(r.code, 0);
	CHECK_EQ(r.entries, INIT_DEPTH_MAX);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_REMOVE, .path = "d", .recursive = 1});
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	CHECK(!exists("d"));
	make_deep(INIT_DEPTH_MAX + 2);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "d"});
	CHECK_EQ(r.code, ELOOP);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_REMOVE, .path = "d", .recursive = 1});
	CHECK_EQ(r.code, ELOOP);
	client_result_done(&r);
	/* And the next operation finds nothing left over. */
	CHECK_EQ(put_bytes(&c, "after", "x", 1, 0644), 0);
	finish(&c);
}

TEST(growing_and_shrinking_files_end)
{
	enum { N = 4 << 20 };
	struct client c = start();
	char *bytes = calloc(1, N);
	struct client_result r;
	pid_t pid;

	write_file("grow", bytes, N);
	pid = fork();
	if (pid == 0) {
		int fd = open(at("grow"), O_WRONLY | O_APPEND | O_CLOEXEC);

		for (int i = 0; i < 2000 && write(fd, bytes, 4096) > 0; i++)
			;
		_exit(0);
	}
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "grow"});
	CHECK_EQ(r.code, 0);
	CHECK(buf_len(&r.data) >= N);
	client_result_done(&r);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);

	write_file("shrink", bytes, N);
	{
		/* Hold the credit back, cut the file, then let it go on. */
		uint32_t id =
			client_begin(&c, &(struct wire_file){.op = FILE_GET, .path = "shrink"});
		struct wire_frame f;

		client_next(&c, &f);
		CHECK_EQ(f.type, WIRE_ENTRY);
		CHECK_EQ(truncate(at("shrink"), 100), 0);
		r = client_finish(&c, id);
		CHECK_EQ(r.code, 0);
		CHECK(buf_len(&r.data) < N);
		client_result_done(&r);
	}
	free(bytes);
	finish(&c);
}

TEST(files_without_a_size)
{
	struct client c = start();
	struct client_result r;

	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "/proc/version"});
	CHECK_EQ(r.code, 0);
	CHECK(buf_len(&r.data) > 10);
	CHECK_MEM(buf_data(&r.data), "Linux", 5);
	client_result_done(&r);
	/* As good as endless: a part of it must not look like the whole. */
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "/proc/self/pagemap"});
	CHECK_EQ(r.code, EFBIG);
	client_result_done(&r);
	finish(&c);
}

TEST(cancel_takes_the_half_file_away)
{
	struct client c = start();
	uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "half"});
	struct client_result r;

	client_entry(&c, id, &(struct wire_entry){.type = 'f', .path = ""});
	client_send(&c, WIRE_DATA, WIRE_STDIN, id, "half", 4);
	client_send(&c, WIRE_CANCEL, 0, id, NULL, 0);
	r = client_finish(&c, id);
	CHECK_EQ(r.code, ECANCELED);
	client_result_done(&r);
	CHECK_EQ(count_names(""), 0);
	/* Late frames for it are dropped, and its id is free again. */
	client_send(&c, WIRE_DATA, WIRE_STDIN, id, "late", 4);
	client_send(&c, WIRE_EOF, WIRE_STDIN, id, NULL, 0);
	client_send(&c, WIRE_CANCEL, 0, id, NULL, 0);
	CHECK_EQ(put_bytes(&c, "whole", "x", 1, 0644), 0);
	CHECK_EQ(count_names(""), 1);
	finish(&c);
}

TEST(cancel_of_a_get)
{
	enum { N = 4 << 20 };
	struct client c = start();
	char *bytes = calloc(1, N);
	struct client_result r;
	uint32_t id;

	write_file("big", bytes, N);
	id = client_begin(&c, &(struct wire_file){.op = FILE_GET, .path = "big"});
	client_send(&c, WIRE_CANCEL, 0, id, NULL, 0);
	r = client_finish(&c, id);
	CHECK_EQ(r.code, ECANCELED);
	client_result_done(&r);
	CHECK_EQ(put_bytes(&c, "after", "x", 1, 0644), 0);
	free(bytes);
	finish(&c);
}

TEST(loss_of_the_keeper_takes_the_half_file_away)
{
	struct client c = start();
	uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "half"});
	struct client_result r;

	client_entry(&c, id, &(struct wire_entry){.type = 'f', .path = ""});
	client_send(&c, WIRE_DATA, WIRE_STDIN, id, "half", 4);
	r = client_file(&c, &(struct wire_file){.op = FILE_LIST, .path = "."});
	CHECK_EQ(r.entries, 1); /* the temporary */
	client_result_done(&r);
	client_stop(&c);
	CHECK_EQ(count_names(""), 0);
	remove_dir();
}

TEST(two_puts_to_one_path)
{
	struct client c = start();
	uint32_t a = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "same"});
	uint32_t b = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "same"});
	struct client_result r;
	char *text;

	client_entry(&c, a, &(struct wire_entry){.type = 'f', .path = ""});
	client_entry(&c, b, &(struct wire_entry){.type = 'f', .path = ""});
	for (int i = 0; i < 3; i++) {
		client_send(&c, WIRE_DATA, WIRE_STDIN, a, "a", 1);
		client_send(&c, WIRE_DATA, WIRE_STDIN, b, "b", 1);
	}
	client_send(&c, WIRE_EOF, WIRE_STDIN, b, NULL, 0);
	client_send(&c, WIRE_EOF, WIRE_STDIN, a, NULL, 0);
	client_entry(&c, a, &(struct wire_entry){.type = 'E'});
	r = client_finish(&c, a);
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	client_entry(&c, b, &(struct wire_entry){.type = 'E'});
	r = client_finish(&c, b);
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	text = read_file("same", NULL);
	CHECK_STR(text, "aaa");
	free(text);
	CHECK_EQ(count_names(""), 1);
	finish(&c);
}

TEST(broken_sequences_are_refused)
{
	struct client c = start();
	struct client_result r;
	uint32_t id;

	id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "p"});
	client_send(&c, WIRE_DATA, WIRE_STDIN, id, "x", 1);
	r = client_finish(&c, id);
	CHECK_EQ(r.code, EPROTO);
	client_result_done(&r);
	id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "p"});
	client_entry(&c, id, &(struct wire_entry){.type = 'f', .path = ""});
	client_entry(&c, id, &(struct wire_entry){.type = 'E'});
	r = client_finish(&c, id);
	CHECK_EQ(r.code, EPROTO);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = 99, .path = "p"});
	CHECK_EQ(r.code, ENOSYS);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET});
	CHECK_EQ(r.code, EINVAL);
	client_result_done(&r);
	CHECK_EQ(count_names(""), 0);
	finish(&c);
}

TEST(too_many_at_once)
{
	struct client c = start();
	struct client_result r;
	uint32_t ids[INIT_FILE_OPS_MAX];

	for (unsigned i = 0; i < INIT_FILE_OPS_MAX; i++)
		ids[i] = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "p"});
	r = client_file(&c, &(struct wire_file){.op = FILE_STAT, .path = "."});
	CHECK_EQ(r.code, EAGAIN);
	client_result_done(&r);
	for (unsigned i = 0; i < INIT_FILE_OPS_MAX; i++) {
		client_send(&c, WIRE_CANCEL, 0, ids[i], NULL, 0);
		r = client_finish(&c, ids[i]);
		CHECK_EQ(r.code, ECANCELED);
		client_result_done(&r);
	}
	r = client_file(&c, &(struct wire_file){.op = FILE_STAT, .path = "."});
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	finish(&c);
}

TEST(mkdir_move_chmod_remove)
{
	struct client c = start();
	struct client_result r;
	struct stat st;
	static const struct {
		struct wire_file m;
		int code;
	} steps[] = {
		{{.op = FILE_MKDIR, .path = "a/b/c", .mode = 0700}, 0},
		{{.op = FILE_MKDIR, .path = "a/b/c"}, 0},
		{{.op = FILE_MOVE, .path = "a/b/c", .to = "a/d"}, 0},
		{{.op = FILE_MOVE, .path = "nothing", .to = "a/e"}, ENOENT},
		{{.op = FILE_CHMOD, .path = "a/d", .mode = 0711}, 0},
		{{.op = FILE_CHMOD, .path = "nothing", .mode = 0711}, ENOENT},
		{{.op = FILE_REMOVE, .path = "a/b"}, 0},
		{{.op = FILE_REMOVE, .path = "a"}, ENOTEMPTY},
		{{.op = FILE_REMOVE, .path = "missing"}, 0},
		{{.op = FILE_REMOVE, .path = "missing/too", .recursive = 1}, 0},
		{{.op = FILE_REMOVE, .path = "/", .recursive = 1}, EINVAL},
		{{.op = FILE_REMOVE, .path = ".", .recursive = 1}, EINVAL},
		{{.op = FILE_LIST, .path = "missing"}, ENOENT},
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		r = client_file(&c, &steps[i].m);
		CHECK_EQ(r.code, steps[i].code);
		client_result_done(&r);
	}
	CHECK_EQ(stat(at("a/d"), &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0711);
	CHECK(!exists("a/b"));
	finish(&c);
}

TEST(many_files)
{
	enum { N = 3000 };
	struct client c = start();
	uint32_t id = client_begin(&c, &(struct wire_file){.op = FILE_PUT, .path = "many"});
	struct client_result r;

	client_entry(&c, id, &(struct wire_entry){.type = 'd', .path = ""});
	for (int i = 0; i < N; i++) {
		char name[32];

		snprintf(name, sizeof(name), "f%d", i);
		client_put_file(&c, id, name, 0644, name, strlen(name));
	}
	client_entry(&c, id, &(struct wire_entry){.type = 'E'});
	r = client_finish(&c, id);
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = "many"});
	CHECK_EQ(r.code, 0);
	CHECK_EQ(r.entries, N + 1);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_LIST, .path = "many"});
	CHECK_EQ(r.entries, N);
	client_result_done(&r);
	r = client_file(&c, &(struct wire_file){.op = FILE_REMOVE, .path = "many", .recursive = 1});
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	CHECK(!exists("many"));
	finish(&c);
}

TEST(work_is_done_as_the_user)
{
	const char *const args[] = {"--user", "1000:1000", NULL};
	struct client c;
	struct client_result r;
	struct stat st;

	if (geteuid() != 0)
		SKIP("needs root");
	snprintf(dir, sizeof(dir), "/tmp/cove-files-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	CHECK_EQ(chmod(dir, 0755), 0);
	CHECK_EQ(mkdir(at("mine"), 0755), 0);
	CHECK_EQ(chown(at("mine"), 1000, 1000), 0);
	write_file("secret", "s", 1);
	CHECK_EQ(chmod(at("secret"), 0600), 0);
	c = client_start(args);
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = at("secret")});
	CHECK_EQ(r.code, EACCES);
	client_result_done(&r);
	CHECK_EQ(put_bytes(&c, at("new"), "x", 1, 0644), EACCES);
	CHECK_EQ(put_bytes(&c, at("mine/new"), "x", 1, 0644), 0);
	CHECK_EQ(stat(at("mine/new"), &st), 0);
	CHECK_EQ(st.st_uid, 1000);
	CHECK_EQ(st.st_gid, 1000);
	r = client_file(&c, &(struct wire_file){.op = FILE_REMOVE, .path = at("secret")});
	CHECK_EQ(r.code, EACCES);
	client_result_done(&r);
	/* Asked for by name, root may. */
	r = client_file(&c, &(struct wire_file){.op = FILE_GET, .path = at("secret"), .user = "0"});
	CHECK_EQ(r.code, 0);
	client_result_done(&r);
	finish(&c);
}

TAP_MAIN
