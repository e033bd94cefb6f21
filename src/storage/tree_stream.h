/* What packing and unpacking of trees share (tree_pack.h): bounds, and which attributes count. */
#pragma once

#include <stdbool.h>
#include <string.h>

enum {
	TREE_STREAM_BUFFER = 256 << 10,
	TREE_STREAM_BLOCK = 64 << 10,
	TREE_STREAM_ATTRS_MAX = 16 << 10, /* names of one file's attributes, bytes */
	TREE_STREAM_VALUE_MAX = 64 << 10, /* one attribute's value */
	TREE_STREAM_DEPTH = 4096,	  /* directories above one another */
	TREE_STREAM_LINKS_MAX = 1 << 20,  /* files with several names */
};

/* Of those that anyone may set: not those that overlay would believe, but for the one that says
 * that a directory hides what is below. */
static inline bool tree_stream_attr_ok(const char *name)
{
	if (strcmp(name, "user.overlay.opaque") == 0)
		return true;
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}
