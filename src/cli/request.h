/* A request at the door, and what was decided about it, as one text. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

/* "GET example.org:443/path" of an audit row or of an ask, into ret. */
void door_request(const char *json, char *ret, size_t size);

/* "allowed for 10 min: GET example.org:443/path, any query", as a line. Of a door that did not say
 * what it was about (scope is NULL): "allowed for 10 min". 0 or -errno. */
int door_answer_text(struct buf *b, const char *result, uint64_t for_ms, const char *scope);
