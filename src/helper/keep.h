/* What the verbs that look after the state directory share: sizes, and which blobs are in use. */
#pragma once

#include "db/db.h"
#include "helper/helper.h"
#include "store/image.h"

#include <stdint.h>

/* What name below dir_fd takes on disk, looked at with the box's ids. Missing is 0. */
int keep_usage(struct helper *h, int dir_fd, const char *name, uint64_t *ret_bytes, struct err *e);
/* The same of one layer: what its own file says, else what it takes. */
int keep_layer_bytes(struct helper *h, const char *id, uint64_t *ret_bytes, struct err *e);

/* The digests that images need for their export, as a set (name -> true): manifests, and all that
 * they name. But for the images of the array without (may be NULL). Owned. An error where one
 * cannot be read: what it names would look unused. */
int keep_blob_refs(struct helper *h, json_t *without, json_t **ret, struct err *e);

/* The layers that the build cache knows, as such a set. Owned. */
int keep_cached(struct db *db, json_t **ret, struct err *e);

/* "kind layer", "name ...", "bytes ..." as progress. */
int keep_say(struct helper *h, const char *kind, const char *name, uint64_t bytes);
