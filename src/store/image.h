/*
 * Images: a name, a layer on disk, and who works in it. "host" is always there and means this
 * machine's own /usr below a small skeleton.
 *
 * A layer is unpacked beside its final place and renamed when it is whole and synced; a killed
 * import leaves only a .new- directory, which the next one removes. Two names may share a layer; it
 * goes when no name is left. An image that a box uses is neither replaced nor removed, since the
 * box's writes lie on top of that very layer.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

struct image {
	char name[64];
	char id[65];	/* layer */
	char root[640]; /* directory that becomes / */
	char user[64];	/* who commands run as */
	bool is_host;
	uint64_t created_ms;
	uint64_t bytes; /* 0 for host */
};

#define IMAGE_DEFAULT "base"
#define IMAGE_HOST    "host"

/* ERR_NOT_FOUND names the remedy (`cove image make`, `--image host`). For "host" the root is empty
 * until image_host_prepare. */
int image_find(struct state *s, const char *name, struct image *ret, struct err *e);

/* All of them, "host" last. Free with free(). */
int image_list(struct state *s, struct image **ret, size_t *ret_count, struct err *e);

/* Makes the image's directory tree from a tar stream (plain, no compression: the caller pipes it).
 * user may be NULL: the name of uid 1000 in the image, else root. Replaces an image of that name
 * that no box uses; ERR_CONFLICT names the box. */
int image_import(struct state *s, const struct ids *ids, const char *name, const char *user,
		 int tar_fd, struct err *e);

/* ERR_NOT_FOUND, or ERR_CONFLICT with the name of a box that uses it. Of "host" the skeleton goes,
 * with all that belongs to other ids; the next box that needs it makes it anew. */
int image_remove(struct state *s, const struct ids *ids, const char *name, struct err *e);

/* The skeleton below --image host: /etc/passwd and friends, links, mount points. Made anew when
 * missing, or when the host's libraries, alternatives or certificates changed since. */
int image_host_prepare(struct state *s, const struct ids *ids, struct image *ret, struct err *e);
