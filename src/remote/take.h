/*
 * What a server answers, into the structs of cove.h: by the tables with which libcove writes such
 * objects. What has not the type that it should have is as if it were not there.
 */
#pragma once

#include "base/err.h"
#include "cove.h"
#include "wire/field.h"

#include <jansson.h>

const char *remote_text(const json_t *o, const char *key); /* borrowed; NULL: none */
uint64_t remote_number(const json_t *o, const char *key);
bool remote_is(const json_t *o, const char *key);
/* The members of a table that are there, each as its show says; what is missing is 0 or unknown.
 * Texts that are borrowed (FIELD_STR) live as long as o. */
void remote_take(const json_t *o, const struct wire_named_field *fields, void *ret);
/* The rows of o's array `key`: the count, and *ret is the caller's to free. size: of one. */
int remote_take_rows(const json_t *o, const char *key, const struct wire_named_field *fields,
		     size_t size, void **ret, struct err *e);
/* text, or base64 beside it: owned, NUL-terminated. NULL: neither, or no memory. */
char *remote_take_bytes(const json_t *o, const char *key, const char *key64, size_t *ret_len);
/* Owned: cwd, denied, and with output out and err_out. */
int remote_take_result(const json_t *o, bool output, struct cove_result *ret, struct err *e);

/* An array of texts as one, with sign between; what is over size is cut. */
void remote_take_joined(const json_t *list, char sign, char *ret, size_t size);

/* show.c: all pages of a list. As cove_list. */
struct remote_list {
	const char *path, *key, *name; /* name: the "{}" of the path; NULL */
	const char *query, *value;     /* of its one parameter; NULL */
	const struct wire_named_field *fields;
	size_t size;				    /* of a row */
	void (*on_row)(const json_t *o, void *row); /* what no table says; NULL */
};
int remote_list_all(struct cove *cove, const struct remote_list *list, void **ret,
		    struct cove_error *err);
/* The same without a parameter and on_row. */
int remote_rows(struct cove *cove, const char *path, const char *key, const char *name,
		const struct wire_named_field *fields, size_t size, void **ret,
		struct cove_error *err);
