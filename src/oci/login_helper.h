/* Asking docker-credential-NAME; see login.h. */
#pragma once

#include "oci/login.h"

/* OCI_LOGIN_NONE where it has none for the registry. */
int oci_login_ask_helper(const struct oci_env *env, const char *name, const struct oci_ref *ref,
			 struct oci_login *ret, struct err *e);
