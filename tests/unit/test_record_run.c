/* What a record says of a run while it lasts: asleep, and times that were changed. */
#include "store/record.h"
#include "store/record_run.h"
#include "store_home.h"

static struct spec spec_of(const char *name)
{
	return (struct spec){.name = name, .image = "base", .wall = "native", .created_ms = 1};
}

HOME_TEST(one_that_is_asleep_says_why)
{
	struct spec spec = spec_of("dev");
	struct record r;
	int box_fd, lock_fd;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	CHECK_EQ(record_set_paused(lock_fd, true, "idle", NULL), 0);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.paused && r.asleep && r.state == BOX_RUNNING);
	CHECK_STR(r.cause, "idle");
	CHECK_STR(r.by, "cove");
	record_done(&r);
	/* Then by a person, then not at all. */
	for (int i = 1; i >= 0; i--) {
		CHECK_EQ(record_set_paused(lock_fd, i, i ? NULL : "ttl", NULL), 0);
		CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
		CHECK(r.paused == i && !r.asleep && !r.cause[0] && !r.by[0]);
		record_done(&r);
	}
	/* It ends while it is asleep: that is not why. */
	CHECK_EQ(record_set_paused(lock_fd, true, "ttl", NULL), 0);
	close(lock_fd);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(!r.asleep && r.state == BOX_STOPPED);
	CHECK_STR(r.cause, "keeper lost");
	record_done(&r);
	close(box_fd);
}

static void check_times(struct state *s, uint64_t ttl_ms, uint64_t idle_ms)
{
	struct record r;

	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_EQ(r.spec.limits[LIMIT_TTL], ttl_ms);
	CHECK_EQ(r.spec.limits[LIMIT_IDLE], idle_ms);
	record_done(&r);
}

HOME_TEST(times_that_were_set_outlive_the_run)
{
	struct spec spec = spec_of("dev");
	struct record r;
	int box_fd, lock_fd;

	spec.limits[LIMIT_TTL] = 1000;
	spec.limits_asked = 1u << LIMIT_TTL;
	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
	CHECK_EQ(record_set_times(lock_fd, 5000, 0, NULL), -EBADMSG);
	CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	check_times(s, 1000, 0);
	CHECK_EQ(record_set_times(lock_fd, 5000, 0, NULL), 0);
	CHECK_EQ(record_set_times(lock_fd, 0, 700, NULL), 0);
	check_times(s, 5000, 700);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK(r.ttl_from_ms >= r.started_ms && r.spec.limits_asked & 1u << LIMIT_IDLE);
	record_done(&r);
	CHECK_EQ(record_set_times(lock_fd, UINT64_MAX, 0, NULL), 0);
	check_times(s, 0, 700);
	/* The end, and another start. */
	CHECK_EQ(record_write_end(box_fd, "stopped", "", true, NULL), 0);
	check_times(s, 0, 700);
	CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	check_times(s, 0, 700);
	CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
	CHECK_EQ(r.ttl_from_ms, r.started_ms);
	/* A spec that is written anew has them, and what was set is over. */
	close(lock_fd);
	r.spec.limits[LIMIT_IDLE] = 900;
	CHECK_EQ(record_replace(box_fd, &r.spec, NULL), 0);
	record_done(&r);
	check_times(s, 0, 900);
	close(box_fd);
}

/* Between the end of a box's own run and its next start it may be up for one client alone. */
HOME_TEST(a_visit_is_no_run_of_its_own)
{
	struct spec spec = spec_of("dev");
	struct record r;
	uint64_t own_ms = 0;
	int box_fd, lock_fd;

	CHECK_EQ(record_create(s, &spec, &box_fd, NULL), 0);
	for (int i = 0; i < 4; i++) {
		bool visit = i == 1 || i == 2;

		CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
		CHECK_EQ(visit ? record_write_visit(lock_fd, false, NULL)
			       : record_write_live(lock_fd, false, NULL),
			 0);
		CHECK_EQ(record_write_end(box_fd, i == 0 ? "keeper lost" : "stopped", "", true,
					  NULL),
			 0);
		close(lock_fd);
		CHECK_EQ(record_load(s, "dev", &r, NULL), 0);
		own_ms = i == 0 ? r.started_ms : own_ms;
		CHECK_STR(r.cause, i == 0 ? "keeper lost" : "stopped");
		CHECK_STR(r.own_cause, i < 3 ? "keeper lost" : "stopped");
		CHECK_EQ(r.own_ms, i < 3 ? own_ms : r.started_ms);
		record_done(&r);
	}
	close(box_fd);
}

/* Whatever a field holds, the block has room for all of them. */
HOME_TEST(the_longest_run_comes_back)
{
	struct record_run all = {.pid = INT32_MAX,
				 .started_ms = UINT64_MAX,
				 .ended_ms = UINT64_MAX,
				 .init = UINT32_MAX,
				 .paused = 1,
				 .visit = 1,
				 .ttl_ms = UINT64_MAX,
				 .idle_ms = UINT64_MAX,
				 .ttl_from_ms = UINT64_MAX,
				 .before_ms = UINT64_MAX,
				 .on_start = INT32_MAX},
			  got;
	autoclose int fd = openat(s->home_fd, "run-of-a-box", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	memset(all.boot, 'b', sizeof(all.boot) - 1);
	memset(all.cause, '\n', sizeof(all.cause) - 1);
	memset(all.by, '\\', sizeof(all.by) - 1);
	memset(all.before, '\n', sizeof(all.before) - 1);
	memset(all.asleep, '\n', sizeof(all.asleep) - 1);
	CHECK_EQ(record_run_write(fd, &all, true), 0);
	CHECK_EQ(record_run_read(fd, &got), 1);
	CHECK_EQ(memcmp(&got, &all, sizeof(all)), 0);
	/* Cut anywhere, it is damaged and nothing else. */
	for (off_t n = RECORD_RUN_BYTES - 1; n > 0; n--) {
		CHECK_EQ(ftruncate(fd, n), 0);
		CHECK_EQ(record_run_read(fd, &got), -EBADMSG);
	}
}
