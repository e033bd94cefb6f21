/*
 * A box's certificate authority: a P-256 key, a self-signed certificate that may sign nothing but
 * leaves, and the leaves made with it. Each is for one box: the key is in its door's memory and in
 * door/used/ (0600) until the box ends, and only that box trusts it.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

struct ca;
struct x509_st;	    /* OpenSSL's X509 */
struct evp_pkey_st; /* and its EVP_PKEY */

enum { CA_DAYS = 366, CA_LEAF_DAYS = 30, CA_PEM_MAX = 8192 };

/* Appends certificate, then key, as PEM. `cove-door make-ca DIR COUNT` writes COUNT of them as
 * DIR/<32 hex>.pem, 0600, each whole or not at all (not fsynced: what a power failure leaves broken
 * is thrown away by whoever takes it). DIR is made where it is missing. */
int ca_make(struct buf *out, struct err *e);
int ca_make_many(const char *dir, unsigned count, struct err *e);

/* pem: certificate and key. One that has expired, cannot sign, or whose key is another's is an
 * error. */
int ca_open(struct ca **ret, const char *pem, struct err *e);
void ca_free(struct ca *ca); /* NULL is fine */

/* The certificate for the name or address: kept for the next time, at most DOOR_LEAVES_MAX, the
 * least recently used goes first; made again in time before it expires. Borrowed until the next
 * call. All leaves of an authority have one key, which is in no file. -EINVAL for what is neither a
 * name nor an address. */
int ca_leaf(struct ca *ca, const char *host, struct x509_st **ret, struct err *e);
struct evp_pkey_st *ca_leaf_key(struct ca *ca); /* borrowed */
unsigned ca_leaf_count(const struct ca *ca);

/* Says what failed, and why in OpenSSL's words. */
int crypto_failed(struct err *e, const char *what);
/* For OpenSSL: none can be asked for, so a key that has one is an error. */
int pem_no_password(char *p, int size, int rw, void *arg);
