/*
 * The host's events: what happened to all boxes, in one order, for those who watch the machine.
 *
 *	events/<first>	segments of rows, named after the number of their first; the oldest go
 *			when there are more than FEED_SEGMENTS
 *	events/lock	flock(2): who holds it writes; one server does
 *	events/state	what the writer knew at some row (api/gather.c), to go on from
 *
 * A row is a line of JSON that begins {"seq":N. What it says is in the boxes' own files, and stays
 * true there; what is only here is the order of boxes among each other, and rows of boxes that are
 * gone. A number is never given twice: after a crash of the machine, which may take rows that were
 * shown, numbers go on FEED_CRASH_STEP later.
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_STATE "state"

/* What a row may be of, and the words for it: "box.created" and so on; NULL ends them. */
enum feed_type {
	FEED_BOX_CREATED,
	FEED_BOX_STARTED,
	FEED_BOX_PAUSED,
	FEED_BOX_WOKEN,
	FEED_BOX_STOPPED,
	FEED_BOX_REMOVED,
	FEED_BOX_SNAPSHOT,
	FEED_EXEC_STARTED,
	FEED_EXEC_ENDED,
	FEED_LIMIT_HIT,
	FEED_DOOR_ENDED,
	FEED_DOOR_DENIED,
	FEED_ASK_OPENED,
	FEED_ASK_ANSWERED,
	FEED_MISSED,
	FEED_TYPES,
};
extern const char *const feed_types[];

struct feed_writer {
	int dir_fd, lock_fd, fd; /* owned, -1 */
	uint64_t next;		 /* the number of the row that comes next */
	uint64_t bytes;		 /* in the last segment */
	bool dirty;
};

/* -EBUSY where another process writes. */
int feed_open(struct feed_writer *w, struct state *st, struct err *e);
void feed_close(struct feed_writer *w);
/* Whole rows, numbered from w->next on. What does not fit on the disk is taken back. */
int feed_append(struct feed_writer *w, const void *rows, size_t n, uint64_t count);
int feed_sync(struct feed_writer *w);
/* Numbers before that one are taken. */
void feed_skip(struct feed_writer *w, uint64_t next);

/* Without a writer, from any process. */
struct feed_reader {
	struct state *st; /* borrowed */
	int fd;		  /* owned, -1: to be found */
	uint64_t first;	  /* of the segment that fd is */
	uint64_t at;	  /* in it */
	uint64_t next;	  /* the row that is wanted */
};
void feed_reader_init(struct feed_reader *r, struct state *st, uint64_t after);
void feed_reader_done(struct feed_reader *r);
/* The numbers that are kept; *ret_newest is *ret_oldest - 1 where there is none. -ENOENT: there
 * never was one. */
int feed_range(struct state *st, uint64_t *ret_oldest, uint64_t *ret_newest);

/* seq > r->next before the call: those between are gone. False stops; the row counts as read. */
typedef bool feed_on_row(void *arg, uint64_t seq, char *row, size_t len);
/* Rows of one block. How many, 0 at the end, or -errno. A row has its NUL for the call. */
int feed_read(struct feed_reader *r, feed_on_row *on_row, void *arg);
