/* Maps of host directories: one to one, the same for every box, and what they leave out. */
#include "tap.h"

#include "base/fd.h"
#include "storage/share.h"

#include <inttypes.h>

enum { BASE = 0x71230000, OTHER_BASE = 0x7abc0000, LINES_MAX = 16 };

struct line {
	uint32_t stored, shown, count;
};

struct map {
	struct line lines[LINES_MAX];
	size_t count;
};

static struct map map_of(enum share_kind kind, uint32_t base, uint32_t owner)
{
	struct map m = {.count = 0};
	char text[SHARE_MAP_TEXT], *at = text;
	int n;

	share_map_format(kind, base, owner, text);
	CHECK(strlen(text) < SHARE_MAP_TEXT - 1);
	while (sscanf(at, "%" SCNu32 " %" SCNu32 " %" SCNu32 "\n%n", &m.lines[m.count].stored,
		      &m.lines[m.count].shown, &m.lines[m.count].count, &n) == 3) {
		at += n;
		CHECK(++m.count < LINES_MAX);
	}
	CHECK(*at == 0);
	return m;
}

static bool overlap(uint32_t a, uint32_t a_count, uint32_t b, uint32_t b_count)
{
	return (uint64_t)a < (uint64_t)b + b_count && (uint64_t)b < (uint64_t)a + a_count;
}

/* As the kernel asks: nothing twice on either side, nothing empty, nothing past the last id. */
static void check_one_to_one(const struct map *m)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct line *l = &m->lines[i];

		CHECK(l->count > 0);
		CHECK((uint64_t)l->stored + l->count <= UINT32_MAX);
		CHECK((uint64_t)l->shown + l->count <= UINT32_MAX);
		for (size_t j = 0; j < i; j++) {
			const struct line *k = &m->lines[j];

			CHECK(!overlap(l->stored, l->count, k->stored, k->count));
			CHECK(!overlap(l->shown, l->count, k->shown, k->count));
		}
	}
}

/* -1 where it is not mapped. */
static int64_t shown(const struct map *m, uint32_t stored)
{
	for (size_t i = 0; i < m->count; i++)
		if (stored - m->lines[i].stored < m->lines[i].count)
			return (int64_t)m->lines[i].shown + (stored - m->lines[i].stored);
	return -1;
}

static const uint32_t owners[] = {
	0,
	1,
	999,
	1000,
	1001,
	65534,
	65535,
	BASE - 1,
	BASE,
	BASE + 1000,
	BASE + 65535,
	BASE + 65536,
	OTHER_BASE + 5,
	SHARE_FIRST - 1,
	SHARE_FIRST,
	SHARE_FIRST + 999,
	SHARE_FIRST + 1000,
	SHARE_FIRST + 1001,
	SHARE_FIRST + 65534,
	SHARE_FIRST + 65535,
	0x80000000,
	UINT32_MAX - 1,
};
enum { OWNERS = sizeof(owners) / sizeof(owners[0]) };

TEST(every_owner_has_a_map_that_is_one_to_one)
{
	for (size_t i = 0; i < OWNERS; i++)
		for (int kind = SHARE_UIDS; kind <= SHARE_GIDS; kind++) {
			struct map m = map_of((enum share_kind)kind, BASE, owners[i]);

			check_one_to_one(&m);
			CHECK_EQ(shown(&m, owners[i]), BASE + IDS_USER);
		}
}

TEST(what_one_box_wrote_is_the_same_id_in_the_next)
{
	for (size_t i = 0; i < OWNERS; i++) {
		struct map a = map_of(SHARE_UIDS, BASE, owners[i]);
		struct map b = map_of(SHARE_UIDS, OTHER_BASE, owners[i]);

		for (uint32_t id = 0; id < IDS_COUNT - 1; id++) {
			int64_t one = shown(&a, SHARE_FIRST + id);

			CHECK(one >= BASE && one < BASE + IDS_COUNT);
			CHECK_EQ(one - BASE, shown(&b, SHARE_FIRST + id) - OTHER_BASE);
		}
	}
}

TEST(other_owners_stay_out_and_other_groups_stay_themselves)
{
	static const uint32_t others[] = {0, 33, 1000, 12345, 100000, 0x70000000, 0x90000000};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct map uids = map_of(SHARE_UIDS, BASE, 500);
		struct map gids = map_of(SHARE_GIDS, BASE, 500);

		CHECK_EQ(shown(&uids, others[i]), -1);
		CHECK_EQ(shown(&gids, others[i]), others[i]);
	}
}

/* No id of another box, and none of this one, can be stored under a group's number. */
TEST(no_stored_group_becomes_a_boxs_own)
{
	for (size_t i = 0; i < OWNERS; i++) {
		struct map m = map_of(SHARE_GIDS, BASE, owners[i]);

		for (size_t j = 0; j < m.count; j++) {
			const struct line *l = &m.lines[j];

			if (overlap(l->shown, l->count, BASE, IDS_COUNT))
				CHECK(l->stored == owners[i] ||
				      l->stored - SHARE_FIRST < IDS_COUNT);
		}
	}
}

TEST(ranges_of_boxes_never_reach_the_reserved_one)
{
	CHECK(IDS_SLOT_LAST < SHARE_FIRST >> 16);
	CHECK(share_is_box_id(0x70000000) && share_is_box_id(SHARE_FIRST + 65535));
	CHECK(share_is_box_id(0x7ffdffff) && share_is_box_id(SHARE_FIRST));
	CHECK(!share_is_box_id(0x7ffe0000) && !share_is_box_id(0x7ffeffff)); /* systemd's foreign */
	CHECK(!share_is_box_id(0x6fffffff) && !share_is_box_id(0x80000000) && !share_is_box_id(0));
}

TEST(the_kernel_takes_every_map)
{
	struct ids ids = {.kind = IDS_RANGE, .uid_base = BASE};

	if (getuid() != 0)
		SKIP("id-mapped mounts are made by root only");
	for (size_t i = 0; i < OWNERS; i++) {
		struct err e = {0};
		autoclose int ns = ids_mount_ns(&ids, owners[i], owners[OWNERS - 1 - i], &e);

		CHECK_STR(e.msg, "");
		CHECK(ns >= 0);
	}
}

TAP_MAIN
