/*
 * The groups of a box's keeper and door on the real trees of this machine: shares, coming,
 * counting, leaving, and what a crash left. And network buffers, which a v1 kernel counts apart.
 */
#include "cgroup_rig.h"

#include "base/fd.h"
#include "base/limits.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>

enum { LOOKS = 1000 };

static void look_for_helper(const char *group, void *arg)
{
	char box[64];

	*(int *)arg += cgroup_helper_box(group, box, sizeof(box)) && strcmp(box, name) == 0;
}

TEST(a_helper_has_a_share_of_its_box)
{
	struct cgroup_limits none = {0}, small = {.mem_bytes = 64 * MB, .cpu_milli = 50},
			     middle = {.mem_bytes = 300 * MB, .cpu_milli = 2000},
			     large = {.mem_bytes = 64 * 1024 * MB};

	CHECK_EQ(cgroup_helper_bytes(CGROUP_DOOR, &none), 0u);
	CHECK_EQ(cgroup_helper_cpu_milli(CGROUP_KEEPER, &none), 0u);
	CHECK_EQ(cgroup_helper_bytes(CGROUP_DOOR, &small), (uint64_t)CGROUP_DOOR_BYTES_LEAST);
	CHECK_EQ(cgroup_helper_bytes(CGROUP_DOOR, &middle), 150 * MB);
	CHECK_EQ(cgroup_helper_bytes(CGROUP_DOOR, &large), (uint64_t)CGROUP_DOOR_BYTES_MAX);
	CHECK_EQ(cgroup_helper_bytes(CGROUP_KEEPER, &small), (uint64_t)CGROUP_KEEPER_BYTES);
	CHECK_EQ(cgroup_helper_cpu_milli(CGROUP_DOOR, &small), (uint64_t)CGROUP_DOOR_CPU_LEAST);
	CHECK_EQ(cgroup_helper_cpu_milli(CGROUP_KEEPER, &small), (uint64_t)CGROUP_KEEPER_CPU_LEAST);
	CHECK_EQ(cgroup_helper_cpu_milli(CGROUP_DOOR, &middle), 2000u);
}

TEST(whose_a_group_is)
{
	char box[32];

	CHECK(cgroup_helper_box("01234567-dev+door", box, sizeof(box)));
	CHECK_STR(box, "01234567-dev");
	CHECK(cgroup_helper_box("01234567-dev+keeper", box, sizeof(box)));
	CHECK(!cgroup_helper_box("01234567-dev", box, sizeof(box)));
	CHECK(!cgroup_helper_box("01234567-dev+doors", box, sizeof(box)));
	CHECK(!cgroup_helper_box("0123456789012345678901234567890123456789+door", box,
				 sizeof(box)));
}

/* In its groups it uses something, which is told; the group goes once it has left. */
TEST(a_helper_joins_is_counted_and_leaves)
{
	struct cgroup_limits lim = {.mem_bytes = 256 * MB, .cpu_milli = 200};
	uint64_t mem_bytes, cpu_us;
	struct cgroup_helper h;
	pid_t pid;
	int seen = 0;

	find_layout(false);
	cgroup_helper_make(name, CGROUP_DOOR, &lim, &h);
	if (h.limits != (1u << CGROUP_MEMORY | 1u << CGROUP_CPU))
		SKIP(h.why);
	pid = cgroup_helper_fork(&h);
	CHECK(pid >= 0);
	if (pid == 0) {
		char *p = malloc(8 * MB);

		if (!p || cgroup_helper_join(&h) < 0)
			_exit(1);
		memset(p, 1, 8 * MB);
		/* The kernel adds up what it counts in its own time. */
		for (int i = 0; i < LOOKS; i++) {
			memset(p, i, 8 * MB);
			cgroup_meter_read(&h.meter, &mem_bytes, &cpu_us);
			if (mem_bytes >= 7 * MB && cpu_us > 0)
				break;
		}
		if (mem_bytes < 7 * MB || cpu_us == 0) {
			fprintf(stderr, "# %llu bytes, %llu us\n", (unsigned long long)mem_bytes,
				(unsigned long long)cpu_us);
			_exit(2);
		}
		cgroup_helper_remove(&h); /* not while somebody is in it */
		if (faccessat(h.trees[0].parent_fd, h.name, F_OK, 0) < 0)
			_exit(3);
		cgroup_helper_leave(&h);
		_exit(faccessat(h.trees[0].parent_fd, h.name, F_OK, 0) == 0 ? 4 : 0);
	}
	CHECK_EQ(end_of(pid), 0);
	cgroup_helper_done(&h);
	CHECK_EQ(cgroup_each(look_for_helper, &seen), 0);
	CHECK_EQ(seen, 0);
}

/* As after kill -9: the groups of the helpers go with the box's, but not from under somebody. */
TEST(removing_a_box_removes_what_its_helpers_left)
{
	struct cgroup_limits lim = {.mem_bytes = 256 * MB, .cpu_milli = 200};
	struct cgroup_helper keeper, door;
	struct err e = {0};
	int seen = 0;

	find_layout(false);
	cgroup_helper_make(name, CGROUP_KEEPER, &lim, &keeper);
	cgroup_helper_make(name, CGROUP_DOOR, &lim, &door);
	if (!keeper.limits)
		SKIP(keeper.why);
	cgroup_helper_done(&keeper);
	cgroup_helper_done(&door);
	CHECK_EQ(cgroup_each(look_for_helper, &seen), 0);
	CHECK(seen > 0);
	CHECK_EQ(cgroup_remove(name, &e), 0);
	seen = 0;
	CHECK_EQ(cgroup_each(look_for_helper, &seen), 0);
	CHECK_EQ(seen, 0);
}

/* A v1 kernel counts network buffers apart; where it cannot, that is told. */
TEST(network_buffers_are_limited_on_v1)
{
	struct cgroup_limits lim = {.mem_bytes = 256 * MB};
	struct cgroup cg;

	find_layout(true);
	make_limited(&cg, &lim, CGROUP_MEMORY);
	if (!cg.tcp_uncounted)
		CHECK_EQ(knob_get_u64(cg.v1_fd[CGROUP_MEMORY], CGROUP_TCP_LIMIT), 64 * MB);
	remove_all(&cg);
}

TAP_MAIN
