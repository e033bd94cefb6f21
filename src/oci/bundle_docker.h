/* Between bundle.c and bundle_docker.c: files of a tar, and what they become. */
#pragma once

#include "oci/bundle.h"

struct oci_bundle_file {
	char *name;   /* owned */
	char *target; /* owned; a link's */
	char digest[BLOB_DIGEST];
	uint64_t size;
};

/* NULL: there is none. */
const struct oci_bundle_file *oci_bundle_find(const struct oci_bundle *a, const char *name);

/* A blob of our own making. */
int oci_bundle_put(struct oci_bundle *a, const void *data, size_t n, char ret[BLOB_DIGEST],
		   struct err *e);
int oci_bundle_add(struct oci_bundle *a, const char *digest, const char *name, struct err *e);

/* The images of manifest.json: each gets a manifest of OCI's, always the same for the same image.
 * */
int oci_bundle_read_docker(struct oci_bundle *a, struct err *e);
