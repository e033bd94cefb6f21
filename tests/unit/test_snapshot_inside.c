/* What a snapshot that a box asked for is called: always a name, always of that box. */
#include "base/str.h"
#include "core/snapshot_inside.h"
#include "tap.h"

static void check(const char *box, const char *name, const char *wanted)
{
	char got[BOX_NAME_MAX + 1];

	snapshot_inside_name(box, name, got);
	CHECK_STR(got, wanted);
	CHECK(str_is_name(got, BOX_NAME_MAX));
}

TEST(it_is_the_boxs_name_and_its_own)
{
	check("dev", "before", "dev-before");
	check("a", "b", "a-b");
	check("deadbeef_dev", "before", "deadbeef_dev-before");
}

/* A long name of a box is cut, and never ends with a dash there. */
TEST(it_fits)
{
	char box[BOX_NAME_MAX + 1], name[CTL_NAME_MAX + 1], got[BOX_NAME_MAX + 1];

	memset(name, 'n', CTL_NAME_MAX);
	name[CTL_NAME_MAX] = 0;
	for (size_t n = 1; n <= BOX_NAME_MAX; n++) {
		memset(box, 'b', n);
		box[n] = 0;
		for (size_t dash = 1; dash + 1 < n; dash++) {
			box[dash] = '-';
			snapshot_inside_name(box, name, got);
			CHECK(str_is_name(got, BOX_NAME_MAX));
			CHECK_STR(got + strlen(got) - CTL_NAME_MAX, name);
			box[dash] = 'b';
		}
	}
}

/* However long the names are, what a key's box makes stays in that key's namespace. */
TEST(it_stays_in_its_namespace)
{
	char box[BOX_NAME_MAX + 1] = "deadbeef_", name[CTL_NAME_MAX + 1], got[BOX_NAME_MAX + 1];

	for (size_t n = STR_NAMESPACE + 1; n <= BOX_NAME_MAX; n++) {
		memset(box + STR_NAMESPACE, 'b', n - STR_NAMESPACE);
		box[n] = 0;
		for (size_t k = 1; k <= CTL_NAME_MAX; k++) {
			memset(name, 'n', k);
			name[k] = 0;
			snapshot_inside_name(box, name, got);
			CHECK(str_is_name(got, BOX_NAME_MAX) && str_starts(got, "deadbeef_b"));
		}
	}
}

TAP_MAIN
