/* What packing and unpacking of trees share (tree_pack.h): bounds, and which attributes count. */
#pragma once

#include "base/inodes.h"
#include "base/limits.h"
#include "base/limits_snapshot.h"

#include <stdbool.h>
#include <string.h>

enum {
	TREE_STREAM_BUFFER = 256 << 10,
	TREE_STREAM_BLOCK = 64 << 10,
	TREE_STREAM_ATTRS_MAX = 16 << 10, /* names of one file's attributes, bytes */
	TREE_STREAM_VALUE_MAX = 64 << 10, /* one attribute's value */
	TREE_STREAM_DEPTH = COPY_DEPTH_MAX,
	/* Of files with several names: each file's, so that every file system can make them; all
	 * files; and the bytes of their paths. */
	TREE_STREAM_NAMES_MAX = 65000,
	TREE_STREAM_LINKS_MAX = INODES_MAX,
	TREE_STREAM_PATHS_MAX = 256 << 20,
};

/* Says, as 'y', that a directory hides what is below it. */
#define TREE_STREAM_OPAQUE "user.overlay.opaque"

static inline bool tree_stream_is_opaque(const char *name, const char *value, size_t len)
{
	return strcmp(name, TREE_STREAM_OPAQUE) == 0 && len == 1 && value[0] == 'y';
}

/* One that anyone may set, and none that overlay would believe. */
static inline bool tree_stream_is_users(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}
