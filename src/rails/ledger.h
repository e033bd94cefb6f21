/*
 * The ledger: durable appends to many journals with one fsync for all that wait (group commit).
 *
 *	rails/lock		flock(2): who holds it appends. Any process of this state directory
 *				may, each for a moment. Its content, the mark, says who wrote last
 *				and up to where the journals have it
 *	rails/log-<number>	what was appended to any journal since the journals were last
 *				fsynced, in batches. Two at most: the newest gets what comes
 *	rails/log-next		the file of a log that is over, for the next one
 *	rails/runs/<id>/journal	a journal: rows one after the other; it only grows
 *	rails/runs/<id>/blobs/	results that are too large for a row (store/blobs.h)
 *	rails/values/<id>/	the same for values that outlive runs
 *
 * How it works
 *
 * append   rows -> log (one write and one fdatasync for all rows of a batch) -> journals (a write
 *          each, no sync) -> acknowledged. So the end of a journal is in it or in the log.
 * takeover whoever takes the lock and sees in the mark that another wrote since applies first what
 *          the log has and the journals may not: the same bytes at the same places. So a writer
 *          that was killed between the two loses nothing, and a crash of the machine, or a first
 *          look at a copy of the directory, is the same with all of the logs.
 * switch   when a log is full its successor begins, and one of those that waited fsyncs the
 *          journals that the full one names, while others append. Then it can go.
 * group    threads of a process hand in what they want and wait; one of them leads, commits for all
 *          and returns. There is no thread of the ledger's own.
 *
 * A bad batch at the end of the log is one that a crash tore: it was not acknowledged, and is
 * dropped. One that has a good batch of a greater number behind it, or that the next log begins
 * after, is damage: ERR_DAMAGED, and nothing is appended. A log's batches carry a random number of
 * its own, so that what a row holds is never taken for a batch.
 *
 * After a failed fsync the ledger of this process refuses everything: what the kernel still has is
 * not to be trusted. Whoever opens it anew writes again what the logs have. Without room nothing of
 * a batch stays (ERR_FULL), and it goes on when there is room: files are made as long as they can
 * get before the log is written.
 *
 * All calls may come from any thread. A forked child leaves the ledger alone.
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RAILS_ID = 20 }; /* hex digits */

enum rails_space { RAILS_RUNS, RAILS_VALUES, RAILS_SPACES };

/* A journal. */
struct rails_name {
	enum rails_space space;
	char id[RAILS_ID + 1];
};
bool rails_is_id(const char *id);

struct rails_options {
	/* For tests: the clock (ms since 1970), and the size of a log. 0 and NULL: the usual. */
	uint64_t (*now_ms)(void *arg);
	void *arg;
	uint32_t log_bytes;
};

struct rails;

/* Opens it, and brings the journals up to date if it is there; it is made by the first append. st
 * is borrowed until the end, o may be NULL. ERR_DAMAGED. */
int rails_open(struct rails **ret, struct state *st, const struct rails_options *o, struct err *e);
/* No call may be under way. NULL is fine. */
void rails_close(struct rails *l);
uint64_t rails_now_ms(const struct rails *l);
struct state *rails_state(const struct rails *l);

/* ---- appending ---- */

struct rails_batch;

/* In the turn of one who waits: the caller has the lock, all journals are up to date, and what it
 * adds is durable, with what all turns before it added, when rails_commit returns. It adds rows and
 * returns 0, or adds nothing and returns an error for its own caller alone. It may run in another
 * thread than that which waits, and must not wait itself. */
typedef int rails_on_turn(void *arg, struct rails_batch *b, struct err *e);

/* room: bytes that it will add at most, all rows together, and RAILS_ROW_COST for each of them;
 * LEDGER_BATCH_MAX is more than that. -errno: nothing was appended, but after ERR_INTERRUPTED,
 * where the outcome is not known until the ledger is opened anew. */
int rails_commit(struct rails *l, size_t room, rails_on_turn *on_turn, void *arg, struct err *e);
enum { RAILS_ROW_COST = 48 };

/* In a turn. offset is the length that the journal has, with what this batch added; 0 makes it. */
void rails_add(struct rails_batch *b, const struct rails_name *name, uint64_t offset, const void *p,
	       size_t n);
/* The journal goes, with its directory. */
void rails_add_removal(struct rails_batch *b, const struct rails_name *name);
struct rails *rails_of_batch(const struct rails_batch *b);

/* What this process knows of journals is to be looked at again when a number changed: there may be
 * more rows (another process wrote); some that were added are not there (a batch failed). Only in a
 * turn. */
struct rails_epoch {
	uint64_t more, lost;
};
struct rails_epoch rails_epoch_of(const struct rails_batch *b);

/* ---- reading ---- */

/* -ENOENT. The descriptor is for reading. At its end there may be a row that is still being
 * written. */
int rails_journal_open(const struct rails *l, const struct rails_name *name, int *ret_fd);
/* All ids of that space, sorted; some may have no journal, or an empty one. Free with
 * state_names_free. */
int rails_list(const struct rails *l, enum rails_space space, char ***ret_ids, size_t *ret_count,
	       struct err *e);
