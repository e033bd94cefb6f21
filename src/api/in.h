/*
 * A JSON object of a request into a struct, by a table: one row per key, with its type and where it
 * goes. A key that no row knows is an error, as is a value of another type, so that a misspelt
 * limit is never silently none. Strings point into the JSON value, lists into the caller's memory.
 *
 * Times are milliseconds as a number, or a text as the command line takes it ("90", "1.5s", "10m");
 * sizes bytes, or "512m"; CPUs a number or a text, in thousandths. -1 or "unlimited" lifts a limit.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum api_in_kind {
	API_IN_STR,   /* const char *; no NUL within */
	API_IN_BOOL,  /* bool */
	API_IN_U64,   /* uint64_t; 0 to 2^63 - 1 */
	API_IN_UINT,  /* unsigned; at most 65535 */
	API_IN_MS,    /* uint64_t */
	API_IN_SIZE,  /* uint64_t */
	API_IN_MILLI, /* uint64_t */
	API_IN_LIST,  /* const char *const *: an array of strings */
	API_IN_PAIRS, /* const char *const * "NAME=VALUE": such an array, or an object */
	API_IN_JSON,  /* json_t *, borrowed: the handler's own to look at */
};

struct api_in_field {
	const char *key; /* NULL ends the table */
	enum api_in_kind kind;
	size_t offset;
};

/* clang-format off */
#define API_IN(tag, name, kind) {#name, API_IN_##kind, offsetof(struct tag, name)}
#define API_IN_AS(tag, key, name, kind) {key, API_IN_##kind, offsetof(struct tag, name)}
/* clang-format on */

/* Blocks that live as long as a request. */
struct api_memory {
	struct api_block *blocks; /* owned */
};
void *api_memory_get(struct api_memory *m, size_t size); /* zeroed; NULL without memory */
char *api_memory_printf(struct api_memory *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void api_memory_done(struct api_memory *m);

/* fields: tables one after the other, each for the struct at the same place of `to`; NULL ends
 * them. object NULL: an empty one. ERR_INVALID names the key. */
struct api_in_table {
	const struct api_in_field *fields;
	void *to;
};
int api_in_take(struct api_memory *m, json_t *object, const struct api_in_table *tables,
		struct err *e);

/* A text that a person wrote as JSON: strict (no duplicate keys, no NUL, nothing after it), nested
 * at most API_JSON_DEPTH_MAX, of at most API_JSON_VALUES_MAX values. The value is the caller's. */
enum { API_JSON_DEPTH_MAX = 32 };
int api_in_parse(const char *text, size_t len, json_t **ret, struct err *e);
