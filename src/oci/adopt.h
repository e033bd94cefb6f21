/*
 * Making images of what is in blobs/: a manifest, its config and its layers, all whole and checked
 * against their digests.
 *
 * Layers that are not there yet are unpacked, several at once, each by a decompressor that can do
 * nothing else (expand.h) and a child inside the box's ids. What comes out must have the hash that
 * the config says (its diff id); otherwise nothing of the image stays. The blobs stay, so that the
 * image can be given away as it came.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

struct oci_progress {
	const char *what;     /* "unpack" */
	uint64_t done, total; /* compressed bytes; total 0: not known */
};

struct oci_ctx {
	struct state *state;
	const struct ids *ids;
	const char *source; /* where it came from; NULL: nothing is kept about it */
	const char *user;   /* instead of the config's; NULL: that one's */
	uint64_t max_size;  /* bytes that all its files may hold; 0: LAYER_BYTES_MAX */
	/* May be NULL; -errno ends the work. */
	int (*on_progress)(void *arg, const struct oci_progress *p);
	void *arg;
};

/* Writes the image, in place of one of that name. The manifest is one, not an index. The name is as
 * image_name_clean has it. */
int oci_adopt(struct oci_ctx *c, const char *manifest_digest, const char *image_name,
	      struct err *e);
