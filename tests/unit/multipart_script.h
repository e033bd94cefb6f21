/*
 * Protocol scripts for forms: the bytes of a body in, what was understood out, as one text. Used by
 * unit tests and by the fuzz target. The same bytes in other pieces must give the same text.
 */
#pragma once

#include "http/multipart.h"
#include "http_script.h"

/* Appends to said, for each part: "name|filename|type{content}", "-" where there is none; at the
 * end "." for a whole form, "cut", or "refused 400". A part that is not whole has no brace at its
 * end. */
void multipart_script(const char *content_type, unsigned parts_max, const void *p, size_t n,
		      uint64_t cuts, struct buf *said);
