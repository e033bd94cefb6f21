/*
 * A client of server-sent events, by the rules of HTML, for tests: what a stream comes to.
 */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* Appends, for each event that is dispatched, "name|id|data;" where id is the last one so far, and
 * for each retry "retry N;". What is not dispatched at the end is dropped, as a client does. */
void sse_read(const uint8_t *p, size_t n, struct buf *said);
