/* How a registry asks for a login: the value of WWW-Authenticate (RFC 9110, 11.6.1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum oci_scheme { OCI_SCHEME_NONE, OCI_SCHEME_BASIC, OCI_SCHEME_BEARER };

struct oci_challenge {
	enum oci_scheme scheme;
	char realm[2048]; /* of BEARER: where tokens are given out */
	char service[512];
};

/* Of several challenges in it Bearer is taken, then Basic. False where it asks for neither, or is
 * not of the form. */
bool oci_challenge_parse(const char *value, size_t n, struct oci_challenge *ret);
