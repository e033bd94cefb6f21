/* Room on this host: shares as people write them; holds beside records, and who waits. */
#include "core/admission.h"
#include "core/core.h"
#include "store_home.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

TEST(shares_as_people_write_them)
{
	static const struct {
		const char *text;
		uint64_t percent, bytes;
	} good[] = {{"80%", 80, 0},
		    {"1%", 1, 0},
		    {"250%", 250, 0},
		    {"64g", 0, 64ull << 30},
		    {"1", 0, 1}};
	static const char *const bad[] = {"",	     "%",    "0%",
					  "0",	     "-1%",  "1.5%",
					  "100001%", "lots", "80 %",
					  "%80",     "80%%", "99999999999999999999999%",
					  "8q",	     "0x10", "18446744073709551616%"};
	struct core_share s;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(core_share_parse(good[i].text, &s) && s.percent == good[i].percent &&
		      s.bytes == good[i].bytes);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (core_share_parse(bad[i], &s))
			FAIL(bad[i]);
}

static struct cove *home_new(void)
{
	struct cove *cove = NULL;

	CHECK(cove_new(&cove,
		       &(struct cove_options){.size = sizeof(struct cove_options),
					      .home = home_make()},
		       NULL) == 0);
	CHECK(state_make(&cove->state, NULL) == 0);
	return cove;
}

static int ask(struct cove *cove, const char *name, uint64_t mem, struct core_hold **ret)
{
	struct spec spec = {.name = name, .wall = "native"};
	struct err e;

	spec.limits[LIMIT_MEM] = mem;
	spec.limits[LIMIT_DISK] = 1;
	return core_admit(cove, &spec, ret, &e);
}

TEST(what_is_held_counts_until_it_is_over)
{
	const struct core_admission_options o = {.memory = {.bytes = 100}, .waiting_max = 1};
	struct core_hold *one, *two, *three;
	struct cove *cove = home_new();

	cove->admission = core_admission_new(&o);
	CHECK(ask(cove, "a", 60, &one) == 0 && one);
	CHECK(ask(cove, "b", 60, &two) == -EAGAIN && !two);
	CHECK(ask(cove, "b", 40, &two) == 0 && two);
	/* One that is held already is not asked twice. */
	CHECK(ask(cove, "a", 60, &three) == 0 && !three);
	CHECK(ask(cove, "c", 0, &three) == -EAGAIN); /* without a limit it is everything */
	core_hold_end(one);
	CHECK(ask(cove, "c", 60, &three) == 0 && three);
	core_hold_end(two);
	core_hold_end(three);
	CHECK(ask(cove, "d", 101, &one) == -EAGAIN);
	/* Time passes in vain for what never fits. */
	cove->patience.wait_ms = 60000;
	CHECK(ask(cove, "d", 101, &one) == -EAGAIN);
	core_admission_set(cove->admission, &(struct core_admission_options){0});
	CHECK(ask(cove, "d", 0, &one) == 0 && !one);
	core_admission_free(cove->admission);
	cove_free(cove);
}
