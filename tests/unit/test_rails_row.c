/* Rows of journals: what was encoded decodes to the same, and nothing else is a row. */
#include "tap.h"

#include "base/limits_rails.h"
#include "rails/row.h"

#include <stdint.h>

#define TEXT(s) ((struct rails_bytes){(s), sizeof(s) - 1})

static struct run_row sample(void)
{
	return (struct run_row){.type = RUN_ROW_STEP_DONE,
				.number = 7,
				.time_ms = 1234567890123,
				.fence = 3,
				.attempt = 256,
				.cost_micros = UINT64_MAX,
				.position = TEXT("7.2"),
				.text = TEXT("why"),
				.result = {.bytes = TEXT("bytes\0and more"), .size = 14}};
}

TEST(what_was_encoded_decodes_to_the_same)
{
	struct run_row row = sample(), back;
	uint8_t p[512], again[512];
	int n = run_row_encode(&row, p, sizeof(p));

	CHECK(n > ROW_HEAD && n % 8 == 0);
	CHECK((size_t)n <= run_row_room(&row));
	CHECK_EQ(run_row_decode(&back, p, (size_t)n), n);
	CHECK_EQ(back.type, RUN_ROW_STEP_DONE);
	CHECK_EQ(back.number, 7);
	CHECK_EQ(back.time_ms, 1234567890123);
	CHECK_EQ(back.attempt, 256);
	CHECK(back.cost_micros == UINT64_MAX);
	CHECK_EQ(back.result.bytes.len, 14);
	CHECK_MEM(back.result.bytes.p, "bytes\0and more", 14);
	CHECK_EQ(back.name.len, 0);
	CHECK_EQ(run_row_encode(&back, again, sizeof(again)), n);
	CHECK_MEM(p, again, (size_t)n);
}

TEST(every_changed_bit_is_noticed)
{
	struct run_row row = sample(), back;
	uint8_t p[512];
	int n = run_row_encode(&row, p, sizeof(p));

	for (int i = 0; i < 8 * n; i++) {
		p[i / 8] ^= (uint8_t)(1u << i % 8);
		CHECK(run_row_decode(&back, p, (size_t)n) <= 0);
		p[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	for (int cut = 0; cut < n; cut++)
		CHECK_EQ(run_row_decode(&back, p, (size_t)cut), 0);
}

TEST(what_does_not_fit_is_refused)
{
	static char big[RUN_ROW_MAX];
	struct run_row row = sample();
	uint8_t p[512];
	int n = run_row_encode(&row, p, sizeof(p));

	for (int max = 0; max < n; max++)
		CHECK_EQ(run_row_encode(&row, p, (size_t)max), -ENOBUFS);
	row.result.bytes = (struct rails_bytes){big, sizeof(big)};
	CHECK_EQ(run_row_encode(&row, p, sizeof(p)), -ENOBUFS);
}

TEST(a_row_of_a_newer_cove_is_named_so)
{
	struct run_row row = sample(), back;
	uint8_t p[512];
	int n;

	row.type = RUN_ROW_TYPES;
	n = run_row_encode(&row, p, sizeof(p));
	CHECK_EQ(run_row_decode(&back, p, (size_t)n), -EPROTONOSUPPORT);
}

TAP_MAIN
