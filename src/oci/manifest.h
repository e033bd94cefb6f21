/*
 * Manifests and indexes: what an image is made of, as registries, OCI layouts and Docker say it.
 *
 * Of the two ways to write each (OCI's and Docker's) one structure is made. Strict where it
 * matters: a text that could be read as both a manifest and an index is refused, digests are
 * SHA-256, sizes are bounded, a key that stands twice is an error.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "store/blobs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCI_TYPE_INDEX	       "application/vnd.oci.image.index.v1+json"
#define OCI_TYPE_MANIFEST      "application/vnd.oci.image.manifest.v1+json"
#define OCI_TYPE_CONFIG	       "application/vnd.oci.image.config.v1+json"
#define OCI_TYPE_LAYER	       "application/vnd.oci.image.layer.v1.tar"
#define OCI_TYPE_DOCKER_LIST   "application/vnd.docker.distribution.manifest.list.v2+json"
#define OCI_TYPE_DOCKER	       "application/vnd.docker.distribution.manifest.v2+json"
#define OCI_TYPE_DOCKER_CONFIG "application/vnd.docker.container.image.v1+json"

struct oci_platform {
	char os[32], arch[32], variant[32];
};

struct oci_desc {
	char digest[BLOB_DIGEST];
	uint64_t size;
	char type[OCI_TYPE_MAX + 1];  /* media type; "" where there was none */
	struct oci_platform platform; /* of an index's item; "" where it does not say */
};

struct oci_manifest {
	bool is_index;
	struct oci_desc config; /* not of an index */
	struct oci_desc *items; /* owned; layers bottom first, or the index's manifests */
	size_t count;
};

/* type is what the sender calls it (parameters after ';' do not count), or NULL: the text decides.
 * ERR_PROTOCOL where it is neither; ERR_UNSUPPORTED for what is something else, named. */
int oci_manifest_parse(const char *text, size_t n, const char *type, struct oci_manifest *ret,
		       struct err *e);
void oci_manifest_done(struct oci_manifest *m); /* a zeroed one is fine */

/* "os/arch" or "os/arch/variant". */
int oci_platform_parse(const char *text, struct oci_platform *ret, struct err *e);
/* This machine's. */
void oci_platform_host(struct oci_platform *ret);
enum { OCI_PLATFORM_TEXT = 100 };
const char *oci_platform_format(const struct oci_platform *p, char ret[OCI_PLATFORM_TEXT]);
/* Does an image for have run where want is asked for? A variant that is not asked for may be any
 * that every such machine has. */
bool oci_platform_fits(const struct oci_platform *have, const struct oci_platform *want);

/* The index's manifest for a platform. ERR_NOT_FOUND lists those it has. */
int oci_index_find(const struct oci_manifest *index, const struct oci_platform *want,
		   const struct oci_desc **ret, struct err *e);

/* What an image's configuration says it is made for; linux and this machine's where it is silent.
 */
int oci_config_platform(const char *text, size_t n, struct oci_platform *ret, struct err *e);
