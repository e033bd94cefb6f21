/*
 * Webhooks on disk: made durably and never more than may be, and what the server looks at when it
 * wants to know whether there is something new. fsync(2) of this program says what was synced.
 */
#include "store_home.h"
#include "tap.h"

#include "store/webhook.h"

#include <sys/stat.h>
#include <sys/syscall.h>

static struct state st;
static struct err e;
static ino_t synced[64];
static unsigned synced_count;

int fsync(int fd)
{
	struct stat s;

	CHECK(synced_count < 64 && fstat(fd, &s) == 0);
	synced[synced_count++] = s.st_ino;
	return (int)syscall(SYS_fsync, fd);
}

static bool is_synced(int dir, const char *name)
{
	struct stat s;

	CHECK_EQ(fstatat(dir, name, &s, 0), 0);
	for (unsigned i = 0; i < synced_count; i++)
		if (synced[i] == s.st_ino)
			return true;
	return false;
}

static int make(const char *owner, struct webhook *w)
{
	*w = (struct webhook){.url = "https://a.test/"};
	snprintf(w->owner, sizeof(w->owner), "%s", owner);
	return webhook_make(&st, w, &e);
}

TEST(the_first_one_is_durable_with_its_directory)
{
	struct webhook w;

	home_open(&st);
	synced_count = 0;
	CHECK_EQ(make("", &w), 0);
	CHECK(is_synced(st.home_fd, "."));
	CHECK(is_synced(st.home_fd, "webhooks"));
	state_close(&st);
}

TEST(many_at_once_are_no_more_than_one_key_may_have)
{
	enum { PROCESSES = 24 };
	struct webhook w, *list;
	size_t count;

	home_open(&st);
	for (int i = 1; i < WEBHOOKS_OF_KEY; i++)
		CHECK_EQ(make("0123abcd", &w), 0);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0)
			_exit(make("0123abcd", &w) == 0 ? 0 : 1);
	}
	for (int i = 0; i < PROCESSES; i++)
		CHECK(wait(NULL) > 0);
	CHECK_EQ(webhook_list(&st, &list, &count, &e), 0);
	CHECK_EQ(count, WEBHOOKS_OF_KEY);
	free(list);
	CHECK_EQ(make("0123abcd", &w), -E2BIG);
	CHECK_EQ(make("", &w), 0);
	state_close(&st);
}

/* Until what is changed now has another time than `since`. */
static void await_tick(uint64_t since)
{
	int fd = openat(st.home_fd, "tick", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct stat s;

	do {
		CHECK(fd >= 0 && futimens(fd, NULL) == 0 && fstat(fd, &s) == 0);
	} while ((uint64_t)s.st_ctim.tv_sec * 1000000000u + (uint64_t)s.st_ctim.tv_nsec <= since);
	close(fd);
}

TEST(deliveries_are_no_change_and_being_enabled_is_one)
{
	struct webhook_state s = {.disabled_ms = 1, .failures = 3, .cursor = 7};
	struct webhook w;
	uint64_t at;
	char *log;

	home_open(&st);
	CHECK_EQ(webhook_changed_ns(&st), 0);
	CHECK_EQ(make("", &w), 0);
	CHECK_EQ(webhook_state_write(&st, w.id, &s), 0);
	at = webhook_changed_ns(&st);
	await_tick(at);
	CHECK_EQ(webhook_state_write(&st, w.id, &s), 0);
	CHECK_EQ(webhook_log_add(&st, w.id, "{}\n", 3), 0);
	CHECK_EQ(webhook_changed_ns(&st), at);
	CHECK_EQ(webhook_enable(&st, w.id, NULL, &e), 0);
	CHECK(webhook_changed_ns(&st) != at);
	CHECK_EQ(webhook_state_read(&st, &w, &s), 0);
	CHECK(s.disabled_ms == 0 && s.failures == 0 && s.cursor == 7);
	CHECK_EQ(webhook_log_read(&st, w.id, &log), 0);
	CHECK_STR(log, "{}\n");
	free(log);
	CHECK_EQ(webhook_remove(&st, w.id, NULL, &e), 0);
	CHECK_EQ(faccessat(st.home_fd, "webhooks/sent", F_OK, 0), 0);
	CHECK_EQ(webhook_state_read(&st, &w, &s), 0);
	CHECK_EQ(s.cursor, w.after);
	state_close(&st);
}

TAP_MAIN
