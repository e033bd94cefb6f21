/*
 * A layer's tree as a tar stream: canonical, so that the same tree always gives the same bytes and
 * their SHA-256, the diff id, names it wherever it is packed.
 *
 * What is in it: the root as "./", then every directory followed by what is in it, names in the
 * order of their bytes; owners, modes, times to the nanosecond; hard links to the first name of
 * their file; holes as zeros; FIFOs. Overlay's whiteouts (character device 0:0) and opaque marks
 * become OCI's `.wh.NAME` and `.wh..wh..opq`. Extended attributes, sockets and other devices are
 * left out. A file that is itself called `.wh.x` would read as a whiteout: an error.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stdint.h>

/* Of overlay; mounts say userxattr. */
#define LAYER_OPAQUE_XATTR "user.overlay.opaque"
#define LAYER_WHITEOUT	   ".wh."
#define LAYER_OPAQUE	   ".wh..wh..opq"

struct layer_tar_result {
	char diff[65];
	uint64_t bytes, files; /* what files hold; names */
	uint64_t stream_bytes; /* of the tar itself */
};

/* What a tree is packed as. */
enum layer_tar_form {
	LAYER_TAR_LAYER, /* as it is, whiteouts with it */
	LAYER_TAR_ROOT,	 /* a root filesystem: whiteouts and marks hide nothing and are left out */
	/* A tree that an ordinary user made, seen from inside the box's ids: the caller's own files
	 * are root's, as if root had made it. */
	LAYER_TAR_USERS,
};

/* A hole costs its maker nothing and is read and hashed like all else, so who packs a tree that a
 * box made says how much that may be. */
struct layer_tar_how {
	enum layer_tar_form form;
	uint64_t bytes_max; /* that the files hold, holes counted; 0: LAYER_BYTES_MAX */
	int cancel_fd;	    /* above 0: when it can be read the work ends (ERR_INTERRUPTED) */
};

/* Packs the tree of root_fd, which does not change meanwhile, into out_fd (-1: only hashes). Does
 * not follow links and does not enter other mounts. ERR_LIMIT beyond how's bytes or
 * TAR_ENTRIES_MAX. */
int layer_tar_pack(int root_fd, int out_fd, const struct layer_tar_how *how,
		   struct layer_tar_result *ret, struct err *e);

/* The same by a child inside the box's ids, for trees that the caller cannot read. Of several
 * layers, top first, what a box sees of them: by overlay, which the child mounts where no one else
 * sees it. One layer is packed as it is, with its whiteouts. */
int layer_tar_pack_as(const struct ids *ids, const int *root_fds, size_t count, int out_fd,
		      const struct layer_tar_how *how, struct layer_tar_result *ret, struct err *e);
