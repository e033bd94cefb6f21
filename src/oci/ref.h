/*
 * References: how people name an image of a registry.
 *
 *	[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]
 *
 * The first part is a host if it has a dot or a colon or is "localhost"; otherwise the host is
 * docker.io, where a PATH of one part is below library/. Without tag and digest the tag is latest.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "store/blobs.h"

#include <stdbool.h>

#define OCI_HUB "docker.io"

struct oci_ref {
	char host[OCI_HOST_MAX + 1]; /* with :PORT where it was given; lower case */
	char path[OCI_PATH_MAX + 1];
	char tag[OCI_TAG_MAX + 1]; /* "" where there is only a digest */
	char digest[BLOB_DIGEST];  /* "" where there is none; it goes before the tag */
};

/* ERR_INVALID says what is wrong and where. */
int oci_ref_parse(const char *text, struct oci_ref *ret, struct err *e);

enum { OCI_REF_TEXT = OCI_HOST_MAX + OCI_PATH_MAX + OCI_TAG_MAX + BLOB_DIGEST + 16 };
/* The whole of it, with all defaults: parses to the same. */
const char *oci_ref_format(const struct oci_ref *ref, char ret[OCI_REF_TEXT]);

/* What is asked on the network: docker.io's registry has another name. */
const char *oci_ref_server(const struct oci_ref *ref);

/* Is it this machine itself: localhost, 127.x.x.x, [::1], whatever the port? host ends at a slash
 * or with the string. */
bool oci_host_is_loopback(const char *host);
