/* Which boxes are started again, and when. */
#include "base/lines.h"
#include "store/restart.h"
#include "store_home.h"

#define BOOT  "11111111-1111-1111-1111-111111111111"
#define OTHER "22222222-2222-2222-2222-222222222222"

static struct record ended(enum restart policy, const char *cause, const char *by)
{
	struct record r = {
		.spec.restart = policy, .state = BOX_STOPPED, .started_ms = 1000, .ended_ms = 2000};

	snprintf(r.cause, sizeof(r.cause), "%s", cause);
	snprintf(r.by, sizeof(r.by), "%s", by);
	r.own_ms = r.started_ms;
	snprintf(r.own_cause, sizeof(r.own_cause), "%s", cause);
	snprintf(r.boot, sizeof(r.boot), "%s", BOOT);
	return r;
}

TEST(causes)
{
	static const struct {
		const char *cause, *by;
		bool always, on_reboot, of_other_boot;
	} rows[] = {
		{"host reboot", "", true, true, true},
		{"keeper lost", "", true, false, false},
		{"init died (signal 9)", "", true, false, false},
		{"init died (status 1)", "", true, false, false},
		{"oom", "", true, false, false},
		{"init broke the protocol", "", true, false, false},
		{"init unresponsive", "", true, false, false},
		{"stopped", "signal", false, false, true},
		{"stopped", "cove stop", false, false, false},
		{"stopped", "", false, false, false},
		{"ttl", "cove", false, false, false},
		{"idle", "cove", false, false, false},
		{"rollback", "cove rollback", false, false, false},
		{"merge", "cove merge", false, false, false},
		{"keeper killed", "cove stop", false, false, false},
		{"damaged", "cove stop", false, false, false},
		{"start failed", "", false, false, false},
		{"restored", "cove system restore", false, false, false},
		{"", "", false, false, false},
		{"some word of a newer Cove", "", false, false, false},
	};
	struct restart_state s = {0};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct record r = ended(RESTART_NO, rows[i].cause, rows[i].by);

		CHECK(!restart_wants(&r, &s, BOOT) && !restart_wants(&r, &s, OTHER));
		r.spec.restart = RESTART_ON_REBOOT;
		CHECK_EQ(restart_wants(&r, &s, BOOT), rows[i].on_reboot);
		CHECK_EQ(restart_wants(&r, &s, OTHER), rows[i].of_other_boot);
		CHECK_EQ(restart_wants(&r, &s, ""), rows[i].on_reboot);
		r.spec.restart = RESTART_ALWAYS;
		CHECK_EQ(restart_wants(&r, &s, BOOT), rows[i].always);
		CHECK_EQ(restart_wants(&r, &s, OTHER), rows[i].always || rows[i].of_other_boot);
		r.state = BOX_RUNNING;
		CHECK(!restart_wants(&r, &s, OTHER));
		r.state = BOX_CREATED;
		CHECK(!restart_wants(&r, &s, OTHER));
	}
}

TEST(a_start_that_failed_is_tried_again)
{
	struct record r = ended(RESTART_ON_REBOOT, "start failed", "");
	struct restart_state s = {0};

	CHECK(!restart_wants(&r, &s, BOOT)); /* somebody else tried, and knows */
	restart_count(&s, &r, 5000);
	CHECK(s.fails && s.count == 1 && s.tried_ms == 5000);
	CHECK(restart_wants(&r, &s, BOOT));
	s.held_run_ms = r.own_ms;
	CHECK(!restart_wants(&r, &s, BOOT));
	s.held_run_ms = r.own_ms - 1; /* of an earlier run */
	CHECK(restart_wants(&r, &s, BOOT));
}

TEST(waits_double_up_to_a_minute)
{
	static const uint64_t waits[] = {0,	1000,  2000,  4000,  8000,
					 16000, 32000, 60000, 60000, 60000};
	struct record r = ended(RESTART_ALWAYS, "keeper lost", "");
	struct restart_state s = {0};
	uint64_t now = 1000000;

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		uint64_t at = restart_at_ms(&r, &s, now);

		CHECK_EQ(at > now ? at - now : 0, waits[i]);
		now += waits[i];
		CHECK(restart_at_ms(&r, &s, now) <= now);
		restart_count(&s, &r, now);
	}
	s.count = UINT64_MAX; /* as a damaged file could say */
	CHECK_EQ(restart_at_ms(&r, &s, now), now + 60000);
	/* A good run. */
	r.ended_ms = r.started_ms + 600000;
	CHECK_EQ(restart_at_ms(&r, &s, now), 0);
	restart_count(&s, &r, now);
	CHECK_EQ(s.count, 1);
	/* The clock was set back. */
	r.ended_ms = r.started_ms - 1;
	CHECK_EQ(restart_at_ms(&r, &s, now - 1), 0);
}

static void put(int fd, const char *text, bool with_sum)
{
	struct buf b;

	buf_init(&b, 4096);
	if (with_sum)
		CHECK_EQ(lines_begin_sum(&b), 0);
	CHECK_EQ(buf_append_str(&b, text), 0);
	if (with_sum)
		lines_end_sum(&b);
	CHECK_EQ(fd_write_file(fd, RESTART_FILE, buf_data(&b), buf_len(&b), 0600, false), 0);
	buf_done(&b);
}

HOME_TEST(the_file)
{
	static const char *const bad[] = {"",		"count\n",
					  "count x\n",	"count -1\n",
					  "future 1\n", "tried_ms 99999999999999999999\n"};
	const struct restart_state all = {
		.count = 3, .tried_ms = UINT64_MAX, .fails = true, .held_run_ms = 7};
	struct record r = ended(RESTART_ALWAYS, "keeper lost", "");
	struct restart_state got;

	CHECK_EQ(restart_read(s->home_fd, &got), 0);
	CHECK(!got.count && !got.tried_ms && !got.fails && !got.held_run_ms);
	CHECK_EQ(restart_write(s->home_fd, &all), 0);
	CHECK_EQ(restart_read(s->home_fd, &got), 0);
	CHECK(got.count == 3 && got.tried_ms == UINT64_MAX && got.fails && got.held_run_ms == 7);
	CHECK_EQ(restart_hold(s->home_fd, &r), 0);
	CHECK_EQ(restart_read(s->home_fd, &got), 0);
	CHECK(got.count == 3 && restart_is_held(&r, &got));
	/* Damage is as if there was none, so that a box is rather started than forgotten. */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(s->home_fd, bad[i], i > 0);
		got = all;
		CHECK_EQ(restart_read(s->home_fd, &got), 0);
		CHECK(!got.count && !got.tried_ms && !got.fails && !got.held_run_ms);
	}
	put(s->home_fd, "count 3\n", false);
	CHECK_EQ(restart_read(s->home_fd, &got), 0);
	CHECK_EQ(got.count, 0);
	CHECK_EQ(restart_read(-1, &got), -EBADF);
}
