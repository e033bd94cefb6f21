/*
 * A Java trust store (JKS) from a bundle of PEM certificates: Java reads no PEM file.
 *
 *	FEEDFEED, version 2, count; per certificate: 2, alias, time, "X.509", length, DER;
 *	then SHA-1 over the password ("changeit", UTF-16), "Mighty Aphrodite" and all of the above
 *
 * Numbers are big endian, strings have two bytes of length.
 */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

enum { GUEST_JKS_CERTS_MAX = 4096 };

/* What is not a whole certificate between its two lines is passed over. */
int guest_jks_make(struct buf *out, const char *pem, size_t len);

/* Copies a store that is there, with the certificates of pem besides: much less work. from is read
 * from its beginning, and has size bytes. -EBADMSG, before anything is written, where it is none of
 * this form (Java also knows PKCS #12). */
int guest_jks_extend(int to, int from, size_t size, const char *pem);
