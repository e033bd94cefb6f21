/* Fields of flat JSON rows, and what is said of them. */
#include "base/buf.h"
#include "base/json.h"
#include "cli/fields.h"
#include "cli/request.h"
#include "tap.h"

TEST(texts_and_numbers)
{
	static const char row[] = "{\"box\":\"dev\",\"id\":18446744073709551615,\"rule\":null,"
				  "\"is\":\"null\",\"last\":7}";
	char text[16];

	CHECK(field_text(row, "box", text, sizeof(text)));
	CHECK_STR(text, "dev");
	CHECK_EQ(field_u64(row, "id"), UINT64_MAX);
	CHECK_EQ(field_u64(row, "last"), 7);
	CHECK(!field_text(row, "rule", text, sizeof(text)));
	CHECK_STR(text, "");
	CHECK(field_text(row, "is", text, sizeof(text)));
	CHECK_STR(text, "null");
	CHECK(!field_text(row, "none", text, sizeof(text)));
	CHECK_EQ(field_u64(row, "none"), 0);
}

/* A value that looks like a key is none. */
TEST(keys_are_keys)
{
	static const char row[] = "{\"path\":\"\\\"host\\\":\\\"evil\\\",\",\"host\":\"good\"}";
	char text[32];

	CHECK(field_text(row, "host", text, sizeof(text)));
	CHECK_STR(text, "good");
	CHECK(field_text(row, "path", text, sizeof(text)));
	CHECK_STR(text, "\"host\":\"evil\",");
}

TEST(escapes_are_undone)
{
	static const char row[] = "{\"a\":\"\\n\\t\\\\\\/\\u00e4\\u20ac\\ud83d\\ude00\","
				  "\"b\":\"x\\u0000y\\ud83dz\",\"c\":\"\xc3\xa4\xc3\xa4\"}";
	char text[64], small[4];

	CHECK(field_text(row, "a", text, sizeof(text)));
	CHECK_STR(text, "\n\t\\/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	CHECK(field_text(row, "b", text, sizeof(text)));
	CHECK_STR(text, "x\xef\xbf\xbdy\xef\xbf\xbdz");
	/* Cut between runes, not within. */
	CHECK(field_text(row, "c", small, sizeof(small)));
	CHECK_STR(small, "\xc3\xa4");
}

TEST(what_is_no_row_has_no_fields)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"\"a\"",
		"{\"a\"",
		"{\"a\":",
		"{\"a\":\"x",
		"{\"a\":\"\\u",
		"{\"a\":\"\\q\"}",
		"{\"a\":\"\\",
		"{a:1}",
		"{\"b\":1 \"a\"",
		"x{\"a\":1}",
	};
	char text[16];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)field_text(bad[i], "a", text, sizeof(text));
		CHECK(strlen(text) < sizeof(text));
		CHECK(!field_text(bad[i], "zz", text, sizeof(text)));
	}
}

/* Whatever the writer writes, the reader reads. */
TEST(a_round_trip)
{
	char every[256], text[512];
	struct buf b;
	struct json j;

	for (int i = 0; i < 127; i++)
		every[i] = (char)(i + 1);
	every[127] = 0;
	buf_init(&b, 4096);
	json_init(&j, &b);
	json_object_begin(&j);
	json_kv_str(&j, "first", every);
	json_kv_u64(&j, "n", 42);
	json_kv_bool(&j, "yes", true);
	json_kv_str(&j, "last", "end");
	json_object_end(&j);
	CHECK(field_text(buf_cstr(&b), "first", text, sizeof(text)));
	CHECK_STR(text, every);
	CHECK(field_text(buf_cstr(&b), "yes", text, sizeof(text)));
	CHECK_STR(text, "true");
	CHECK(field_text(buf_cstr(&b), "last", text, sizeof(text)));
	CHECK_STR(text, "end");
	buf_done(&b);
}

static void says(uint64_t for_ms, const char *scope, const char *text)
{
	struct buf b;

	buf_init(&b, 1 << 16);
	CHECK_EQ(door_answer_text(&b, "allowed", for_ms, scope), 0);
	CHECK_STR(buf_cstr(&b), text);
	buf_done(&b);
}

TEST(what_was_decided)
{
	static const char request[] = "{\"host\":\"a.test\",\"port\":443,\"method\":\"GET\","
				      "\"path\":\"/x\",\"query\":\"q=1\"}";
	static const char conn[] = "{\"host\":\"a.test\",\"port\":22}";

	says(0, request, "allowed: GET a.test:443/x?q=1\n");
	says(600000, request, "allowed for 10 min: GET a.test:443/x, any query\n");
	says(0, conn, "allowed: connections to a.test:22\n");
	/* An older door does not say what it was about. */
	says(0, NULL, "allowed\n");
	says(600000, NULL, "allowed for 10 min\n");
}

TAP_MAIN
