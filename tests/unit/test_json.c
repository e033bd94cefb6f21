/* The JSON writer. */
#include "tap.h"

#include "base/json.h"

static struct buf out;
static struct json j;

static void begin(void)
{
	buf_init(&out, 4096);
	json_init(&j, &out);
}

static void check(const char *want)
{
	CHECK_EQ(j.error, 0);
	CHECK_STR(buf_cstr(&out), want);
	buf_done(&out);
}

TEST(object)
{
	begin();
	json_object_begin(&j);
	json_kv_str(&j, "a", "x");
	json_kv_str(&j, "none", NULL);
	json_kv_u64(&j, "u", UINT64_MAX);
	json_kv_i64(&j, "i", INT64_MIN);
	json_kv_bool(&j, "t", true);
	json_key(&j, "list");
	json_array_begin(&j);
	json_u64(&j, 1);
	json_nil(&j);
	json_array_begin(&j);
	json_array_end(&j);
	json_object_begin(&j);
	json_object_end(&j);
	json_array_end(&j);
	json_object_end(&j);
	check("{\"a\":\"x\",\"none\":null,\"u\":18446744073709551615,\"i\":-9223372036854775808,"
	      "\"t\":true,\"list\":[1,null,[],{}]}");
}

TEST(strings)
{
	begin();
	json_array_begin(&j);
	json_str(&j, "q\"b\\n\nt\tr\r");
	json_strn(&j, "\x01\x7f\0", 3);
	json_strn(&j, "\xff\xc3\xa4", 3);
	json_array_end(&j);
	check("[\"q\\\"b\\\\n\\nt\\tr\\r\",\"\\u0001\\u007f\\u0000\",\"\xef\xbf\xbd\xc3\xa4\"]");
}

TEST(bytes_that_are_not_text)
{
	begin();
	json_array_begin(&j);
	json_base64(&j, "\xff", 1);
	json_base64(&j, "\xff\xfe", 2);
	json_base64(&j, "\xff\xfe\xfd", 3);
	json_base64(&j, "", 0);
	json_array_end(&j);
	check("[\"/w==\",\"//4=\",\"//79\",\"\"]");
}

TEST(a_full_buffer_is_remembered)
{
	buf_init(&out, 8);
	json_init(&j, &out);
	json_object_begin(&j);
	json_kv_str(&j, "key", "a long value");
	json_object_end(&j);
	CHECK_EQ(j.error, -ENOBUFS);
	buf_done(&out);
}

TAP_MAIN
