/* Secrets that commands printed, kept for a time, on a driven clock. */
#include "door/kept.h"
#include "tap.h"

static struct kept_secrets k;
static const struct secret_stamp first = {1, 10}, second = {2, 10}, touched = {1, 11};

static int put(const char *name, const char *text, uint64_t for_ms, uint64_t now)
{
	return kept_put(&k,
			&(struct kept_value){.name = name,
					     .stamp = first,
					     .data = text,
					     .len = strlen(text),
					     .for_ms = for_ms},
			now, now + 5000);
}

static bool has(const char *name, const char *text, uint64_t now)
{
	const struct kept_value *v = kept_find(&k, name, &first, now, now + 5000);

	return v && v->len == strlen(text) && memcmp(v->data, text, v->len) == 0;
}

TEST(it_is_there_until_its_time_is_over)
{
	CHECK_EQ(kept_next_end(&k), 0);
	CHECK_EQ(put("A", "one", 100, 1000), 0);
	CHECK_EQ(put("B", "two", 50, 1000), 0);
	CHECK_EQ(kept_next_end(&k), 1050);
	CHECK(has("A", "one", 1099) && has("B", "two", 1049) && !has("C", "", 1000));
	kept_sweep(&k, 1050, 6050);
	CHECK_EQ(kept_next_end(&k), 1100);
	CHECK(!has("B", "two", 1049));
	CHECK(!has("A", "one", 1100));
	CHECK(!has("A", "one", 1099)); /* and was wiped */
	kept_done(&k);
}

TEST(another_one_takes_its_place)
{
	CHECK_EQ(put("A", "one", 100, 1000), 0);
	CHECK_EQ(put("A", "two", 100, 1001), 0);
	CHECK(has("A", "two", 1002));
	kept_drop(&k, "A");
	kept_drop(&k, "A");
	CHECK(!has("A", "two", 1002));
	CHECK_EQ(kept_next_end(&k), 0);
	kept_done(&k);
}

TEST(a_secret_that_was_set_again_is_another)
{
	CHECK_EQ(put("A", "one", 100, 1000), 0);
	CHECK(!kept_find(&k, "A", &second, 1001, 6001));
	CHECK(!has("A", "one", 1001));
	CHECK_EQ(put("A", "one", 100, 1000), 0);
	CHECK(!kept_find(&k, "A", &touched, 1001, 6001));
	kept_done(&k);
}

/* A host that slept, and a wall clock that was set back. */
TEST(both_clocks_end_it)
{
	CHECK_EQ(put("A", "one", 100, 1000), 0);
	CHECK(!kept_find(&k, "A", &first, 1001, 6100));
	CHECK_EQ(put("A", "one", 100, 1000), 0);
	CHECK(!kept_find(&k, "A", &first, 1001, 5999));
	kept_done(&k);
}
