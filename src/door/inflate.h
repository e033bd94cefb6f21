/*
 * Content that an upstream compressed although it was not asked to (gzip, deflate), made plain as
 * it comes, so that it can be searched. No I/O.
 *
 * A little that grows without end would cost the search its time: beyond INFLATE_FREE_MAX of
 * plain text it may be INFLATE_RATIO_MAX times what came, and no more. What zlib keeps of the text
 * is wiped.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inflater;

/* coding is a value of Content-Encoding. -EOPNOTSUPP: not one of those; -ENOMEM. */
int inflater_new(struct inflater **ret, const char *coding);
void inflater_free(struct inflater *z); /* NULL is fine */

/* The next n bytes of the content; what they become is written to out (room bytes, at least one).
 * 1: more comes of what it has, call again with what is left of the input, which may be nothing;
 * 0: not. Negative: broken, grown too far, or something stands behind its end. */
int inflater_feed(struct inflater *z, const uint8_t *p, size_t n, size_t *ret_used, uint8_t *out,
		  size_t room, size_t *ret_len, struct err *e);
/* The content has ended: -EBADMSG if that is too early. Nothing at all is fine. */
int inflater_close(const struct inflater *z, struct err *e);
