/* A request at the door, and what was decided about it, as one text. */
#pragma once

#include "base/buf.h"
#include "cove.h"

#include <stdint.h>

/* "GET example.org:443/path", into ret. box, id and the like of it are not looked at. */
void door_request(const struct cove_ask *ask, char *ret, size_t size);

/* "allowed for 10 min: GET example.org:443/path, any query", as a line. Of a door that did not say
 * what it was about (scope is NULL): "allowed for 10 min". 0 or -errno. */
int door_answer_text(struct buf *b, const char *result, uint64_t for_ms,
		     const struct cove_ask *scope);
