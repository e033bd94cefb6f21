/*
 * One file that holds many things: a backup, an exported snapshot or workspace.
 *
 *	cove pack 1 KIND\n
 *	M LENGTH HEAD		a member: lines (base/lines.h) that say what it is
 *	C LENGTH BYTES ...	its content, in pieces
 *	E SHA-256		of HEAD and content
 *	...
 *	Z COUNT SHA-256		how many members there were, and the hash of their hashes
 *
 * Lengths are 4 bytes, counts 8, little-endian. A file without its Z was cut, and nothing of it is
 * used: it is looked through once before anything is made (parcel_check). What a member holds is
 * used once its own hash was right.
 *
 * Writer and reader hold no memory but themselves, so that a child that works on trees (inside.h)
 * can go on with one in a structure that it shares with its parent.
 */
#pragma once

#include "base/err.h"
#include "base/sha.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARCEL_HEAD_MAX = 4 << 20, PARCEL_PIECE_MAX = 64 << 10, PARCEL_KIND_MAX = 32 };

struct parcel_writer {
	int fd; /* borrowed */
	struct sha member, all;
	uint64_t count, bytes;
	uint64_t bytes_max, disk_reserve; /* parcel_bound */
	uint64_t looked_at;		  /* how long it was when its disk was */
	size_t held;
	uint8_t piece[PARCEL_PIECE_MAX];
};

int parcel_begin(struct parcel_writer *w, int fd, const char *kind, struct err *e);
/* From here on: how long the file may be, and what its disk is to have left; 0: any, nothing. */
void parcel_bound(struct parcel_writer *w, uint64_t bytes_max, uint64_t disk_reserve);
int parcel_member(struct parcel_writer *w, const void *head, size_t len, struct err *e);
int parcel_add(struct parcel_writer *w, const void *p, size_t n, struct err *e);
int parcel_member_end(struct parcel_writer *w, struct err *e);
/* What was written since *to was a copy of w, between members, goes as if never begun. */
int parcel_rewind(struct parcel_writer *w, const struct parcel_writer *to, struct err *e);
/* The caller syncs. */
int parcel_end(struct parcel_writer *w, struct err *e);

struct parcel_reader {
	int fd; /* borrowed */
	struct sha member, all;
	uint64_t count;
	uint32_t left;	/* of the piece at hand */
	bool in_member; /* its E is still to come */
	bool ended;	/* Z was there */
	size_t at, have;
	uint8_t piece[PARCEL_PIECE_MAX];
};

/* ERR_INVALID where it is no such file, or of another kind. */
int parcel_open(struct parcel_reader *r, int fd, const char *kind, struct err *e);
/* 1 and the next member's head, owned and NUL-terminated; 0 after the last. What is left of the one
 * before is read over, and checked. ERR_DAMAGED. */
int parcel_next(struct parcel_reader *r, char **ret_head, size_t *ret_len, struct err *e);
/* Up to n bytes of the member's content; 0 at its end, when its hash was right. */
int parcel_read(struct parcel_reader *r, void *p, size_t n, size_t *ret_got, struct err *e);
/* All of a small one: owned and NUL-terminated. */
int parcel_read_all(struct parcel_reader *r, size_t max, char **ret, size_t *ret_len,
		    struct err *e);

/* From its beginning to its end; the descriptor is at its beginning again afterwards. on_head may
 * be NULL. */
int parcel_check(int fd, const char *kind,
		 int (*on_head)(void *arg, char *head, size_t len, struct err *e), void *arg,
		 struct err *e);
