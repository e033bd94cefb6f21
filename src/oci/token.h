/* Logging in at a registry, as it asks for it; see registry.h. */
#pragma once

#include "oci/registry.h"

/* Answers a 401: r->auth is what the next request is to have. */
int oci_registry_login(struct oci_registry *r, const struct oci_answer *a, struct err *e);

/* The token in a token server's answer, into ret: {"token": ...} or {"access_token": ...}. Only
 * characters that a token may have, so that it cannot become another header. */
int oci_token_parse(const char *text, size_t n, struct buf *ret);
