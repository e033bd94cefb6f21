/*
 * Logins at registries, as Docker's clients and Podman's keep them. The first of these files that
 * has one for the registry is used:
 *
 *	$REGISTRY_AUTH_FILE		     where it is set, no other is read
 *	$DOCKER_CONFIG/config.json
 *	$XDG_RUNTIME_DIR/containers/auth.json
 *	$XDG_CONFIG_HOME/containers/auth.json	     or ~/.config
 *	~/.docker/config.json
 *
 * In one: credHelpers for the registry, then auths, then credsStore. A helper is the program
 * docker-credential-NAME in PATH, asked with `get` and the registry's name on its input, with a
 * time limit and a bounded answer; no secret is in its arguments.
 *
 * The environment is the caller's, handed over: this process has little of it itself.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "oci/ref.h"

struct oci_env {
	const char *const *vars; /* borrowed; "NAME=VALUE", the last is NULL */
};
/* NULL where it is not set or empty. */
const char *oci_env_find(const struct oci_env *env, const char *name);

enum oci_login_kind {
	OCI_LOGIN_NONE,	    /* anonymous */
	OCI_LOGIN_PASSWORD, /* user and secret */
	OCI_LOGIN_REFRESH,  /* secret is a token that other tokens are got with */
	OCI_LOGIN_TOKEN,    /* secret is what the registry itself takes */
};

struct oci_login {
	enum oci_login_kind kind;
	char user[256];
	struct buf secret; /* in locked memory */
	char from[160];	   /* where it was found, for errors */
};

/* 0 also without any: OCI_LOGIN_NONE. ERR_INVALID names the file that cannot be read as one;
 * ERR_UNSUPPORTED or ERR_DENIED the helper that is missing or failed, and the remedy. */
int oci_login_find(const struct oci_env *env, const struct oci_ref *ref, struct oci_login *ret,
		   struct err *e);
void oci_login_done(struct oci_login *l); /* a zeroed one is fine; wipes */

/* One file's text, without running anything: a helper to be asked is named in ret_helper, otherwise
 * that is "". */
enum { OCI_HELPER_NAME = 64 };
int oci_login_parse(const char *text, size_t n, const struct oci_ref *ref, struct oci_login *ret,
		    char ret_helper[OCI_HELPER_NAME], struct err *e);
/* What a helper printed. */
int oci_login_parse_helper(const char *text, size_t n, struct oci_login *ret, struct err *e);
