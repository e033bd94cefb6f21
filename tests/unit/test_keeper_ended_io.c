/* What ended commands read and wrote is counted once, whenever their groups go. */
#include "keeper/ended_io.h"
#include "tap.h"
#include "wire/msg.h"

static bool among(void *arg, uint32_t id)
{
	for (const uint32_t *at = arg; *at; at++)
		if (*at == id)
			return true;
	return false;
}

static void add(struct ended_io *l, uint32_t id, const char *shell, unsigned state, uint64_t bytes)
{
	struct exec_record r = {.exec_id = id,
				.shell_state = (uint8_t)state,
				.io_read_bytes = bytes,
				.io_write_bytes = 2 * bytes};

	snprintf(r.shell, sizeof(r.shell), "%s", shell);
	ended_io_add(l, &r);
}

/* The box's own count is live; what all of it comes to. */
static uint64_t sum(struct ended_io *l, uint64_t live, uint32_t *groups)
{
	uint64_t r = live, w = 2 * live;

	ended_io_update(l, among, groups);
	ended_io_sum(l, &r, &w);
	CHECK_EQ(w, 2 * r);
	return r;
}

TEST(a_command_counts_when_its_group_is_gone)
{
	struct ended_io l = {0};
	uint32_t none[] = {0}, one[] = {7, 0};

	CHECK_EQ(sum(&l, 5, none), 5);
	add(&l, 7, "", SHELL_NONE, 100);
	CHECK_EQ(sum(&l, 105, one), 105);
	CHECK_EQ(sum(&l, 5, none), 105);
	CHECK_EQ(sum(&l, 8, none), 108);
	add(&l, 8, "", SHELL_NONE, 10);
	CHECK_EQ(sum(&l, 8, none), 118);
}

TEST(lines_of_a_shell_count_when_it_ends)
{
	struct ended_io l = {0};
	uint32_t none[] = {0};

	add(&l, 1, "default", SHELL_KEPT, 100);
	add(&l, 2, "default", SHELL_KEPT, 50);
	add(&l, 3, "other", SHELL_KEPT, 7);
	CHECK_EQ(sum(&l, 157, none), 157);
	add(&l, 4, "default", SHELL_EXITED, 3);
	CHECK_EQ(sum(&l, 7, none), 160);
	add(&l, 5, "other", SHELL_RESTARTED, 0);
	CHECK_EQ(sum(&l, 0, none), 160);
	CHECK_EQ(l.count, 0);
}

TEST(it_never_falls)
{
	struct ended_io l = {0};
	uint32_t none[] = {0};

	add(&l, 1, "default", SHELL_KEPT, 100);
	CHECK_EQ(sum(&l, 100, none), 100);
	CHECK_EQ(sum(&l, 0, none), 100); /* the shell was killed, and no line says so */
}

TEST(more_than_it_holds_and_what_no_init_says)
{
	struct ended_io l = {0};
	uint32_t all[ENDED_IO_GROUPS + 11], none[] = {0};

	for (uint32_t i = 0; i < ENDED_IO_GROUPS + 10; i++) {
		all[i] = i + 1;
		add(&l, i + 1, "", SHELL_NONE, 1);
	}
	all[ENDED_IO_GROUPS + 10] = 0;
	CHECK_EQ(l.count, ENDED_IO_GROUPS);
	CHECK_EQ(sum(&l, 0, all), 10);
	CHECK_EQ(sum(&l, 0, none), ENDED_IO_GROUPS + 10);
	add(&l, 200, "", SHELL_NONE, WIRE_UNKNOWN);
	CHECK_EQ(l.count, 0);
	add(&l, 201, "", SHELL_NONE, INT64_MAX / 2);
	add(&l, 202, "", SHELL_NONE, INT64_MAX / 2);
	ended_io_update(&l, among, none);
	CHECK(l.gone[1] == INT64_MAX);
}

TAP_MAIN
