/* Lines of "key value". */
#include "tap.h"

#include "base/crc.h"
#include "base/lines.h"

TEST(round_trip)
{
	static const char *const values[] = {"",   "x",	  "two words", " lead",	 "a\nb",
					     "\\", "\\n", "\n\n",      "tail\\", "\xff\x01"};
	const char *key, *value;
	struct lines l;
	struct buf b;
	char *text;

	buf_init(&b, 4096);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		CHECK_EQ(lines_put(&b, "some_key", values[i]), 0);
	CHECK_EQ(lines_put_u64(&b, "n", UINT64_MAX), 0);
	CHECK_EQ(lines_put_u64(&b, "n", 0), 0);
	text = strdup(buf_cstr(&b));
	lines_init(&l, text, strlen(text));
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		CHECK_EQ(lines_next(&l, &key, &value), 1);
		CHECK_STR(key, "some_key");
		CHECK_STR(value, values[i]);
	}
	CHECK_EQ(lines_next(&l, &key, &value), 1);
	CHECK_STR(value, "18446744073709551615");
	CHECK_EQ(lines_next(&l, &key, &value), 1);
	CHECK_STR(value, "0");
	CHECK_EQ(lines_next(&l, &key, &value), 0);
	CHECK_EQ(lines_next(&l, &key, &value), 0);
	free(text);
	buf_done(&b);
}

TEST(bad_keys_are_refused)
{
	struct buf b;

	buf_init(&b, 4096);
	CHECK_EQ(lines_put(&b, "", "x"), -EINVAL);
	CHECK_EQ(lines_put(&b, "A", "x"), -EINVAL);
	CHECK_EQ(lines_put(&b, "a b", "x"), -EINVAL);
	CHECK_EQ(lines_put(&b, "a\nb", "x"), -EINVAL);
	CHECK_EQ(buf_len(&b), 0);
	buf_done(&b);
}

TEST(a_full_buffer_keeps_whole_lines)
{
	struct buf b;

	buf_init(&b, 10);
	CHECK_EQ(lines_put(&b, "a", "b"), 0);
	CHECK_EQ(lines_put(&b, "a", "much too long"), -ENOBUFS);
	CHECK_EQ(buf_len(&b), 4);
	buf_done(&b);
}

static int first(const char *bytes, size_t n)
{
	char *text = malloc(n + 1);
	const char *key, *value;
	struct lines l;
	int r;

	memcpy(text, bytes, n);
	text[n] = '\0';
	lines_init(&l, text, n);
	r = lines_next(&l, &key, &value);
	free(text);
	return r;
}

TEST(bad_text_is_refused)
{
	CHECK_EQ(first("", 0), 0);
	CHECK_EQ(first("a b\n", 4), 1);
	CHECK_EQ(first("a \n", 3), 1);
	CHECK_EQ(first("a b", 3), -EBADMSG); /* cut short */
	CHECK_EQ(first("a\n", 2), -EBADMSG); /* no value */
	CHECK_EQ(first("\n", 1), -EBADMSG);
	CHECK_EQ(first(" b\n", 3), -EBADMSG);
	CHECK_EQ(first("A b\n", 4), -EBADMSG);
	CHECK_EQ(first("a \\x\n", 5), -EBADMSG); /* an escape we never write */
	CHECK_EQ(first("a \\\n", 4), -EBADMSG);	 /* an escape cut short */
	CHECK_EQ(first("a b\0c\n", 6), -EBADMSG);
}

TEST(sums)
{
	static const char old[] = "a b\n";
	struct buf b;
	char text[64];
	size_t n;

	CHECK_EQ(crc32c("123456789", 9), 0xe3069283); /* the check value of CRC-32C */
	CHECK_EQ(crc32c("", 0), 0);
	buf_init(&b, sizeof(text));
	CHECK_EQ(lines_begin_sum(&b), 0);
	CHECK_EQ(lines_put(&b, "a", "b"), 0);
	lines_end_sum(&b);
	n = buf_len(&b);
	memcpy(text, buf_data(&b), n);
	CHECK_EQ(n, LINES_SUM_BYTES + 4);
	CHECK_EQ(lines_check_sum(text, n), 1);
	CHECK_EQ(lines_check_sum(old, 4), 0);
	CHECK_EQ(lines_check_sum("", 0), 0);
	CHECK_EQ(lines_check_sum("sum", 3), 0); /* a line that cannot be read */
	for (size_t cut = 4; cut < n; cut++)
		CHECK_EQ(lines_check_sum(text, cut), -EBADMSG);
	text[n - 1] ^= 1;
	CHECK_EQ(lines_check_sum(text, n), -EBADMSG);
	buf_done(&b);
}

TAP_MAIN
