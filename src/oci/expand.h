/*
 * Streams that may be compressed, read as plain bytes.
 *
 * What it is, the first bytes say: gzip, xz, zstd, bzip2 or none of them. Reading is done by
 * a child that has nothing but the two ends of its stream, its memory (EXPAND_MEMORY_MAX) and a
 * filter of system calls (src/filter/expand.syscalls): what a hostile stream could make of a
 * decompressor stays in there. What it writes is bounded in bytes, and in how much it is more than
 * what came.
 */
#pragma once

#include "base/child.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum expand_kind { EXPAND_PLAIN, EXPAND_GZIP, EXPAND_XZ, EXPAND_ZSTD, EXPAND_BZIP2 };

struct expand_shared;

struct expand {
	int fd;			  /* owned: what comes after the head, plain */
	uint8_t *head;		  /* owned: plain bytes that come before it */
	size_t head_len, head_at; /* head_at: how far expand_read is */
	enum expand_kind kind;
	bool runs;
	uint64_t bytes_max;
	int cancel_fd;
	struct child_forked child;
	struct expand_shared *shared; /* owned */
};

struct expand_how {
	uint64_t bytes_max; /* of plain bytes; 0: EXPAND_BYTES_MAX */
	bool any_ratio;	    /* the caller has said how much it may be */
	int cancel_fd;	    /* above 0: when it can be read, expand_read ends with -ECANCELED */
};

/* Begins to read in_fd (borrowed; the child has its own) at its offset. */
int expand_open(int in_fd, const struct expand_how *how, struct expand *ret, struct err *e);

/* Makes the head n bytes long, or as long as there are. n is at most EXPAND_PEEK_MAX. */
int expand_peek(struct expand *x, size_t n, struct err *e);

/* The next bytes, as read(2) would give them; 0 at the end. */
ssize_t expand_read(struct expand *x, void *p, size_t n);

/* Bytes of the input that were read so far. */
uint64_t expand_taken(const struct expand *x);

/* Ends the child: whoever reads fd finds its end, and expand_close says r. */
void expand_stop(struct expand *x);

/* When all was read, or reading failed for a reason of its own (r, with *e): the child's error
 * where it has one, since that is why a stream ended too early; else r. From any process that has
 * it. */
int expand_verdict(const struct expand *x, int r, struct err *e);
/* The same; closes, and waits for the child. By the process that opened it. */
int expand_close(struct expand *x, int r, struct err *e);
