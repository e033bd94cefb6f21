/*
 * Makes a directory tree from a tar stream, without ever leaving that directory: every path is
 * resolved from its descriptor, never through a symbolic link.
 *
 * A layer's OCI whiteouts become overlay's: `.wh.NAME` a character device 0:0 called NAME,
 * `.wh..wh..opq` the mark of an opaque directory. They hide what layers below have and nothing of
 * their own layer, in whatever order the entries come. Refused are whiteouts of no name, of "." and
 * "..", of names that begin with `.wh.` themselves, whiteouts with content, `.wh.` directories and
 * links, and one that hides the whole root, which overlay cannot do. In a root filesystem, which
 * hides nothing, no name may begin with `.wh.`.
 *
 * Devices are left out, and so is every extended attribute: those that mean something to overlay or
 * to the kernel's security would be the archive's word against ours.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct unpack_result {
	uint64_t bytes, files;
	uint64_t skipped; /* devices */
	char id[65];	  /* SHA-256 of the stream */
};

enum unpack_kind { UNPACK_ROOT, UNPACK_LAYER };

struct unpack_how {
	enum unpack_kind kind;
	bool single;	    /* see unpack_stream */
	bool guarded;	    /* the caller knows the stream's digest, and compares: see struct tar */
	uint64_t bytes_max; /* that all files together may hold; 0: LAYER_BYTES_MAX */
	/* Bytes of the stream that come before those of its descriptor. */
	const void *head;
	size_t head_len;
};

/* Reads tar_fd to its end and makes what it says below root_fd, with owners, modes and times.
 * single: only the caller's own id exists, so owners stay as they are and setuid bits are dropped.
 * The caller syncs. On failure the tree is left half-made for the caller to delete. */
int unpack_stream(int tar_fd, int root_fd, const struct unpack_how *how, struct unpack_result *ret,
		  struct err *e);
