/* Archives that ADD unpacks: tars, plain or compressed. */
#pragma once

#include "base/err.h"
#include "build/stage.h"
#include "core/build_copy.h"

struct cove;

enum build_archive { ARCHIVE_NONE, ARCHIVE_TAR, ARCHIVE_COMPRESSED };

/* What the bytes of a file are; it is read from its beginning and left there. */
enum build_archive build_archive_kind(int fd);

/* The compressed ones among the sources of an ADD, expanded by the helper program into files that
 * have no name. Free with build_expand_done. */
struct build_expansions {
	struct build_expanded *list; /* owned, with descriptors */
	struct build_words sources;  /* their names */
	size_t count;
	/* Of all of them, and at most: they are on the host's disk until they are unpacked. */
	uint64_t bytes, bytes_max;
};
int build_expand_sources(struct cove *cove, struct build_source *source,
			 const struct build_step *step, struct build_expansions *ret,
			 struct err *e);
void build_expand_done(struct build_expansions *x);

/* In the child: 1 and it is unpacked in the destination; 0 if the source is no archive. */
int build_add_archive(struct build_copy *c, const char *source, struct err *e);
