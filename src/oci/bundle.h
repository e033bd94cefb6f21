/*
 * Archives of images: OCI layouts, as a directory or as a tar of it, and what `docker save` writes,
 * in its old form (manifest.json and layer.tar files) and its newer one, which is a layout too.
 *
 * What an archive holds goes to blobs/, byte for byte and under its own hash; what an archive calls
 * by a digest must have it. Then its index says which images there are. An old archive of Docker's
 * has no manifests: one is written for each image, always the same for the same image.
 *
 *	oci_bundle_read_*  ->  found[]  ->  oci_adopt of each  ->  oci_bundle_done
 */
#pragma once

#include "base/err.h"
#include "oci/adopt.h"
#include "oci/expand.h"
#include "oci/manifest.h"
#include "store/image.h"

#include <stdbool.h>
#include <stddef.h>

struct oci_found {
	char digest[BLOB_DIGEST];      /* of its manifest, which is in blobs/ */
	char name[IMAGE_NAME_MAX + 1]; /* as the archive calls it; "" where it does not */
};

struct oci_bundle_file;

struct oci_bundle {
	struct oci_ctx *c;
	const struct oci_platform *platform; /* which of several it is to be */
	int dir_fd;			     /* borrowed; -1: it is a tar */
	int hold_fd;			     /* owned: the blobs stay */
	struct oci_bundle_file *files;	     /* owned; of a tar */
	size_t file_count;
	char (*made)[BLOB_DIGEST]; /* owned: blobs that were not there before */
	size_t made_count, made_cap;
	char *index, *manifest; /* owned: index.json, manifest.json */
	size_t index_len, manifest_len;
	struct oci_found *found; /* owned */
	size_t found_count;
};

/* Is the stream an archive of images? Else it is taken for a root filesystem. Looks at its head. */
int oci_bundle_is(struct expand *x, bool *ret, struct err *e);

/* Either leaves what oci_bundle_done has to clean up, also when it fails. */
int oci_bundle_read_tar(struct oci_bundle *a, struct expand *x, struct err *e);
int oci_bundle_read_dir(struct oci_bundle *a, int dir_fd, struct err *e);

/* Removes the blobs that came and that no image uses: all of them where nothing was adopted. */
void oci_bundle_done(struct oci_bundle *a);
