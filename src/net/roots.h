/*
 * Whom this host trusts: the certificates of its store, kept as bytes with an index by name. A
 * store of 150 authorities parsed by OpenSSL takes megabytes and milliseconds; a door needs two or
 * three of them in its life, so each is parsed when a chain first leads to it.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct roots;
struct x509_st;
struct x509_store_st;

/* Reads the files now (the door cannot later), and parses them at the first use.
 *	SSL_CERT_FILE, SSL_CERT_DIR   where one is set, what they name, and nothing else
 *	otherwise                     the first bundle there is of the usual places, or directory
 * A host without a store trusts nobody: no error, roots_note says so. -ENOMEM. */
int roots_new(struct roots **ret, struct err *e);
void roots_free(struct roots *r); /* NULL is fine */

/* Adds to the store what may have signed x, and who may have signed that. */
int roots_add_issuers(struct roots *r, struct x509_store_st *store, const struct x509_st *x);
/* "" or what is wrong with the store, for the end of a sentence: " (...)". */
const char *roots_note(const struct roots *r);
unsigned roots_used(const struct roots *r); /* parsed so far */
