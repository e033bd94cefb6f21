/*
 * The record of what boxes did at their doors, kept when a box is gone.
 *
 *	audit/<box>.<created_ms>  one file per box, written by the clerk of the box's door; by
 *	                          libcove while the box does not run
 *	audit/<file>.head         how many rows it had when it was last synced, and the last hash
 *	audit/index               in the same form: which files there are, which were deleted by
 *	                          whom
 *	boxes/<name>/recorded     the name of the box's file in audit/, since there is one
 *	audit/keep                for how many ms rows of boxes that are gone are kept, if not for
 *	                          ever
 *
 * A file is lines; a line is one row: tab-separated name=value fields, then `prev`, the hash of the
 * row before (of the file's name for the first), and `hash`, the SHA-256 of all before it. So a row
 * that was changed, removed, moved or put in shows, and the head shows an end that was cut off. Who
 * can write the files can also write them all anew: the chain shows accidents and clumsy hands, and
 * a copy of a head kept elsewhere shows the rest.
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

struct audit_writer {
	int fd, dir_fd; /* owned, -1 */
	char name[AUDIT_NAME_MAX];
	uint64_t rows;
	uint64_t bytes;	    /* of whole rows */
	uint64_t bytes_max; /* 0: none */
	char last[65];	    /* hash of the last row */
	bool dirty;	    /* something was written since the last sync */
};

/* Opens or makes the box's file and finds its end. A torn last line (kill -9, a full disk) is cut
 * off and rows that the head knows and the file has not are noted, each by a row of its own. Where
 * rows are not kept for ever the old ones go now. */
int audit_open(struct audit_writer *w, struct state *st, const char *box, uint64_t created_ms,
	       struct err *e);
/* Appends with one write: there after kill -9. What does not fit is taken back. Beyond
 * AUDIT_BYTES_MAX it is ERR_LIMIT, -EDQUOT; rows about others have AUDIT_BYTES_SPARE more.
 * audit_sync makes what was written durable, and the head with it. */
int audit_append(struct audit_writer *w, struct audit_row *row, struct err *e);
int audit_sync(struct audit_writer *w, struct err *e);
void audit_close(struct audit_writer *w);
/* One row of a box whose door does not run: one that does holds the record until it ends. */
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
 * about, which has none while it is under way; `done` rows do not come by themselves. */
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

/* Checks every chain: 0 if all hold; -EBADMSG and *e names file, row and what is wrong. */
int audit_verify(struct state *st, const char *box, uint64_t *ret_rows, struct err *e);

/* Deletes the record of a box that is gone, or (box NULL) of all that were last written before that
 * time. The index keeps how much it was, by whom, and the last hash. A box that is there is
 * -EBUSY. */
int audit_delete(struct state *st, const char *box, uint64_t before_ms, const char *by,
		 uint64_t *ret_rows, struct err *e);
/* How long rows of boxes that are gone are kept; 0: for ever. */
int audit_keep(struct state *st, uint64_t *ret_ms, struct err *e);
int audit_set_keep(struct state *st, uint64_t ms, struct err *e);
