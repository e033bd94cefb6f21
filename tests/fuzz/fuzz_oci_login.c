/*
 * Files of logins, a credential helper's answer, and a token server's. What is found has a secret
 * within its bound; a helper's name is one word; an error has a sentence.
 */
#include "fuzz.h"

#include "oci/login.h"
#include "oci/token.h"

/* A token server's answer: what is taken of it cannot end a line. */
static void check_token(const uint8_t *p, size_t n)
{
	struct buf token;

	buf_init(&token, OCI_SECRET_MAX);
	if (oci_token_parse((const char *)p, n, &token) == 0) {
		MUST(buf_len(&token) > 0);
		for (size_t i = 0; i < buf_len(&token); i++)
			MUST(buf_data(&token)[i] > ' ' && buf_data(&token)[i] < 127);
	}
	buf_done(&token);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char helper[OCI_HELPER_NAME];
	struct oci_login l;
	struct oci_ref ref;
	struct err e = {0};

	MUST(oci_ref_parse("r.example/team/x", &ref, &e) == 0);
	if (oci_login_parse((const char *)p, n, &ref, &l, helper, &e) == 0) {
		MUST(!strpbrk(helper, "/ \n") && helper[0] != '.' && helper[0] != '-');
		MUST(l.kind == OCI_LOGIN_NONE || buf_len(&l.secret) <= OCI_SECRET_MAX);
		MUST(!helper[0] || l.kind == OCI_LOGIN_NONE);
	} else {
		MUST(e.msg[0]);
	}
	oci_login_done(&l);
	if (oci_login_parse_helper((const char *)p, n, &l, &e) == 0)
		MUST(l.kind != OCI_LOGIN_NONE && buf_len(&l.secret) > 0);
	oci_login_done(&l);
	check_token(p, n);
	return 0;
}
