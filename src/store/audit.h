/*
 * The record of what boxes did at the door: $COVE_HOME/audit/<box>.<created_ms> , one file per box,
 * kept when the box is gone, and `index`, in the same form, which says which files there are and
 * which were deleted on purpose.
 *
 * A file is lines; a line is one row: tab-separated name=value fields (escaped), then `prev`, the
 * hash of the row before, and `hash`, the SHA-256 of the line up to there. So a row that was
 * changed, removed or put in shows; `<file>.head` holds the count and the last hash, so a cut end
 * shows too. One writer per file, the clerk of the box's door.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One decision, or what became of it. Strings are borrowed; NULL and 0 are left out. */
struct audit_row {
	uint64_t seq; /* set by the writer */
	uint64_t time_ms;
	const char *kind; /* name, connect, request, done, ask, answer, policy, grant, door */
	uint64_t about;	  /* done, answer: the seq of the row that it belongs to */
	uint64_t exec_id;
	const char *host;
	uint64_t port;
	const char *method, *path;
	const char *rule;    /* its name */
	const char *verdict; /* allow, deny, ask; done: ok, cut, failed */
	const char *reason;  /* one sentence where there is more to say; never a secret */
	const char *address; /* that was dialled */
	uint64_t bytes_up, bytes_down, duration_ms, status;
	const char *credential; /* names of secrets used, comma-separated */
	const char *by;
};

struct audit_writer {
	int fd;	    /* owned */
	int dir_fd; /* owned */
	char name[96];
	uint64_t next_seq;
	char prev[65];
};

/* Opens or makes the box's file and finds its end. A torn last line (kill -9, full disk) is cut off
 * and noted by a row of its own. */
int audit_open(struct audit_writer *w, struct state *st, const char *box, uint64_t created_ms,
	       struct err *e);
/* Appends with one write: there after kill -9. audit_sync makes what was written durable, and the
 * head with it. */
int audit_append(struct audit_writer *w, struct audit_row *row, struct err *e);
int audit_sync(struct audit_writer *w, struct err *e);
void audit_close(struct audit_writer *w);

/* Reading, and all that `cove audit` does, is in audit_read.c. */
struct audit_filter {
	const char *box; /* NULL: all */
	bool denied_only;
	uint64_t since_ms;
};
/* Rows of one file or all, in order of time; the row points into memory that lives for the call. A
 * `done` row comes as the bytes, duration and status of the row it is about (which is given out
 * once, when complete, or as it is when its door still runs). on_row returns non-zero to stop. */
int audit_read(struct state *st, const struct audit_filter *f,
	       int (*on_row)(void *arg, const char *box, const struct audit_row *row), void *arg,
	       struct err *e);
/* Checks every chain: 0 if all hold; otherwise *e names file, line and what is wrong. */
int audit_verify(struct state *st, const char *box, uint64_t *ret_rows, struct err *e);
/* Deletes rows older than that (whole files, of boxes that are gone) or all of one box; the index
 * keeps that, by whom, and what the last hash was. */
int audit_delete(struct state *st, const char *box, uint64_t before_ms, const char *by,
		 uint64_t *ret_rows, struct err *e);
