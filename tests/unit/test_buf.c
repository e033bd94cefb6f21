/* The bounded buffer. */
#include "tap.h"

#include "base/buf.h"

TEST(append_and_consume)
{
	struct buf b;

	buf_init(&b, 100);
	CHECK_EQ(buf_append(&b, "hello ", 6), 0);
	CHECK_EQ(buf_append_str(&b, "world"), 0);
	CHECK_EQ(buf_printf(&b, " %d", 42), 0);
	CHECK_STR(buf_cstr(&b), "hello world 42");
	buf_consume(&b, 6);
	CHECK_EQ(buf_len(&b), 8);
	CHECK_STR(buf_cstr(&b), "world 42");
	buf_clear(&b);
	CHECK_EQ(buf_len(&b), 0);
	CHECK_STR(buf_cstr(&b), "");
	buf_done(&b);
	buf_done(&b);
}

TEST(maximum_is_kept_and_failure_changes_nothing)
{
	struct buf b;

	buf_init(&b, 10);
	CHECK_EQ(buf_append(&b, "12345678", 8), 0);
	CHECK_EQ(buf_append(&b, "abc", 3), -ENOBUFS);
	CHECK_EQ(buf_printf(&b, "%s", "abc"), -ENOBUFS);
	CHECK(buf_reserve(&b, 3) == NULL);
	CHECK(buf_reserve(&b, SIZE_MAX) == NULL);
	CHECK_EQ(buf_append(&b, "x", SIZE_MAX), -ENOBUFS);
	CHECK_EQ(buf_len(&b), 8);
	CHECK_MEM(buf_data(&b), "12345678", 8);
	CHECK_EQ(buf_append(&b, "90", 2), 0);
	CHECK(buf_cstr(&b) == NULL);
	buf_consume(&b, 1);
	CHECK_STR(buf_cstr(&b), "234567890");
	buf_done(&b);
}

TEST(reserve_and_commit)
{
	struct buf b;
	uint8_t *p;

	buf_init(&b, 1 << 20);
	CHECK_EQ(buf_append(&b, "ab", 2), 0);
	p = buf_reserve(&b, 1000);
	CHECK(p != NULL);
	memset(p, 'x', 1000);
	buf_commit(&b, 500);
	CHECK_EQ(buf_len(&b), 502);
	CHECK_EQ(buf_data(&b)[501], 'x');
	buf_done(&b);
}

/* A queue that is always being filled and drained stays small and keeps its order. */
TEST(long_lived_queue)
{
	uint32_t put = 0, got = 0;
	struct buf b;

	buf_init(&b, 4096);
	for (int round = 0; round < 20000; round++) {
		for (int i = 0; i < round % 7; i++, put++)
			CHECK_EQ(buf_append(&b, &put, sizeof(put)), 0);
		while (buf_len(&b) > 16) {
			uint32_t v;

			memcpy(&v, buf_data(&b), sizeof(v));
			CHECK_EQ(v, got++);
			buf_consume(&b, sizeof(v));
		}
	}
	CHECK(b.cap <= 8192);
	buf_done(&b);
}

TEST(large_memory_is_given_back)
{
	static char big[300 << 10];
	struct buf b;

	buf_init(&b, 1 << 20);
	CHECK_EQ(buf_append(&b, big, sizeof(big)), 0);
	buf_consume(&b, sizeof(big));
	/* A stream would need it again; small messages do not. */
	CHECK(b.cap >= sizeof(big));
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(buf_append(&b, big, 10), 0);
		buf_consume(&b, 10);
	}
	CHECK(b.cap < sizeof(big));
	buf_done(&b);
}

TAP_MAIN
