/* libcove and cove-store: what goes over, and that nothing is left of it. The other side is the
 * real program, or a script in its place. */
#include "base/fd.h"
#include "base/lines.h"
#include "core/core.h"
#include "core/helper.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static char home[64];

static struct cove *open_home(void)
{
	struct cove_error err;
	struct cove *cove;

	snprintf(home, sizeof(home), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(home));
	CHECK_EQ(cove_new(&cove,
			  &(struct cove_options){.size = sizeof(struct cove_options), .home = home},
			  &err),
		 0);
	return cove;
}

static void close_home(struct cove *cove)
{
	pid_t pid;

	cove_free(cove);
	signal(SIGCHLD, SIG_DFL);
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD);
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* A program in the helper's place. */
static void put_script(const char *body)
{
	autoclose int fd = -1, dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	fd = openat(dir, "cove-store", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, "#!/bin/sh\n", 10), 0);
	CHECK_EQ(fd_write_full(fd, body, strlen(body)), 0);
	setenv("COVE_LIBEXEC", home, 1);
}

static void use_real(void)
{
	const char *path = getenv("COVE_STORE");
	char dir[512];

	if (!path)
		SKIP("COVE_STORE says where cove-store is");
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	setenv("COVE_LIBEXEC", dir, 1);
}

TEST(the_real_one_answers)
{
	struct cove *cove = open_home();
	struct err e = {0};
	char *text = NULL;

	use_real();
	signal(SIGCHLD, SIG_IGN);
	CHECK_EQ(helper_run(cove, &(struct helper_call){.verb = "versions"}, &text, &e), 0);
	CHECK(strstr(text, "\"sqlite\":\"3."));
	free(text);
	close_home(cove);
}

TEST(the_real_one_refuses)
{
	struct cove *cove = open_home();
	struct err e = {0};

	use_real();
	CHECK_EQ(helper_run(cove, &(struct helper_call){.verb = "nothing"}, NULL, &e), -ENOSYS);
	CHECK_EQ(e.kind, ERR_UNSUPPORTED);
	CHECK(strstr(e.msg, "nothing"));
	CHECK_EQ(helper_run(cove, &(struct helper_call){.verb = "versions", .args = "{"}, NULL, &e),
		 -EBADMSG);
	CHECK_EQ(e.kind, ERR_PROTOCOL);
	CHECK_EQ(
		helper_run(cove, &(struct helper_call){.verb = "versions", .args = "[]"}, NULL, &e),
		-EBADMSG);
	close_home(cove);
}

TEST(the_build_cache)
{
	struct cove *cove = open_home();
	char *text = NULL;
	struct err e = {0};

	use_real();
	CHECK_EQ(helper_run(cove,
			    &(struct helper_call){
				    .verb = "cache-put",
				    .args = "{\"key\":\"k\",\"text\":\"cmd a\\nenv b\"}"},
			    NULL, &e),
		 0);
	CHECK_EQ(helper_run(cove,
			    &(struct helper_call){.verb = "cache-find",
						  .args = "{\"keys\":[\"x\",\"k\"]}"},
			    &text, &e),
		 0);
	CHECK_STR(text, "key k\nlayer \ntext cmd a\\nenv b\n");
	free(text);
	CHECK_EQ(helper_run(cove,
			    &(struct helper_call){.verb = "cache-put",
						  .args = "{\"key\":\"k\",\"layer\":\"../x\"}"},
			    NULL, &e),
		 -EINVAL);
	close_home(cove);
}

static bool on_progress(void *arg, char *text, size_t len)
{
	const char *key, *value;
	struct lines l;
	struct buf *seen = arg;

	lines_init(&l, text, len);
	while (lines_next(&l, &key, &value) > 0)
		CHECK_EQ(buf_printf(seen, "%s=%s;", key, value), 0);
	return true;
}

TEST(progress_and_result_are_texts_of_their_own)
{
	struct cove *cove = open_home();
	struct err e = {0};
	char *text = NULL;
	struct buf seen;

	buf_init(&seen, 256);
	put_script("printf 'progress layer a\\\\nbytes 1\\\\n\\n' >&4\n"
		   "printf 'progress bytes 2\\\\n\\nresult one\\\\ntwo\\\\\\\\\\n' >&4\n");
	CHECK_EQ(helper_run(cove,
			    &(struct helper_call){
				    .verb = "x", .on_progress = on_progress, .arg = &seen},
			    &text, &e),
		 0);
	CHECK_STR(buf_cstr(&seen), "layer=a;bytes=1;bytes=2;");
	buf_done(&seen);
	CHECK_STR(text, "one\ntwo\\");
	free(text);
	close_home(cove);
}

TEST(descriptors_come_by_name)
{
	struct cove *cove = open_home();
	autoclose int fd = -1;
	char *text = NULL;
	struct err e = {0};

	CHECK_EQ(fd_seal("x", "hello", 5, &fd), 0);
	put_script("grep -q '\"fds\":{\"a\":5,\"b\":6}' /proc/self/fd/3 || exit 1\n"
		   "[ -e /proc/self/fd/7 ] && exit 1\n"
		   "printf 'result %s\\n' \"$(cat /proc/self/fd/6)\" >&4\n");
	CHECK_EQ(helper_run(cove,
			    &(struct helper_call){.verb = "x",
						  .fds = (struct helper_fd[]){{"a", 2}, {"b", fd}},
						  .fd_count = 2},
			    &text, &e),
		 0);
	CHECK_STR(text, "hello");
	free(text);
	close_home(cove);
}

TEST(an_error_is_the_callers)
{
	struct cove *cove = open_home();
	char *text = NULL;
	struct err e = {0};

	put_script("printf 'error kind full\\\\ncode 28\\\\nmessage no room\\\\n\\n' >&4\n");
	CHECK_EQ(helper_run(cove, &(struct helper_call){.verb = "x"}, &text, &e), -ENOSPC);
	CHECK_EQ(e.kind, ERR_FULL);
	CHECK_STR(e.msg, "no room");
	CHECK(!text);
	CHECK_EQ(helper_run(cove, &(struct helper_call){.verb = "x"}, NULL, NULL), -ENOSPC);
	close_home(cove);
}

TEST(what_is_no_answer)
{
	static const struct {
		const char *script;
		enum err_kind kind;
	} cases[] = {
		{"exit 3\n", ERR_INTERNAL},
		{"kill -9 $$\n", ERR_INTERRUPTED},
		{"exit 127\n", ERR_UNSUPPORTED},
		{"printf 'result x' >&4\n", ERR_PROTOCOL},
		{"printf 'frob x\\n' >&4\n", ERR_PROTOCOL},
		{"printf 'result x\\nresult y\\n' >&4\n", ERR_PROTOCOL},
		{"printf 'result x\\n' >&4; exit 3\n", ERR_INTERNAL},
		{"printf 'error kind\\n' >&4\n", ERR_PROTOCOL},
		{"printf '\\n' >&4\n", ERR_PROTOCOL},
		{"printf 'result a\\0b\\n' >&4\n", ERR_PROTOCOL},
	};
	struct cove *cove = open_home();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = {0};
		char *text = NULL;

		put_script(cases[i].script);
		CHECK(helper_run(cove, &(struct helper_call){.verb = "x"}, &text, &e) < 0);
		CHECK_EQ(e.kind, cases[i].kind);
		CHECK(!text && e.msg[0]);
	}
	close_home(cove);
}

static bool stop(void *arg, char *text, size_t len)
{
	*(pid_t *)arg = (pid_t)atoi(text + strlen("pid "));
	return false;
}

/* It says which process it is and goes on for ever; after the call it is gone. */
#define FOR_EVER                                                             \
	"printf 'progress pid %d\\\\n\\n' $$ >&4\nread x </proc/self/fd/5\n" \
	"while :; do read x <&5 || exit 0; done\n"

TEST(the_caller_may_end_it)
{
	struct cove *cove = open_home();
	struct err e = {0};
	pid_t pid = 0;
	int held[2], cancel[2];

	CHECK_EQ(pipe2(held, O_CLOEXEC), 0);
	CHECK_EQ(pipe2(cancel, O_CLOEXEC), 0);
	put_script(FOR_EVER);
	CHECK_EQ(helper_run(cove,
			    &(struct helper_call){.verb = "x",
						  .fds = (struct helper_fd[]){{"held", held[0]}},
						  .fd_count = 1,
						  .on_progress = stop,
						  .arg = &pid},
			    NULL, &e),
		 -ECANCELED);
	CHECK_EQ(e.kind, ERR_INTERRUPTED);
	CHECK(pid > 0 && kill(pid, 0) < 0);
	close(cancel[1]);
	CHECK_EQ(helper_run(cove,
			    &(struct helper_call){.verb = "x",
						  .fds = (struct helper_fd[]){{"held", held[0]}},
						  .fd_count = 1,
						  .cancel_fd = cancel[0]},
			    NULL, &e),
		 -ECANCELED);
	close_home(cove);
}

TAP_MAIN
