/*
 * Cookies, as a proxy handles them that has one of its own beside those of the server behind it
 * (RFC 6265). Names are compared as they are, case included.
 */
#pragma once

#include "http/http.h"

/* The value of the nth cookie of that name, from 0, in all Cookie fields: it stands in the head,
 * *ret_len bytes of it. NULL: there are no more. */
const char *http_cookie_find(const struct http_head *h, const char *name, size_t nth,
			     size_t *ret_len);
/* Appends the value of a Cookie field without the cookies of that name. What is left may be empty.
 */
int http_cookie_remove(const char *value, const char *name, struct buf *out);

/* Does the value of a Set-Cookie field set that cookie? */
bool http_set_cookie_is(const char *value, const char *name);
/* Appends it without its Domain: the cookie is for the host that answers, and no other. */
int http_set_cookie_host_only(const char *value, struct buf *out);
