/*
 * The child of merge_back.c: compares a host directory with what a box made of it (its copy_* of
 * trees.h) and sends each change, with the bytes of new files. Frames, in the order of the tree:
 *
 *	MERGE_DIR	each directory on the way to something that was there before, once
 *	MERGE_CHANGE	one that differs; then, of it
 *	MERGE_DATA	an offset (uint64_t) and bytes, or
 *	MERGE_LINK	where it leads; and
 *	MERGE_END	in any case
 */
#pragma once

#include "core/trees.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MERGE_CHANGE = 1, MERGE_DATA = 2, MERGE_LINK = 3, MERGE_END = 4, MERGE_DIR = 5 };
/* An origin of overlayfs: 4 bytes, the kind of the handle, the file system's id, the handle. */
enum { ORIGIN_KIND = 4, ORIGIN_HANDLE = 21, ORIGIN_MAX = ORIGIN_HANDLE + MAX_HANDLE_SZ };
enum { MERGE_LINK_MAX = 4095 };

/* MERGE_CHANGE: this, then the path. */
struct merge_head {
	uint8_t kind, what, deep, origin_len; /* 0: it is no copy, or none knows of what */
	uint32_t before_mode, after_mode;
	uint64_t size, birth_ns;
	uint64_t box_ino, box_ctime_ns; /* of what the box has there */
	uint64_t dev, ino;		/* of a file with several names; else 0 */
	uint8_t origin[ORIGIN_MAX];
} __attribute__((packed));

/* MERGE_DIR, before what changed in it: this, then the path. */
struct merge_dir {
	uint8_t hides;	    /* nothing of the host's directory shows through it, or it is gone */
	uint8_t origin_len; /* 0: it is not known */
	uint8_t origin[ORIGIN_MAX];
} __attribute__((packed));

struct merge_send {
	const struct core_tree *tree; /* its copy has two layers */
	const char *const *only;
	size_t only_count;
	bool trusted; /* --trust-dir */
	bool wants_data;
};

int merge_send(const struct merge_send *m, int out, struct err *e);
