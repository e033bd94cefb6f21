/*
 * A streaming JSON writer over a buf. It places commas and quotes; the caller keeps the order of
 * calls right (an assertion says when it did not). Bytes that are not valid UTF-8 are written as
 * U+FFFD; where they matter json_base64 carries them whole.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 16 };

struct json {
	struct buf *out; /* borrowed */
	int depth;
	bool has_item[JSON_DEPTH_MAX];
	bool after_key;
	int error; /* first failure of the buffer, or 0 */
};

void json_init(struct json *j, struct buf *out);

void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);

void json_str(struct json *j, const char *s); /* NULL writes null */
void json_strn(struct json *j, const char *s, size_t n);
/* A string of base64, for bytes that are not text. */
void json_base64(struct json *j, const void *p, size_t n);
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
void json_bool(struct json *j, bool v);
void json_nil(struct json *j);
/* A value that is JSON already, as it is. */
void json_raw(struct json *j, const char *text);

/* key and value in one line. */
void json_kv_str(struct json *j, const char *key, const char *s);
void json_kv_u64(struct json *j, const char *key, uint64_t v);
void json_kv_i64(struct json *j, const char *key, int64_t v);
void json_kv_bool(struct json *j, const char *key, bool v);
/* Bytes that may be no text; then whole besides, as the member key64. p may be NULL when n is 0. */
void json_kv_bytes(struct json *j, const char *key, const char *key64, const char *p, size_t n);
