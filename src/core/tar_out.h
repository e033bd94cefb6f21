/*
 * Entries of a get as a tar stream (ustar, with pax headers for what does not fit). It does no I/O:
 * bytes go to a buffer, which the caller empties.
 *
 *	tar_out_entry -> (a file: tar_out_data..., tar_out_pad..., tar_out_file_end) -> ...
 *	tar_out_end
 *
 * A tar says a file's size before its bytes. One that turns out a little shorter is filled with
 * zeros, one that shrank by more than TAR_FILL_MAX is an error; one that said it has no size (most
 * of /proc) is held back until its end.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "wire/msg.h"

enum { TAR_FILL_MAX = 64 << 20 };

struct tar_out {
	struct buf *out;  /* borrowed */
	char prefix[256]; /* before each path: the directory's own name, or "." */
	struct buf held;  /* of a file without a size */
	struct wire_entry file;
	char path[8192]; /* its name in the archive */
	uint64_t left;	 /* of it */
	bool in_file, is_held;
};

/* path is what was asked for; the archive's names begin with its last name. */
void tar_out_init(struct tar_out *t, struct buf *out, const char *path);
void tar_out_done(struct tar_out *t);
/* 1: it is neither file, directory nor link, and was left out. */
int tar_out_entry(struct tar_out *t, const struct wire_entry *m, struct err *e);
int tar_out_data(struct tar_out *t, const void *p, size_t n, struct err *e);
/* Zeros for what did not come, a piece at a time: 1 while there is more to fill. ERR_CONFLICT where
 * that is too much. */
int tar_out_pad(struct tar_out *t, struct err *e);
int tar_out_file_end(struct tar_out *t, struct err *e);
int tar_out_end(struct tar_out *t, struct err *e);
