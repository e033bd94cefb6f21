/*
 * Protocol scripts for HTTP: bytes in, what was understood out, as one text. Used by unit tests and
 * by the fuzz targets. The same bytes in other pieces must give the same text.
 */
#pragma once

#include "base/buf.h"
#include "base/limits.h"
#include "http/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that the tests' heads may hold, for calls that do not care. */
#define HTTP_TEST_LIMITS (&(const struct http_limits){DOOR_HEAD_MAX, DOOR_HEADERS_MAX})

enum { SCRIPT_WHOLE = 0, SCRIPT_BYTES = 1 }; /* any other number is a seed for random cuts */

/* Messages one after the other until one is refused or the bytes end; method is what a response
 * answers, NULL for requests. Appends to said, for each message: the head as it is written again,
 * "body<...>", trailers as "trailer<name: value>", then "." for a whole message; or "refused 400";
 * or "cut" where the bytes end in the middle. */
void http_script(const void *p, size_t n, const char *method, uint64_t cuts, struct buf *said);

/* The next number of a sequence that is the same everywhere; the state must not be 0. */
uint64_t http_script_random(uint64_t *state);
