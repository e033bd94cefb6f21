/*
 * Giving an image away: as an OCI layout (a directory, or a tar of one), as a layout that
 * `docker load` reads too, or as the tar of a root filesystem.
 *
 * What an image came as is given back byte for byte, with the same digests. Where it came without,
 * its layers are packed canonically (store/layer_tar.h) and a config and a manifest written for
 * them, always the same for the same image.
 */
#pragma once

#include "base/err.h"
#include "oci/adopt.h"
#include "store/blobs.h"

#include <stdbool.h>
#include <stdint.h>

enum oci_format { OCI_FORMAT_OCI, OCI_FORMAT_OCI_DIR, OCI_FORMAT_DOCKER, OCI_FORMAT_TAR };

struct oci_exported {
	char digest[BLOB_DIGEST], config[BLOB_DIGEST]; /* of a root filesystem: "" */
	uint64_t bytes;				       /* written */
	bool is_original;			       /* as it came */
};

/* out_fd: where the tar goes, or an empty directory. c->on_progress hears of "write". What failed
 * leaves half an archive there, for the caller to remove. */
int oci_export(struct oci_ctx *c, const char *image, enum oci_format format, int out_fd,
	       struct oci_exported *ret, struct err *e);
