/*
 * A copy of a tree that a box may be writing to: what it wrote, as a layer.
 *
 *	copy_init, copy_pass (live), ..., copy_pass (last), copy_done
 *
 * A live pass copies what is there while the box goes on; what changes meanwhile may come out torn,
 * and every later pass puts right what changed since. Nothing may change during the last one: the
 * box is frozen or does not run. Then the copy is the tree: contents with their holes, owners,
 * modes, times, links, FIFOs, whiteouts, attributes. Sockets and devices are left out and counted.
 *
 * The tree may be hostile: it is only ever looked at relative to open directories, without
 * following a link or entering another mount; nothing is opened that is not a file or a directory;
 * names, depth and time are bounded.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stdbool.h>
#include <stdint.h>

struct copy_counts {
	uint64_t names, bytes; /* of the tree, its root not counted; bytes are those allocated */
	uint64_t left_out;     /* sockets and devices */
	uint64_t moved_names, moved_bytes; /* what the last pass had to do */
};

struct copy {
	int from_fd;  /* borrowed: the tree's root */
	int to_fd;    /* borrowed: a directory of the caller's, empty before the first pass */
	int links_fd; /* borrowed: another beside it, for the first names of files that have
		       * several; the caller deletes it after the last pass */
	int table_fd; /* owned: what was copied as what, for the next pass */
	/* That one pass may write, where the tree's files may share their blocks, and the copy's do
	 * not; 0: no bound. A live pass, of a tree that changes, twice that. */
	uint64_t bytes_max;
	struct copy_counts counts;
	bool is_whole; /* the last pass saw all of the tree */
};

int copy_init(struct copy *c, int from_fd, int to_fd, int links_fd, struct err *e);
void copy_done(struct copy *c); /* also of one that is zeroed or failed */

/* One pass, by a child with the box's ids. A last one has until deadline_ms (clock_mono_ms; 0: as
 * long as it takes), then ERR_TIMEOUT. After an error the copy is of no use. */
enum copy_kind {
	COPY_LIVE,
	COPY_LAST,
	COPY_OVER, /* the tree is a layer, and so is what to_fd holds: it is laid over that, so that
		    * the two have become one. Of trees that do not change, once. */
};
int copy_pass(struct copy *c, const struct ids *ids, enum copy_kind kind, uint64_t deadline_ms,
	      struct err *e);
