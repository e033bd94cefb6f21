/* What the files of this module share: classes of bytes, names, refusals. Not for others. */
#pragma once

#include "http/http.h"

#include <errno.h>

enum {
	HTTP_TOKEN = 1,	  /* in a method or a field's name */
	HTTP_VISIBLE = 2, /* ASCII that prints, without space */
	HTTP_PATH = 4,	  /* in a path's normal form as it is */
	HTTP_PLAIN = 8,	  /* in a query's name or value as it is */
};
extern const uint8_t http_classes[256];

static inline bool http_is(unsigned char c, unsigned classes)
{
	return (http_classes[c] & classes) != 0;
}

/* The value of a hex digit, or -1. */
static inline int http_hex(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of "%XX" at p, of which n bytes are there, or -1. */
static inline int http_escape_at(const char *p, size_t n)
{
	if (n < 3 || p[0] != '%' || http_hex((unsigned char)p[1]) < 0 ||
	    http_hex((unsigned char)p[2]) < 0)
		return -1;
	return http_hex((unsigned char)p[1]) << 4 | http_hex((unsigned char)p[2]);
}

/* Appends n bytes with their escapes decoded; '+' as `plus`. -EINVAL for a bad escape or a NUL,
 * or the buffer's error; out is as it was if it fails. */
int http_decode(const char *p, size_t n, char plus, struct buf *out);

static inline char http_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The sentence, the HTTP status in e->code, and the errno to return. */
#define http_refuse(e, r, status, ...) \
	((void)err_set(e, ERR_PROTOCOL, status, __VA_ARGS__), (int)(r))

/* Why buf_reserve of n bytes failed. */
static inline int http_no_room(const struct buf *out, size_t n)
{
	return n > out->max || buf_len(out) > out->max - n ? -ENOBUFS : -ENOMEM;
}

/* Is it this name for those as well who read '_' as '-'? */
bool http_name_like(const char *name, const char *other);
/* Like one of a list that ends with NULL. */
bool http_name_among(const char *name, const char *const *list);
/* Token of n bytes at p, which need not end there, against a whole string; case does not matter. */
bool http_token_is(const char *p, size_t n, const char *token);
/* The next element of a comma list, without the space around it; false at the end. */
bool http_list_next(const char **list, const char **ret, size_t *ret_len);
/* All of n bytes may stand in a field's value or a reason: no control bytes but tab. */
bool http_value_ok(const char *p, size_t n);

/* Cuts n bytes of whole field lines, which are in h->text, into h->fields; there is room. */
int http_fields_parse(struct http_head *h, char *p, size_t n, int status, struct err *e);
/* Length of the fields when written, and their writing. */
size_t http_fields_size(const struct http_head *h);
void http_text_free(struct http_head *h);
uint8_t *http_fields_write(const struct http_head *h, uint8_t *to);
/* Makes room for that many fields and bytes of text; pointers into the text follow it. */
int http_head_reserve(struct http_head *h, size_t fields, size_t bytes);

/* What the fields say of the body. */
struct http_framed {
	bool chunked, has_length;
	uint64_t length;
};
int http_framing_find(const struct http_head *h, struct http_framed *ret, struct err *e);
