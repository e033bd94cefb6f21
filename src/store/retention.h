/*
 * How many snapshots are kept, and how long: a rule of a box, or of an image for all boxes of it
 * that have none of their own.
 *
 * A box's is the file "retention" in its directory and goes with it. An image's is retention/<file>
 * in the state directory (image_file_name): it outlives a new version of the image, and goes when
 * the image is removed.
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

#define RETENTION_FILE "retention" /* in a box's directory */
#define RETENTION_DIR  "retention"

struct retention {
	uint64_t keep;	     /* so many at most; 0: no bound */
	uint64_t max_age_ms; /* none that is older; 0: no bound */
};

static inline bool retention_is_none(const struct retention *r)
{
	return r->keep == 0 && r->max_age_ms == 0;
}

/* None where nothing was written; -EBADMSG for one that is damaged. */
int retention_read_box(int box_fd, struct retention *ret);
int retention_read_image(const struct state *s, const char *image, struct retention *ret);

/* Durable. One that is none is removed. */
int retention_write_box(int box_fd, const struct retention *rule);
int retention_write_image(const struct state *s, const char *image, const struct retention *rule);
