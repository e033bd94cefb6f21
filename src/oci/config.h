/*
 * An image's config as JSON (OCI image-spec v1; Docker's has the same form): how programs are run
 * in it, which layers it is made of, how it was made. Reading is as strict as manifest.h's; writing
 * gives the same bytes for the same image.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "oci/manifest.h"
#include "store/image.h"

#include <jansson.h>

struct oci_config {
	struct image_config config; /* all texts are this one's */
	struct oci_platform platform;
	uint64_t created_ms;		/* 0: not said */
	char diffs[OCI_LAYERS_MAX][65]; /* bottom first */
	size_t diff_count;
	struct image_step history[IMAGE_ITEMS_MAX]; /* the newest of it */
	size_t history_count;
	json_t *root; /* owned */
	char **texts; /* owned: joined ones */
	size_t text_count;
};

/* ERR_UNSUPPORTED for an image of another system than Linux. oci_config_done also after a failure;
 * a zeroed one is fine. */
int oci_config_parse(const char *text, size_t n, struct oci_config *ret, struct err *e);
void oci_config_done(struct oci_config *c);

/* The config of an image that came without one. diffs: of its layers, bottom first. */
int oci_config_format(const struct image *im, const char (*diffs)[65], size_t count,
		      struct buf *ret, struct err *e);

/* "2024-01-31T12:00:00.5Z" and other ways to write it; false where it is none. */
bool oci_time_parse(const char *text, uint64_t *ret_ms);
enum { OCI_TIME_TEXT = 32 };
const char *oci_time_format(uint64_t ms, char ret[OCI_TIME_TEXT]);
