/*
 * A box's certificate authority: a P-256 key, a self-signed certificate that may sign nothing but
 * leaves, and the leaves made with it. Each is for one box: the key is in its door's memory and in
 * boxes/<name>/ca.pem (0600) until the box ends, and only that box trusts it.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

struct ca;
typedef struct ssl_ctx_st SSL_CTX; /* OpenSSL's own name */

/* Appends certificate, then key, as PEM. `cove-door make-ca DIR COUNT` writes COUNT of them as
 * DIR/<32 hex>.pem, 0600, each whole or not at all. */
int ca_make(struct buf *out, struct err *e);
int ca_make_many(const char *dir, unsigned count, struct err *e);

int ca_open(struct ca **ret, const char *pem, struct err *e);
void ca_free(struct ca *ca);

/* A server context with a leaf for the name or address: kept for the next time, at most
 * DOOR_LEAVES_MAX, the least used goes first. Borrowed. */
int ca_leaf(struct ca *ca, const char *host, SSL_CTX **ret, struct err *e);
