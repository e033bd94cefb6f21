/*
 * A strict reader of tar streams: bytes in, entries and their data out. It does no I/O.
 *
 * It reads ustar, pax and GNU tar as today's tools write them, uncompressed, and refuses what two
 * readers could understand differently: names that are absolute or have "..", extended headers with
 * repeated or malformed records, sparse files, links that carry data, a stream cut short, and
 * anything but zeros after its end. Extended attributes are ignored. Some writers of layers leave
 * the end away: a stream that stops between two entries is whole where a digest says so.
 *
 *	header block -> on_entry -> on_data... -> on_entry_end -> next header
 *	two zero blocks -> only zeros -> tar_finish
 *
 * The verdict and the entries do not depend on how the bytes are cut into tar_feed calls, except
 * that the data of a file may come in other pieces.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tar_type {
	TAR_FILE,
	TAR_DIR,
	TAR_SYMLINK,
	TAR_HARDLINK, /* target is a path like any other: relative to the root of the archive */
	TAR_FIFO,
	TAR_OTHER, /* a device */
};

struct tar_entry {
	enum tar_type type;
	const char *path;   /* path_is_safe_relative, or "" for the root itself */
	const char *target; /* links; a symlink's may be anything */
	unsigned mode;	    /* 07777 */
	unsigned uid, gid;  /* 0..65535 */
	uint64_t size;	    /* TAR_FILE */
	uint64_t mtime_s;
	unsigned mtime_ns;
};

/* Each returns 0, or a negative errno (with a sentence) that ends the reading. */
struct tar_ops {
	int (*on_entry)(void *arg, const struct tar_entry *entry, struct err *e);
	int (*on_data)(void *arg, const void *p, size_t n, struct err *e);
	int (*on_entry_end)(void *arg, struct err *e);
};

enum { TAR_BLOCK = 512 };

enum tar_state { TAR_HEADER, TAR_META, TAR_DATA, TAR_PADDING, TAR_END };

/* What an extended header said about the next entry. */
struct tar_extra {
	char *path, *target; /* owned */
	bool has_size, has_uid, has_gid, has_mtime;
	uint64_t size, uid, gid, mtime_s;
	unsigned mtime_ns;
};

struct tar {
	const struct tar_ops *ops; /* borrowed */
	void *arg;
	enum tar_state state;
	uint8_t block[TAR_BLOCK];
	size_t have;	/* bytes of block */
	uint64_t left;	/* bytes of data or meta still to come */
	size_t padding; /* zeros after them */
	char meta_type;
	struct buf meta;
	struct tar_extra extra;
	uint64_t entries;
	unsigned zero_blocks;
	bool pending; /* an extended header waits for its entry */
	bool guarded; /* by a digest of the whole stream that its caller checks: no end is needed */
	int error;    /* sticky */
};

void tar_init(struct tar *t, const struct tar_ops *ops, void *arg);
void tar_done(struct tar *t);

int tar_feed(struct tar *t, const void *p, size_t n, struct err *e);

/* After the last byte: -EBADMSG if the stream is not whole. */
int tar_finish(struct tar *t, struct err *e);
