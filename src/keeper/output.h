/*
 * The logs of a box: the directory boxes/<name>/logs, and in it one file per command and stream,
 * <id>.out and <id>.err, holding the first bytes the stream printed.
 *
 * A file is made with its first byte. What is kept is always a prefix: once a byte was not kept
 * (the command's share or the box's is used up, or the disk is full) no later byte of that stream
 * is, and only the count goes on. Few descriptors are held open; beyond them a file is opened for
 * each append.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct keeper_logs {
	int box_fd;		 /* borrowed; logs/ is made below it when first needed */
	int dir_fd;		 /* owned, -1 until then */
	uint64_t bytes;		 /* on disk, all commands together */
	uint64_t bytes_max;	 /* KEEPER_LOGS_BYTES_MAX */
	uint64_t exec_bytes_max; /* KEEPER_LOG_BYTES_MAX */
	unsigned open;		 /* descriptors held by outputs */
};

/* Index of a stream: its wire number - 1. */
enum { OUTPUT_OUT = 0, OUTPUT_ERR = 1, OUTPUT_COUNT = 2 };

struct keeper_output {
	uint64_t bytes; /* printed so far: the true count */
	uint64_t kept;	/* how many of them, from the first, are in the file */
	int fd;		/* owned, -1 while closed */
	bool cut;	/* something was not kept */
	bool eof;	/* nothing more comes */
};

void keeper_logs_init(struct keeper_logs *l, int box_fd);
void keeper_logs_done(struct keeper_logs *l);
/* The directory, made when missing; borrowed. Negative errno on failure. */
int keeper_logs_dir(struct keeper_logs *l);

/* out is always the pair of a command. */
void keeper_outputs_init(struct keeper_output *out);
/* Counts n bytes of a stream and keeps what may be kept. A full disk only cuts the log. */
void keeper_output_append(struct keeper_logs *l, uint32_t id, struct keeper_output *out, unsigned s,
			  const void *p, size_t n);
/* Reads kept bytes from an offset. Fewer than asked only at the end of what is kept. */
ssize_t keeper_output_read(struct keeper_logs *l, uint32_t id, struct keeper_output *o, unsigned s,
			   uint64_t at, void *p, size_t n);
/* Learns from the disk what an earlier keeper kept. */
void keeper_outputs_load(struct keeper_logs *l, uint32_t id, struct keeper_output *out);
/* Closes the descriptors; the files stay. */
void keeper_outputs_close(struct keeper_logs *l, struct keeper_output *out);
/* Closes and deletes the files. */
void keeper_outputs_remove(struct keeper_logs *l, uint32_t id, struct keeper_output *out);
