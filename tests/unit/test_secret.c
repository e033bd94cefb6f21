/* Memory for credentials: locked, out of core dumps, wiped, and little of it. */
#include "tap.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/locked.h"
#include "door/secret.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef __SANITIZE_ADDRESS__
/* A number of kilobytes of the mapping that holds p, from /proc/self/smaps; flags gets VmFlags. */
static long mapping(const void *p, const char *field, char flags[256])
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	bool here = false;
	long value = -1;
	char line[512];

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2 &&
		    strchr(line, '-') < strchr(line, ' '))
			here = (unsigned long)p >= from && (unsigned long)p < to;
		else if (here && strncmp(line, field, strlen(field)) == 0)
			value = atol(line + strlen(field) + 1);
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			snprintf(flags, 256, "%.255s", line + 8);
	}
	fclose(f);
	return value;
}
#endif

TEST(kept_and_given_back)
{
	struct secret s;

	CHECK_EQ(secret_init(&s, "hunter2", 7), 0);
	CHECK_EQ(s.len, 7);
	CHECK_MEM(s.data, "hunter2", 7);
	secret_done(&s);
	secret_done(&s);
	CHECK(s.data == NULL && s.len == 0);
	CHECK_EQ(secret_init(&s, NULL, 0), 0);
	CHECK(s.data != NULL && s.len == 0);
	secret_done(&s);
	CHECK_EQ(secret_init(&s, "x", SIZE_MAX), -ENOMEM);
	CHECK(s.data == NULL);
	CHECK(!locked_is(s.data));
}

TEST(wiped)
{
	static const char text[] =
		"a secret that is longer than one unit of the pool, so that more "
		"than one has to be wiped";
	struct secret keep, s;
	uint8_t *at;

	/* One stays, so that the page does too. */
	CHECK_EQ(secret_init(&keep, "stays", 5), 0);
	CHECK_EQ(secret_init(&s, text, sizeof(text)), 0);
	at = s.data;
	s.len = 3; /* a trailing newline cut, say */
	secret_done(&s);
	for (size_t i = 0; i < sizeof(text); i++)
		CHECK_EQ(at[i], 0);
	CHECK_MEM(keep.data, "stays", 5);
	secret_done(&keep);
}

/* The sanitizers make mlock do nothing: these are in secret_plain, the same file without them. */
#ifndef __SANITIZE_ADDRESS__

TEST(locked_and_not_dumped)
{
	char flags[256] = "", big[20000] = "big";
	struct secret s, b;

	CHECK_EQ(secret_init(&s, "hunter2", 7), 0);
	CHECK_EQ(secret_init(&b, big, sizeof(big)), 0);
	if (!locked_is(s.data))
		SKIP("this process may lock no memory (RLIMIT_MEMLOCK)");
	CHECK(mapping(s.data, "Locked:", flags) > 0);
	CHECK(strstr(flags, " lo") && strstr(flags, " dd") && strstr(flags, " wf"));
	CHECK(mapping(b.data, "Locked:", flags) >= 20);
	CHECK(strstr(flags, " lo") && strstr(flags, " dd") && strstr(flags, " wf"));
	secret_done(&s);
	secret_done(&b);
}

static long locked_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "VmLck:", 6) == 0)
			kib = atol(line + 6);
	fclose(f);
	CHECK(kib >= 0);
	return kib;
}

/* Many small ones take as many pages as their bytes, not one each. */
TEST(many_share_pages)
{
	enum { COUNT = 2000 };
	struct rlimit limit = {256 << 10, 256 << 10};
	static struct secret s[COUNT];
	bool locked = true;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		SKIP("the limit of locked memory cannot be set");
	CHECK_EQ(secret_init(&s[0], "0", 1), 0);
	if (!locked_is(s[0].data))
		SKIP("this process may lock no memory (RLIMIT_MEMLOCK)");
	secret_done(&s[0]);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++) {
			char text[64];
			int n = snprintf(text, sizeof(text), "%d:%.*s", i, i % 50,
					 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");

			CHECK_EQ(secret_init(&s[i], text, (size_t)n), 0);
			locked = locked && locked_is(s[i].data);
		}
		for (int i = 0; i < COUNT; i++)
			CHECK_EQ(atoi((char *)s[i].data), i);
		CHECK(locked_kib() <= 160);
		/* In an order that makes holes. */
		for (int step = 0; step < 7; step++)
			for (int i = step; i < COUNT; i += 7)
				secret_done(&s[i]);
	}
	CHECK(locked);
}

/* Without the right to lock it goes on, and says so. */
TEST(nothing_may_be_locked)
{
	struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct no_rights[2] = {0};
	struct rlimit none = {0, 0};
	struct secret s;

	CHECK_EQ(syscall(SYS_capset, &self, no_rights), 0);
	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	CHECK_EQ(secret_init(&s, "hunter2", 7), 0);
	CHECK_MEM(s.data, "hunter2", 7);
	CHECK(!locked_is(s.data));
	CHECK(!locked_always());
	secret_done(&s);
	CHECK(!locked_always()); /* it was so once */
}

/* Some of it can be locked, and one value is too large: that is told, whoever asked for it. */
TEST(not_all_may_be_locked)
{
	struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct no_rights[2] = {0};
	struct rlimit some = {64 << 10, 64 << 10};
	struct buf b;
	struct secret s;

	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &some), 0);
	CHECK_EQ(syscall(SYS_capset, &self, no_rights), 0);
	CHECK_EQ(secret_init(&s, "hunter2", 7), 0);
	CHECK(locked_is(s.data) && locked_always());
	buf_init(&b, 1 << 20);
	CHECK_EQ(buf_set_secret(&b, true), 0);
	CHECK(buf_reserve(&b, 100000));
	CHECK(locked_is(s.data) && !locked_always());
	buf_done(&b);
	secret_done(&s);
}

#endif

TEST(what_is_no_pools_is_not_given_back)
{
	static char other[64];
	int status;
	pid_t pid;

	locked_free(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		close(2);
		locked_free(other);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A child gets empty pages. */
TEST(not_inherited)
{
	struct secret s;
	int status;
	pid_t pid;

	CHECK_EQ(secret_init(&s, "hunter2", 7), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQ(s.data[0], 0);
		tap_leave(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_MEM(s.data, "hunter2", 7);
	secret_done(&s);
}

TAP_MAIN
