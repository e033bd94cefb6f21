/* Blobs on disk: whole or absent, checked, resumed, written by one at a time. */
#include "store_home.h"
#include "tap.h"

#include "store/blobs.h"

#include <sys/stat.h>

static struct err e;

static char text[300000]; /* not a multiple of anything */
static char digest[BLOB_DIGEST];

static void make_text(void)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7 + i / 251);
	sha256_hex(text, sizeof(text), digest);
}

static void put_part(struct state *s, size_t upto)
{
	struct blob_put p;

	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(blobs_add(s, &p, text + p.have, upto - p.have, &e), 0);
	blobs_leave(&p);
}

static void check_whole(struct state *s)
{
	autofree char *got = NULL;
	size_t len;

	CHECK(blobs_has(s, digest));
	CHECK_EQ(blobs_read(s, digest, sizeof(text), &got, &len, &e), 0);
	CHECK_EQ(len, sizeof(text));
	CHECK_MEM(got, text, len);
	CHECK_EQ(blobs_verify(s, digest, &e), 0);
}

static int count_blobs(struct state *s)
{
	autoclose int fd = openat(s->home_fd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return count_names(fd);
}

HOME_TEST(what_was_put_comes_back)
{
	struct blob_put p;
	uint64_t size;
	int fd;

	make_text();
	CHECK(!blobs_has(s, digest));
	CHECK_EQ(blobs_open(s, digest, &fd, &size, &e), -ENOENT);
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(p.have, 0);
	for (size_t at = 0; at < sizeof(text); at += 1000) {
		CHECK(!blobs_has(s, digest));
		CHECK_EQ(blobs_add(s, &p, text + at, 1000, &e), 0);
	}
	CHECK_EQ(blobs_end(s, &p, &e), 0);
	check_whole(s);
	CHECK_EQ(blobs_open(s, digest, &fd, &size, &e), 0);
	CHECK_EQ(size, sizeof(text));
	close(fd);
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 1);
	CHECK_EQ(count_blobs(s), 1);
}

HOME_TEST(half_of_one_is_none_and_the_rest_goes_behind_it)
{
	struct blob_put p;

	make_text();
	put_part(s, 100001);
	CHECK(!blobs_has(s, digest));
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(p.have, 100001);
	CHECK_EQ(p.resumed, 100001);
	CHECK_EQ(blobs_add(s, &p, text + p.have, sizeof(text) - p.have, &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), 0);
	check_whole(s);
	CHECK_EQ(count_blobs(s), 1);
}

HOME_TEST(too_little_is_refused)
{
	struct blob_put p;

	make_text();
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(blobs_add(s, &p, text, 100, &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), -EBADMSG);
	CHECK_EQ(e.kind, ERR_PROTOCOL);
	CHECK_EQ(count_blobs(s), 0);
}

HOME_TEST(more_than_was_said_is_refused)
{
	struct blob_put p;

	make_text();
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(blobs_add(s, &p, text, sizeof(text), &e), 0);
	CHECK_EQ(blobs_add(s, &p, "x", 1, &e), -EFBIG);
	CHECK_EQ(e.kind, ERR_PROTOCOL);
	blobs_drop(&p);
	CHECK_EQ(count_blobs(s), 0);
	CHECK_EQ(blobs_begin(s, digest, BLOB_SIZE_UNKNOWN - 1, &p, &e), -EFBIG);
}

HOME_TEST(a_lying_digest_is_refused)
{
	struct blob_put p;

	make_text();
	text[5]++;
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(blobs_add(s, &p, text, sizeof(text), &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), -EBADMSG);
	CHECK_EQ(e.kind, ERR_PROTOCOL);
	CHECK_EQ(blobs_put(s, digest, text, sizeof(text), NULL, &e), -EBADMSG);
	CHECK_EQ(count_blobs(s), 0);
}

HOME_TEST(a_part_that_was_damaged_is_begun_again)
{
	char name[128];
	struct blob_put p;

	make_text();
	put_part(s, 1000);
	snprintf(name, sizeof(name), "blobs/.part-%s", digest);
	autoclose int fd = openat(s->home_fd, name, O_WRONLY | O_CLOEXEC);
	CHECK_EQ(pwrite(fd, "damage", 6, 500), 6);
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(p.resumed, 1000);
	CHECK_EQ(blobs_restart(s, &p, &e), 0);
	CHECK_EQ(p.have, 0);
	CHECK_EQ(blobs_add(s, &p, text, sizeof(text), &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), 0);
	check_whole(s);
}

HOME_TEST(a_part_that_is_too_long_is_begun_again)
{
	struct blob_put p;

	make_text();
	put_part(s, 1000);
	CHECK_EQ(blobs_begin(s, digest, 999, &p, &e), 0);
	CHECK_EQ(p.have, 0);
	blobs_leave(&p);
}

HOME_TEST(one_writes_at_a_time)
{
	struct blob_put first, second;

	make_text();
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &first, &e), 0);
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &second, &e), -EBUSY);
	CHECK_EQ(e.kind, ERR_CONFLICT);
	CHECK_EQ(blobs_add(s, &first, text, 10, &e), 0);
	blobs_leave(&first);
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &second, &e), 0);
	CHECK_EQ(second.have, 10);
	blobs_drop(&second);
	CHECK_EQ(count_blobs(s), 0);
}

/* Eight processes that all want it: each finishes it, finds it, or waits for its turn. */
HOME_TEST(many_at_once_make_one)
{
	make_text();
	for (int i = 0; i < 8; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid > 0)
			continue;
		for (;;) {
			struct blob_put p;
			int r = blobs_begin(s, digest, sizeof(text), &p, &e);

			if (r == 1)
				_exit(0);
			if (r == -EBUSY)
				continue;
			CHECK_EQ(r, 0);
			if (p.have < sizeof(text)) {
				size_t n = sizeof(text) - p.have < 40000 ? sizeof(text) - p.have
									 : 40000;

				CHECK_EQ(blobs_add(s, &p, text + p.have, n, &e), 0);
			}
			if (p.have == sizeof(text))
				CHECK_EQ(blobs_end(s, &p, &e), 0);
			else
				blobs_leave(&p);
		}
	}
	for (int i = 0; i < 8; i++) {
		int status;

		CHECK(wait(&status) > 0);
		CHECK_EQ(status, 0);
	}
	check_whole(s);
	CHECK_EQ(count_blobs(s), 1);
}

/* Killed in the middle, by SIGKILL: what it wrote is a part, unlocked, and nothing else. */
HOME_TEST(a_killed_writer_leaves_a_part_to_go_on_with)
{
	struct blob_put p;
	int ready[2], status;
	pid_t pid;
	char c;

	make_text();
	CHECK_EQ(pipe(ready), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
		CHECK_EQ(blobs_add(s, &p, text, 123456, &e), 0);
		CHECK_EQ(write(ready[1], "x", 1), 1);
		pause();
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(!blobs_has(s, digest));
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(p.resumed, 123456);
	CHECK_EQ(blobs_add(s, &p, text + p.have, sizeof(text) - p.have, &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), 0);
	check_whole(s);
}

HOME_TEST(one_without_a_digest_is_named_after_what_came)
{
	char got[BLOB_DIGEST];
	struct blob_put p;

	make_text();
	CHECK_EQ(blobs_begin(s, NULL, BLOB_SIZE_UNKNOWN, &p, &e), 0);
	CHECK_EQ(blobs_add(s, &p, text, sizeof(text), &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), 0);
	CHECK_STR(p.digest, digest);
	check_whole(s);
	CHECK_EQ(blobs_put(s, NULL, "abc", 3, got, &e), 0);
	CHECK_STR(got, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	CHECK_EQ(blobs_put(s, got, "abc", 3, NULL, &e), 0);
	CHECK_EQ(count_blobs(s), 2);
}

HOME_TEST(listed_removed_and_swept)
{
	struct blob_put p, busy;
	char other[BLOB_DIGEST], **names;
	uint64_t bytes;
	size_t count;

	CHECK_EQ(blobs_list(s, &names, &count, &e), 0);
	CHECK_EQ(count, 0);
	state_names_free(names, count);
	CHECK_EQ(blobs_drop_parts(s, &bytes, &e), 0);
	CHECK_EQ(blobs_put(s, NULL, "abc", 3, other, &e), 0);
	make_text();
	put_part(s, 77);
	CHECK_EQ(blobs_begin(s, NULL, BLOB_SIZE_UNKNOWN, &busy, &e), 0);
	CHECK_EQ(blobs_list(s, &names, &count, &e), 0);
	CHECK_EQ(count, 1);
	CHECK_STR(names[0], other);
	state_names_free(names, count);
	CHECK_EQ(blobs_drop_parts(s, &bytes, &e), 0);
	CHECK_EQ(bytes, 77);
	CHECK_EQ(count_blobs(s), 2);
	blobs_leave(&busy);
	CHECK_EQ(blobs_drop_parts(s, &bytes, &e), 0);
	CHECK_EQ(count_blobs(s), 1);
	CHECK_EQ(blobs_remove(s, other, &e), 0);
	CHECK_EQ(blobs_remove(s, other, &e), 0);
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &p, &e), 0);
	CHECK_EQ(p.have, 0);
	blobs_drop(&p);
	CHECK_EQ(count_blobs(s), 0);
}

HOME_TEST(what_a_killed_writer_left_without_a_digest_goes)
{
	struct blob_put left, busy, part;

	make_text();
	CHECK_EQ(blobs_begin(s, NULL, BLOB_SIZE_UNKNOWN, &left, &e), 0);
	blobs_leave(&left);
	CHECK_EQ(blobs_begin(s, NULL, BLOB_SIZE_UNKNOWN, &busy, &e), 0);
	CHECK_EQ(blobs_begin(s, digest, sizeof(text), &part, &e), 0);
	blobs_leave(&part);
	CHECK_EQ(count_blobs(s), 3);
	blobs_sweep(s);
	CHECK_EQ(count_blobs(s), 2);
	blobs_drop(&busy);
}

HOME_TEST(held_ones_are_not_locked)
{
	int one, two, claim;

	CHECK_EQ(blobs_hold(s, &one, &e), 0);
	CHECK_EQ(blobs_hold(s, &two, &e), 0);
	CHECK_EQ(blobs_lock(s, &claim, &e), -EBUSY);
	close(one);
	CHECK_EQ(blobs_lock(s, &claim, &e), -EBUSY);
	CHECK_EQ(e.kind, ERR_CONFLICT);
	close(two);
	CHECK_EQ(blobs_lock(s, &claim, &e), 0);
	close(claim);
}

HOME_TEST(damage_is_found)
{
	char name[128], got[BLOB_DIGEST];

	CHECK_EQ(blobs_put(s, NULL, "abc", 3, got, &e), 0);
	CHECK_EQ(blobs_verify(s, got, &e), 0);
	snprintf(name, sizeof(name), "blobs/%s", got);
	autoclose int fd = openat(s->home_fd, name, O_WRONLY | O_CLOEXEC);
	CHECK_EQ(pwrite(fd, "X", 1, 1), 1);
	CHECK_EQ(blobs_verify(s, got, &e), -EBADMSG);
	CHECK_EQ(e.kind, ERR_DAMAGED);
}

static void overwrite(struct state *s, const char *blob, const char *with)
{
	char name[128];

	snprintf(name, sizeof(name), "blobs/%s", blob);
	autoclose int fd = openat(s->home_fd, name, O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK_EQ(write(fd, with, strlen(with)), (ssize_t)strlen(with));
}

HOME_TEST(what_is_damaged_is_moved_aside_until_it_is_back)
{
	char got[BLOB_DIGEST], **names;
	struct blob_put p;
	size_t count;

	CHECK_EQ(blobs_put(s, NULL, "abc", 3, got, &e), 0);
	overwrite(s, got, "aXc");
	CHECK(blobs_has_size(s, got, 3) && !blobs_is_aside(s, got));
	CHECK_EQ(blobs_verify(s, got, &e), -EBADMSG);
	CHECK(!blobs_has(s, got) && blobs_is_aside(s, got));
	CHECK_EQ(blobs_verify(s, got, &e), -ENOENT);
	CHECK_EQ(blobs_list(s, &names, &count, &e), 0);
	CHECK_EQ(count, 0);
	state_names_free(names, count);
	CHECK_EQ(blobs_list_aside(s, &names, &count, &e), 0);
	CHECK(count == 1 && strcmp(names[0], got) == 0);
	state_names_free(names, count);
	CHECK_EQ(blobs_begin(s, got, 3, &p, &e), 0);
	CHECK_EQ(blobs_add(s, &p, "abc", 3, &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), 0);
	CHECK(blobs_has(s, got) && !blobs_is_aside(s, got));
	CHECK_EQ(count_blobs(s), 1);
	/* A small one is looked at when it is put; gone with all of it. */
	overwrite(s, got, "aXc");
	CHECK_EQ(blobs_put(s, got, "abc", 3, NULL, &e), 0);
	CHECK_EQ(blobs_verify(s, got, &e), 0);
	overwrite(s, got, "aXc");
	CHECK_EQ(blobs_verify(s, got, &e), -EBADMSG);
	CHECK_EQ(blobs_remove(s, got, &e), 0);
	CHECK_EQ(count_blobs(s), 0);
}

HOME_TEST(one_of_another_size_is_not_there)
{
	char got[BLOB_DIGEST];
	struct blob_put p;

	CHECK_EQ(blobs_put(s, NULL, "abc", 3, got, &e), 0);
	overwrite(s, got, "ab");
	CHECK(blobs_has(s, got) && !blobs_has_size(s, got, 3));
	CHECK_EQ(blobs_begin(s, got, 3, &p, &e), 0);
	CHECK_EQ(blobs_add(s, &p, "abc", 3, &e), 0);
	CHECK_EQ(blobs_end(s, &p, &e), 0);
	CHECK_EQ(blobs_verify(s, got, &e), 0);
	CHECK_EQ(blobs_begin(s, got, 3, &p, &e), 1);
	CHECK_EQ(count_blobs(s), 1);
}

HOME_TEST(names_that_are_no_digests)
{
	static const char *const bad[] = {
		"",
		"abc",
		"../../etc/passwd",
		"BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
		"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a/",
	};
	struct blob_put p;
	int fd;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(blobs_begin(s, bad[i], 1, &p, &e), -EINVAL);
		CHECK_EQ(blobs_open(s, bad[i], &fd, NULL, &e), -EINVAL);
		CHECK_EQ(blobs_remove(s, bad[i], &e), -EINVAL);
		CHECK(!blobs_has(s, bad[i]));
	}
	CHECK(!blobs_is_digest(NULL));
}

/* A link or a directory of that name is not followed, nor taken for a blob. */
HOME_TEST(only_files_are_blobs)
{
	struct blob_put p;
	char name[128];
	int fd;

	make_text();
	CHECK_EQ(mkdirat(s->home_fd, "blobs", 0700), 0);
	snprintf(name, sizeof(name), "blobs/%s", digest);
	CHECK_EQ(symlinkat("/etc/passwd", s->home_fd, name), 0);
	CHECK(!blobs_has(s, digest));
	CHECK(blobs_open(s, digest, &fd, NULL, &e) < 0);
	CHECK_EQ(unlinkat(s->home_fd, name, 0), 0);
	snprintf(name, sizeof(name), "blobs/.part-%s", digest);
	CHECK_EQ(symlinkat("../victim", s->home_fd, name), 0);
	CHECK(blobs_begin(s, digest, 1, &p, &e) < 0);
	CHECK_EQ(faccessat(s->home_fd, "victim", F_OK, 0), -1);
}

TAP_MAIN
