/*
 * Durable runs: what was done is known, and is not done twice.
 *
 * A run is a journal of rows (rails/row.h) in the ledger (rails/ledger.h); what it is follows from
 * them alone (rails/fold.h). Every operation looks at the newest rows in its turn, refuses or adds
 * rows, and returns when they are durable: START before the caller may cause the effect, DONE
 * before anyone learns of it.
 *
 *	run_create -> fence -> run_step_begin -> STARTED: cause the effect, then run_step_done
 *	   (or run_lease)                     -> STORED: the result, nothing to do
 *	                                      -> INTERRUPTED: run_step_resolve
 *	           run_wait_begin -> WAITING: run_release; the answer wakes who looks
 *	           run_end
 *
 * A run has one owner at a time: run_lease gives a fence, a number that only grows, and an older
 * one is refused (ERR_CONFLICT, -ESTALE) by everything. A lease lasts until so long after the
 * owner's last row.
 *
 * Positions are the program's own: a text for each step that is the same when the program runs
 * again ("7", or "7.2" for a branch). Another step where one was: ERR_CONFLICT (-EXDEV), with both
 * in its sentence.
 *
 * All calls may come from any thread; outputs are owned by the caller.
 */
#pragma once

#include "rails/fold.h"

/* Bytes that are to be kept: in memory, or (fd greater than 0) what a descriptor gives from where
 * it is to its end. All zeros: none. */
struct run_data {
	const void *p;
	size_t len;
	int fd; /* borrowed */
};

/* What was stored. */
struct run_result {
	uint8_t *p; /* owned, a NUL behind it; NULL for a blob larger than RESULT_INLINE_MAX */
	size_t len;
	char digest[65]; /* of the blob that it is; "" */
	uint64_t size;
};
void run_result_done(struct run_result *r);

/* ---- life ---- */

struct run_create_options {
	const char *name;
	const char *owner;  /* the API key or person that makes it; its waits are not theirs */
	const char *holder; /* who is to have the lease: pid, host, whatever tells it apart */
	uint64_t lease_ms;
	/* The same key with the same request is the same run, with another ERR_CONFLICT (-EEXIST).
	 * Within a scope: that of an API key. NULL: always a new run. */
	const char *key, *scope;
	uint8_t request[SHA256_BYTES];
	const char *entry;  /* the command or call that starts it again, as the caller reads it */
	const char *parent; /* the run that it repeats */
	const char *metadata;
	struct run_data input;
};
struct run_handle {
	char id[RAILS_ID + 1];
	uint64_t fence; /* 0: it was there, and somebody has it or it is over */
	bool is_new;
	enum run_status status;
};
int run_create(struct rails *l, const struct run_create_options *o, struct run_handle *ret,
	       struct err *e);

/* Makes holder the owner, with a fence greater than all before. ERR_CONFLICT (-EBUSY) while another
 * has it, unless force; (-EALREADY) when the run is over. */
int run_lease(struct rails *l, const char *id, const char *holder, uint64_t lease_ms, bool force,
	      uint64_t *ret_fence, struct err *e);
/* Any operation of the owner does that too. */
int run_renew(struct rails *l, const char *id, uint64_t fence, struct err *e);
/* The owner leaves it: waiting, or for another to go on. */
int run_release(struct rails *l, const char *id, uint64_t fence, struct err *e);
/* COMPLETED or FAILED. text: the error; origin: the position it came from. Both may be NULL. */
int run_end(struct rails *l, const char *id, uint64_t fence, enum run_status status,
	    const struct run_data *result, const char *text, const char *origin, struct err *e);
/* By anyone who may. Steps under way may still report. Again is fine. */
int run_cancel(struct rails *l, const char *id, const char *by, const char *reason, struct err *e);
/* A failed or cancelled run goes on where it was; its failed steps are tried again. */
int run_reopen(struct rails *l, const char *id, const char *by, struct err *e);
/* All that it has goes. ERR_CONFLICT while somebody has it. Again is fine. */
int run_remove(struct rails *l, const char *id, struct err *e);

/* ---- steps ---- */

struct run_step_spec {
	const char *position, *kind, *name;
	struct run_data arguments;		/* canonical, as the caller makes them */
	const uint8_t (*depends)[SHA256_BYTES]; /* profile, skills, image */
	size_t depends_count;
	uint32_t flags; /* IDEMPOTENT, UNCACHED */
	uint32_t retries;
	uint64_t backoff_ms; /* doubled after each */
};
/* Of all of a spec but its flags. */
int run_step_key(const struct run_step_spec *spec, uint8_t ret[SHA256_BYTES], struct err *e);
enum { RUN_OPERATION_ID = 32 };
/* The same for all attempts at that step of that run. */
void run_operation_id(const char *id, const char *position, char ret[RUN_OPERATION_ID + 1]);

enum run_begun {
	RUN_BEGUN_STARTED,     /* START is durable: now cause the effect */
	RUN_BEGUN_STORED,      /* it is done: result */
	RUN_BEGUN_FAILED,      /* it failed, and no retry is left: error */
	RUN_BEGUN_LATER,       /* it failed; the next attempt at retry_at_ms */
	RUN_BEGUN_INTERRUPTED, /* an earlier owner started it; what came of it is not known */
	RUN_BEGUN_WAITING      /* a wait that is open */
};
struct run_begin {
	enum run_begun begun;
	uint32_t attempt;
	uint64_t retry_at_ms;
	char operation_id[RUN_OPERATION_ID + 1];
	struct run_result result; /* owned */
	bool is_skipped;
	struct err error; /* of a step that failed */
	enum run_outcome outcome;
	char by[RUN_WHO_MAX + 1], reason[RUN_TEXT_MAX + 1]; /* of an answer */
};
/* After every call that gave one. */
void run_begin_done(struct run_begin *b);
int run_step_begin(struct rails *l, const char *id, uint64_t fence,
		   const struct run_step_spec *spec, struct run_begin *ret, struct err *e);

struct run_step_end {
	uint64_t tokens_in, tokens_out, cost_micros, exec_id;
	const char *box, *snapshot;
	struct run_data result; /* also of one that failed */
	const char *error;	/* why; NULL: it is done */
	bool is_final;		/* it failed, and a retry is no use */
};
int run_step_done(struct rails *l, const char *id, uint64_t fence, const char *position,
		  uint32_t attempt, const struct run_step_end *end, struct err *e);

enum run_resolve { RUN_RESOLVE_RETRY = 1, RUN_RESOLVE_SKIP, RUN_RESOLVE_FAIL };
/* Of an interrupted step, or (retry) of one that failed. fence 0 with by: a person, who may retry
 * what is not idempotent; the owner may not (ERR_DENIED). result: of what is skipped, or NULL. */
int run_step_resolve(struct rails *l, const char *id, uint64_t fence, const char *position,
		     enum run_resolve how, const char *by, const char *reason,
		     const struct run_data *result, struct err *e);

/* ---- waits and signals ---- */

struct run_wait_spec {
	const char *position, *name, *question;
	const char *schema, *metadata; /* of the answer; JSON that others check */
	const char *who;   /* may answer: names between commas; NULL: all but the owner */
	uint64_t until_ms; /* 0: no end */
	bool is_sleep;	   /* until then, and no one is asked */
};
/* Opens it, or says what came of it: STORED with outcome, by, reason and the value, or WAITING. One
 * whose time is over is ended by whoever looks. */
int run_wait_begin(struct rails *l, const char *id, uint64_t fence,
		   const struct run_wait_spec *spec, struct run_begin *ret, struct err *e);
struct run_answer {
	enum run_outcome outcome; /* ANSWERED, APPROVED, DENIED */
	const char *by, *from, *reason;
	struct run_data value;
};
/* Once: ERR_CONFLICT (-EALREADY) after that. ERR_DENIED (-EPERM) for the run's owner, and for who
 * is not named. */
int run_wait_answer(struct rails *l, const char *id, const char *position,
		    const struct run_answer *answer, struct err *e);

int run_signal(struct rails *l, const char *id, const char *name, const char *by,
	       const struct run_data *value, struct err *e);
/* The oldest of that name that no other position took: STORED, or WAITING. */
int run_signal_take(struct rails *l, const char *id, uint64_t fence, const char *position,
		    const char *name, struct run_begin *ret, struct err *e);

/* fields: JSON, or NULL. */
int run_log(struct rails *l, const char *id, uint64_t fence, unsigned level, const char *text,
	    const char *fields, struct err *e);

/* ---- looking: by anyone, without the lock ---- */

/* The state as the journal has it now. ERR_NOT_FOUND. End with run_state_done. */
int run_load(struct rails *l, const char *id, struct run_state *ret, struct err *e);
/* Rows after that number, oldest first, until on_row is false. Texts are borrowed for the call. */
typedef bool run_on_row(void *arg, const struct run_row *row);
int run_rows(struct rails *l, const char *id, uint64_t after, run_on_row *on_row, void *arg,
	     struct err *e);
/* The payload of a row of that run as bytes. */
int run_result_read(const struct rails *l, const char *id, const struct run_payload *from,
		    struct run_result *ret, struct err *e);
/* A blob that it names. The descriptor is for reading. */
int run_result_open(const struct rails *l, const char *id, const char *digest, int *ret_fd,
		    uint64_t *ret_size, struct err *e);
int run_result_at(const struct rails *l, const char *id, const struct run_place *place,
		  struct run_result *ret, struct err *e);
