/* When a box is busy enough to let others go first, and when no more. */
#include "keeper/yield.h"
#include "tap.h"

/* A second in which it used so many percent of a processor. */
static bool second(struct yield *y, unsigned percent, uint64_t cpu_milli)
{
	yield_look(y, y->at_ms + 1000, y->cpu_us + percent * 10000ull, cpu_milli);
	return y->on;
}

static bool asked(struct yield *y, unsigned percent)
{
	y->asked = true;
	return second(y, percent, 0);
}

TEST(one_that_works_unasked_yields)
{
	struct yield y = {0};

	CHECK(!second(&y, 24, 0));
	CHECK(second(&y, 25, 0));
	CHECK(second(&y, 13, 0));
	CHECK(!second(&y, 12, 0));
	CHECK(!second(&y, 0, 0));
}

TEST(one_that_answers_yields_when_it_uses_a_processor_up)
{
	struct yield y = {0};

	CHECK(!asked(&y, 74));
	CHECK(asked(&y, 75));
	CHECK(asked(&y, 38));
	CHECK(!asked(&y, 37));
	/* Being asked once is for one look. */
	CHECK(second(&y, 37, 0));
}

TEST(many_processors_are_busy_too)
{
	struct yield y = {0};

	CHECK(asked(&y, 6400));
}

TEST(a_small_limit_is_soon_used_up)
{
	struct yield y = {0};

	CHECK(!second(&y, 2, 100));
	CHECK(second(&y, 3, 100));
	CHECK(second(&y, 2, 100));
	CHECK(!second(&y, 1, 100));
	/* One of many processors is no more than one. */
	CHECK(second(&y, 25, 64000));
}

TEST(a_moment_says_nothing)
{
	struct yield y = {.at_ms = 100, .asked = true};

	yield_look(&y, 100, 0, 0);
	yield_look(&y, 100 + YIELD_LOOK_MS - 1, 1000000, 0);
	CHECK(!y.on);
	CHECK(y.asked);
	CHECK_EQ(y.at_ms, 100);
	yield_look(&y, 100 + YIELD_LOOK_MS, 1000000, 0);
	CHECK(y.on);
}

TEST(standing_still_does_not_count)
{
	struct yield y = {0};

	CHECK(second(&y, 100, 0));
	yield_skip(&y, 3600000, y.cpu_us);
	CHECK(y.on);
	CHECK(second(&y, 100, 0));
}

TAP_MAIN
