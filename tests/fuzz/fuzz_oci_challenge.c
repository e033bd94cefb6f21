/*
 * WWW-Authenticate. What is taken has a scheme, Bearer a realm, and no control characters; with
 * another challenge that is not known before it, it is taken the same.
 */
#include "fuzz.h"

#include "oci/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct oci_challenge c = {0}, d = {0};
	bool ok = oci_challenge_parse((const char *)p, n, &c);
	struct buf b;

	buf_init(&b, n + 64);
	MUST(buf_append_str(&b, "Other a=\"b, c\", ") == 0 && buf_append(&b, p, n) == 0);
	if (ok) {
		MUST(c.scheme == OCI_SCHEME_BASIC || (c.scheme == OCI_SCHEME_BEARER && c.realm[0]));
		for (const char *s = c.realm; *s; s++)
			MUST((unsigned char)*s >= ' ' && *s != 127);
		for (const char *s = c.service; *s; s++)
			MUST((unsigned char)*s >= ' ' && *s != 127);
		MUST(oci_challenge_parse((const char *)buf_data(&b), buf_len(&b), &d));
		MUST(d.scheme == c.scheme && strcmp(d.realm, c.realm) == 0 &&
		     strcmp(d.service, c.service) == 0);
	}
	buf_done(&b);
	return 0;
}
