/*
 * The audit log: what boxes did at their doors, kept when a box is gone.
 *
 *	audit/boxes/<box>.<created_ms>/  the log of one box, written by the broker of its door; by
 *	                                 libcove while the box does not run
 *	        1, 2, ...                its segments: rows; one begins when the last is full, and
 *	                                 of more than AUDIT_SEGMENTS the oldest are dropped
 *	        head                     what was durable at the last sync
 *	audit/list/                      a log of the same form: which logs were begun, and which
 *	                                 were deleted by whom
 *	audit/keep                       for how many ms logs of boxes that are gone are kept, if
 *	                                 not for ever
 *	boxes/<name>/audit-log           the name of the box's log, since there is one
 *
 * A segment is lines; a line is one row: tab-separated name=value fields, then `prev`, the hash of
 * the row before (of the log's name for the first), and `hash`, the SHA-256 of all before it. The
 * chain goes on from segment to segment; the newest says from which place on it is kept. So a row
 * that was changed, removed, moved or put in shows, and the head shows an end that was cut off. Who
 * can write the files can also write them all anew: the chain shows accidents and clumsy hands, and
 * a copy of a head kept elsewhere shows the rest.
 *
 * A crash at any moment leaves a log that verifies, because of the order of what is done:
 *
 *	first row    directory, segment 1, row (nothing is durable yet)
 *	sync         rows; the first time: an empty head and the directories, then the row in the
 *	             list, then the box's mark; last the head, by rename
 *	new segment  sync, and the directory; its first row with what will be dropped; the
 *	             directory again; then the drop
 *	deleting     the row in the list; then the files
 *
 * So all segments but the last are whole, and what is wrong after the head's row was not durable:
 * it was cut short by a crash, and the next writer cuts it off and says so.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One decision, or what became of it. Strings are borrowed; NULL and 0 are left out; those from a
 * box are cut at AUDIT_TEXT_MAX bytes. */
struct audit_row {
	uint64_t seq; /* set by the writer: 1, 2, ... */
	uint64_t time_ms;
	const char
		*kind;	/* name, connect, request, done, ask, answer, policy, grant, door, damage */
	uint64_t about; /* done, answer: the seq of the row that it belongs to */
	uint64_t exec_id;
	const char *host;
	uint64_t port;
	const char *method, *path;
	const char *rule;    /* its name */
	const char *verdict; /* allow, deny, ask; done: ok, cut, failed */
	const char *reason;  /* one sentence where there is more to say; never a secret */
	const char *why;     /* deny: denial_word */
	const char *address; /* that was dialled */
	uint64_t bytes_up, bytes_down, duration_ms, status;
	uint64_t count;		/* of equal ones that this row stands for; 0: itself */
	const char *credential; /* names of secrets used, comma-separated */
	const char *by;
};

/* A row from one process to another, as text without control bytes but tabs. Unpacking cuts it in
 * place. */
int audit_row_pack(struct buf *out, const struct audit_row *row);
int audit_row_unpack(struct audit_row *ret, char *text);

enum { AUDIT_NAME_MAX = BOX_NAME_MAX + 24 };

/* A place in a chain: so many rows, and the hash of the last. */
struct audit_chain {
	uint64_t rows;
	char last[65];
};

struct audit_writer {
	struct state *st;	 /* borrowed; NULL: this is the list */
	int logs_fd, dir_fd, fd; /* owned, -1: where logs are, this one, its last segment */
	char name[AUDIT_NAME_MAX];
	struct audit_chain at;
	uint64_t first_segment, segment; /* 0: there is none yet */
	uint64_t bytes;			 /* of whole rows in the last segment */
	uint64_t segment_bytes_max;
	unsigned segments_max;
	bool dirty; /* something was written since the last sync */
	bool is_listed;
};

/* Opens the box's log and finds its end; it is made with the first row. What a crash cut short is
 * cut off, and where rows are missing that were durable a new segment says so. Logs that are too
 * old go now, once in AUDIT_SWEEP_MS. The state must outlive the writer. */
int audit_open(struct audit_writer *w, struct state *st, const char *box, uint64_t created_ms,
	       struct err *e);
/* Appends with one write: there after kill -9. What does not fit is taken back. audit_sync makes
 * what was written durable, and the head with it. */
int audit_append(struct audit_writer *w, struct audit_row *row, struct err *e);
int audit_sync(struct audit_writer *w, struct err *e);
void audit_close(struct audit_writer *w);
/* One row of a box whose door does not run: one that does holds the log until it ends. */
int audit_note(struct state *st, const char *box, uint64_t created_ms, struct audit_row *row,
	       struct err *e);

/* ---- reading (audit_read.c) ---- */

struct audit_filter {
	const char *box; /* NULL: all */
	bool denied_only;
	uint64_t since_ms;
};

/* The row is valid for the call. Non-zero stops, and is returned. */
typedef int audit_on_row(void *arg, const char *box, const struct audit_row *row);

/* Rows in order of time. What a `done` row says (bytes, duration, status) comes with the row it is
 * about, which has none while it is under way; `done` rows do not come by themselves. Where the
 * oldest were dropped a row of kind `dropped` with their count stands before the others. */
int audit_read(struct state *st, const struct audit_filter *f, audit_on_row *on_row, void *arg,
	       struct err *e);

/* Following: each call gives what was written since the last, `done` rows included. The descriptor
 * is readable when there may be more. */
struct audit_tail;
int audit_tail_new(struct audit_tail **ret, struct state *st, const struct audit_filter *f,
		   struct err *e);
int audit_tail_fd(const struct audit_tail *t);
int audit_tail_read(struct audit_tail *t, audit_on_row *on_row, void *arg, struct err *e);
void audit_tail_free(struct audit_tail *t);

/* One log from a place on, for who keeps that place over restarts (audit_cursor.c): `at` is in that
 * segment, behind the row `seq`. A zeroed one is the log's beginning. logs_fd is of
 * audit_logs_dir. Non-zero from on_row stops behind that row, and is returned; a log that is not
 * there has no rows. */
struct audit_cursor {
	uint64_t segment, at, seq;
};
int audit_logs_dir(struct state *st); /* its directory, or -errno; -ENOENT before the first log */
int audit_read_on(int logs_fd, const char *log, struct audit_cursor *place, audit_on_row *on_row,
		  void *arg);
/* Moves a place to the end without reading. */
int audit_cursor_end(int logs_fd, const char *log, struct audit_cursor *place);
/* The log of a box that is there, as its mark says. False: it has none yet. */
bool audit_log_of(int box_fd, char ret[AUDIT_NAME_MAX]);

/* Checks every chain: 0 if all hold; -EBADMSG and *e names log, row and what is wrong. */
struct audit_report {
	uint64_t rows;	  /* that were checked */
	uint64_t dropped; /* by rotation, before those */
	uint64_t cut;	  /* logs whose end was cut short by a crash, after the rows checked */
};
int audit_verify(struct state *st, const char *box, struct audit_report *ret, struct err *e);

/* ---- keeping (audit_keep.c) ---- */

/* Deletes the logs of a box that is gone, or (box NULL) of all that were last written before that
 * time. The list keeps how much it was, by whom, and the last hash. A box that is there is
 * -EBUSY. */
int audit_delete(struct state *st, const char *box, uint64_t before_ms, const char *by,
		 uint64_t *ret_rows, struct err *e);
/* How long logs of boxes that are gone are kept; 0: for ever. Setting it deletes what is older. */
int audit_keep(struct state *st, uint64_t *ret_ms, struct err *e);
int audit_set_keep(struct state *st, uint64_t ms, struct err *e);
/* Deletes what is too old, if nobody did for AUDIT_SWEEP_MS. */
int audit_sweep(struct state *st, struct err *e);
