/* JSON of requests into structs: types, bounds, what is misspelt, what is hostile. */
#include "tap.h"

#include "api/in.h"
#include "base/limits_server.h"
#include "cove.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
	const char *text;
	bool flag;
	uint64_t number, ms, bytes, milli;
	unsigned small;
	const char *const *list, *const *pairs;
	json_t *any;
};

static const struct api_in_field fields[] = {API_IN(shape, text, STR),
					     API_IN(shape, flag, BOOL),
					     API_IN(shape, number, U64),
					     API_IN(shape, ms, MS),
					     API_IN(shape, bytes, SIZE),
					     API_IN(shape, milli, MILLI),
					     API_IN(shape, small, UINT),
					     API_IN(shape, list, LIST),
					     API_IN(shape, pairs, PAIRS),
					     API_IN_AS(shape, "any", any, JSON),
					     {NULL, 0, 0}};

static struct api_memory memory;
static json_t *object;

static int take(const char *text, struct shape *ret, struct err *e)
{
	const struct api_in_table tables[] = {{fields, ret}, {NULL, NULL}};
	int r;

	api_memory_done(&memory);
	json_decref(object);
	object = NULL;
	*ret = (struct shape){0};
	r = api_in_parse(text, strlen(text), &object, e);
	return r < 0 ? r : api_in_take(&memory, object, tables, e);
}

static void end(void)
{
	api_memory_done(&memory);
	json_decref(object);
	object = NULL;
}

TEST(every_kind_is_taken)
{
	struct shape s;
	struct err e;

	CHECK(take("{\"text\":\"a\",\"flag\":true,\"number\":5,\"ms\":\"1.5s\",\"bytes\":\"2k\","
		   "\"milli\":0.5,\"small\":80,\"list\":[\"x\",\"y\"],\"pairs\":{\"A\":\"b=c\"},"
		   "\"any\":{\"x\":[1]}}",
		   &s, &e) == 0);
	CHECK(strcmp(s.text, "a") == 0 && s.flag && s.number == 5 && s.ms == 1500);
	CHECK(s.bytes == 2048 && s.milli == 500 && s.small == 80);
	CHECK(strcmp(s.list[1], "y") == 0 && !s.list[2]);
	CHECK(strcmp(s.pairs[0], "A=b=c") == 0 && !s.pairs[1] && json_is_object(s.any));
	CHECK(take("{\"ms\":90,\"bytes\":90,\"milli\":2,\"pairs\":[\"A=1\"]}", &s, &e) == 0);
	CHECK(s.ms == 90 && s.bytes == 90 && s.milli == 2000 && strcmp(s.pairs[0], "A=1") == 0);
	CHECK(take("{\"ms\":-1,\"bytes\":\"unlimited\",\"number\":-1}", &s, &e) == 0);
	CHECK(s.ms == COVE_UNLIMITED && s.bytes == COVE_UNLIMITED && s.number == COVE_UNLIMITED);
	CHECK(take("{\"text\":null,\"list\":null}", &s, &e) == 0 && !s.text && !s.list);
	CHECK(take("{}", &s, &e) == 0);
	end();
}

TEST(what_is_wrong_is_named)
{
	static const char *const bad[] = {"{\"text\":1}",
					  "{\"flag\":1}",
					  "{\"number\":1.5}",
					  "{\"number\":-2}",
					  "{\"ms\":\"soon\"}",
					  "{\"ms\":-2}",
					  "{\"bytes\":\"2x\"}",
					  "{\"bytes\":true}",
					  "{\"milli\":\"two\"}",
					  "{\"milli\":-0.5}",
					  "{\"milli\":1e99}",
					  "{\"milli\":99999999999}",
					  "{\"small\":70000}",
					  "{\"list\":\"x\"}",
					  "{\"list\":[1]}",
					  "{\"pairs\":[1]}",
					  "{\"pairs\":{\"A\":1}}",
					  "{\"pairs\":{\"A=B\":\"c\"}}",
					  "{\"txt\":\"a\"}",
					  "[]",
					  "5",
					  "{\"text\":\"a\\u0000b\"}",
					  "{\"list\":[\"a\\u0000b\"]}"};
	struct shape s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {0};

		CHECK(take(bad[i], &s, &e) < 0);
		CHECK(e.kind == ERR_INVALID && e.msg[0]);
	}
	end();
}

TEST(what_is_no_json_is_refused)
{
	static const char *const bad[] = {
		"", "{", "{}x", "{\"a\":1,\"a\":2}", "\xff", "nul", "{\"text\":\"\xff\"}"};
	char deep[5000];
	struct shape s;
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(take(bad[i], &s, &e) < 0);
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = 0;
	CHECK(take(deep, &s, &e) < 0);
	memset(deep, 0, sizeof(deep));
	memset(deep, '[', 40);
	memset(deep + 40, ']', 40);
	CHECK(take(deep, &s, &e) == -E2BIG);
	end();
}

/* The text alone is small; what is made of it is not. What a string holds does not count. */
TEST(values_are_counted_before_they_are_made)
{
	static char text[API_JSON_VALUES_MAX * 3 + 64];
	struct shape s;
	struct err e = {0};
	size_t n = (size_t)sprintf(text, "{\"any\":[");

	for (unsigned i = 0; i + 3 < API_JSON_VALUES_MAX; i++)
		n += (size_t)sprintf(text + n, i ? ",0" : "0");
	sprintf(text + n, "]}");
	CHECK(take(text, &s, &e) == 0 && json_array_size(s.any) == API_JSON_VALUES_MAX - 3);
	sprintf(text + n, ",0]}");
	CHECK(take(text, &s, &e) == -EMSGSIZE && e.kind == ERR_LIMIT);
	n = (size_t)sprintf(text, "{\"text\":\"\\\"");
	memset(text + n, ',', API_JSON_VALUES_MAX);
	sprintf(text + n + API_JSON_VALUES_MAX, "\"}");
	CHECK(take(text, &s, &e) == 0 && strlen(s.text) == API_JSON_VALUES_MAX + 1);
	end();
}

TEST(a_text_within_the_memory_lives_as_long_as_it)
{
	struct api_memory m = {0};
	char *a = api_memory_printf(&m, "%s-%d", "x", 5), *b = api_memory_get(&m, 100000);

	CHECK(strcmp(a, "x-5") == 0 && b && b[99999] == 0);
	api_memory_done(&m);
	api_memory_done(&m);
}

TAP_MAIN
