/*
 * Makes a directory tree from a tar stream, without ever leaving that directory: every path is
 * resolved from its descriptor, never through a symbolic link.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct unpack_result {
	uint64_t bytes, files;
	uint64_t skipped; /* devices and FIFOs */
	char id[65];	  /* SHA-256 of the stream */
};

/* Reads tar_fd to its end and makes what it says below root_fd, with owners, modes and times.
 * single: only the caller's own id exists, so owners stay as they are and setuid bits are dropped.
 * The caller syncs. On failure the tree is left half-made for the caller to delete. */
int unpack_tar(int tar_fd, int root_fd, bool single, struct unpack_result *ret, struct err *e);
