/*
 * One repository of one registry (the OCI distribution protocol): where it is, who we are there,
 * and which failures are worth another try.
 *
 * TLS is used wherever the registry speaks it; plain http is asked only after TLS failed, and only
 * on this machine or with --insecure. A login is looked for when the registry first asks for one.
 * It goes to the registry itself or to the token server that it names, and to no one else; the
 * token that comes back goes to the registry alone.
 */
#pragma once

#include "oci/http.h"
#include "oci/ref.h"

struct oci_registry {
	struct oci_http http;
	struct oci_ref ref;
	struct oci_login login;
	bool has_looked; /* for a login */
	bool is_known;	 /* it has answered: what base begins with stays */
	unsigned round;	 /* how many times a login was made */
	struct buf auth; /* the header line; secret */
	char base[OCI_HOST_MAX + 16];
};

int oci_registry_open(struct oci_registry *r, const struct oci_ref *ref,
		      const struct oci_http_options *o, struct err *e);
void oci_registry_close(struct oci_registry *r); /* a zeroed one is fine */

/* One request's tries. */
struct oci_tries {
	unsigned failed; /* in a row */
	unsigned all;
	unsigned logins;
	unsigned round; /* the registry's when it was sent */
	uint64_t wait_until_ms;
};

/* 1: try it again, once wait_until_ms (clock_mono_ms) is there; 0: it is an answer; negative: it
 * has failed. What is for the error's words. */
int oci_registry_judge(struct oci_registry *r, const struct oci_get *g, struct oci_tries *t,
		       const char *what, struct err *e);

enum { OCI_REGISTRY_URL = OCI_HOST_MAX + OCI_PATH_MAX + 256 };
/* kind is "manifests" or "blobs"; name a tag, or a digest with is_digest. */
void oci_registry_url(const struct oci_registry *r, const char *kind, const char *name,
		      bool is_digest, char ret[OCI_REGISTRY_URL]);

/* Gets a manifest, whole. */
int oci_registry_manifest(struct oci_registry *r, const char *name, bool is_digest, struct buf *ret,
			  struct oci_answer *ret_answer, struct err *e);
