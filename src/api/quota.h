/* What a key may use at once, held from before it is made until the call that makes it ends. */
#pragma once

#include "api/api.h"
#include "core/core.h"
#include "store/key.h"

#include <stdbool.h>
#include <stdint.h>

struct api_call;

/* Holds what a new box may use for the caller's key, until api_quota_release. ERR_LIMIT
 * where that is more than the key has. */
int api_quota_hold(struct api_call *c, struct cove *cove, const struct cove_box_options *o,
		   struct err *e);
/* The same for `count` boxes that are like the source of a fork. */
int api_quota_hold_like(struct api_call *c, struct cove *cove, const char *source, uint64_t count,
			struct err *e);
void api_quota_release(struct api_call *c);
/* One more snapshot or image. */
int api_quota_hold_one(struct api_call *c, struct cove *cove, enum key_quota_id what,
		       struct err *e);
/* So many bytes, or any other amount. */
int api_quota_hold_amount(struct api_call *c, struct cove *cove, enum key_quota_id what,
			  uint64_t amount, struct err *e);
/* An image that gets this name, on this machine: one more unless it is there. */
int api_quota_hold_image(struct api_call *c, struct cove *cove, const char *image, struct err *e);
/* One snapshot or image more whose bytes count when it is there; image: an image's name, which may
 * be in use. Where the quota of disk is used up it is refused. When it is there api_quota_rest says
 * whether it fits: ERR_LIMIT, and the caller removes it, if it is api_quota_holds_new. */
int api_quota_hold_kept(struct api_call *c, struct cove *cove, enum key_quota_id what,
			const char *image, struct err *e);
bool api_quota_holds_new(const struct api_call *c);
/* What is left of the caller's quota of disk; 0 where it has none. */
int api_quota_rest(struct api_call *c, struct cove *cove, uint64_t *ret, struct err *e);
/* A build: the names of its image, in a list that ends with NULL, and the boxes of its RUNs, of
 * which there is one at a time. */
#define API_BUILD_BOX "build-" /* how their names begin; no other box of a key may be called so */
int api_quota_hold_build(struct api_call *c, struct cove *cove, const struct cove_box_options *o,
			 const char *const *images, struct err *e);
