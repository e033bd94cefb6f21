/*
 * Fetching an image from a registry into blobs/: its manifest, its configuration and its layers,
 * several at once.
 *
 * What is there already is not fetched again, what was begun goes on where it ended. Everything is
 * checked against the digest that names it; the manifest itself too where the reference has a
 * digest. Nothing here makes an image of it: that is adopt.h, once all is there. The caller holds
 * the blobs (blobs_hold), so that none of them is taken for unused before that.
 */
#pragma once

#include "oci/http.h"
#include "oci/manifest.h"
#include "oci/ref.h"
#include "store/state.h"

struct oci_pull_progress {
	const char *digest;  /* a blob that is fetched, or was; NULL: none of its own */
	uint64_t have, size; /* of it */
	bool is_done, was_there;
	unsigned blobs, blobs_done;
	uint64_t all_have, all_size; /* of all blobs */
	uint64_t fetched;	     /* bytes that came over the network so far */
};

struct oci_pull_options {
	struct oci_http_options http;
	const struct oci_platform *platform; /* NULL: this machine's */
	/* At most ten times a second, and when a blob is done. Negative ends the pull. */
	int (*on_progress)(void *arg, const struct oci_pull_progress *p);
	void *arg;
};

struct oci_pulled {
	char manifest[BLOB_DIGEST]; /* of the one image, even where the reference led to an index */
	char top[BLOB_DIGEST];	    /* what the reference led to: the same, or the index */
	uint64_t fetched;	    /* bytes that came over the network */
	unsigned layers, layers_there;
	uint64_t bytes; /* of all its blobs */
};

int oci_pull(struct state *s, const struct oci_ref *ref, const struct oci_pull_options *o,
	     struct oci_pulled *ret, struct err *e);
