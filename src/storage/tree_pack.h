/*
 * A tree as a stream of bytes, and back: for copies of a box's or a workspace's files in one file.
 * Unlike a tar (store/layer_tar.h) it keeps what overlay and boxes need: holes, hard links,
 * whiteouts, opaque marks and the attributes that users set. Sockets, devices and files beyond
 * TREE_FILE_MAX are left out.
 *
 *	R META			the root, first
 *	D NAME META		a directory; what follows is in it, until
 *	U			back up
 *	F NAME META LINKED SIZE	a file: then 'd' COUNT BYTES, 'h' COUNT (a hole), 'e'
 *	H NAME NUMBER		the same file as the LINKED one of that number, from 0
 *	L NAME META TARGET	a symbolic link
 *	P NAME META, W NAME META	a FIFO, a whiteout
 *	Z			the end
 *
 * Numbers are little-endian. A name is one component, so a stream cannot lead out of the directory
 * it is unpacked in. It may be hostile: names, depth, attributes and sizes are bounded. So may a
 * tree: what is packed can be unpacked, and what could not be is left out, or ERR_LIMIT says why.
 *
 * Both run with the box's ids (inside.h). A tree that is packed does not change meanwhile.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_sink {
	int (*write)(void *arg, const void *p, size_t n, struct err *e);
	void *arg;
	uint64_t bytes_max; /* that the tree's files may hold in all; 0: no bound */
};

/* Exactly n bytes: ERR_PROTOCOL where there are fewer. */
struct tree_source {
	int (*read)(void *arg, void *p, size_t n, struct err *e);
	void *arg;
};

struct tree_packed {
	uint64_t files, bytes, left_out;
};

int tree_pack(int root_fd, const struct tree_sink *sink, struct tree_packed *ret, struct err *e);

/* root_fd is empty and of no use after an error. single: only the caller's own id exists, so owners
 * stay as they are and setuid bits are dropped. What the file system there cannot hold of a user's
 * attributes is missing afterwards; a file that is too large for it, too, and counted as left out.
 * The caller syncs. */
int tree_unpack(int root_fd, const struct tree_source *source, bool single, struct tree_packed *ret,
		struct err *e);
