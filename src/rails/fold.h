/*
 * What a run is, made of its rows alone: one function from a state and a row to the next state. No
 * I/O and no clock, so that every process that reads the same rows sees the same run.
 *
 * FOLDS, a table, says which type of row may come in which state of a run; each type has one
 * function that changes the state. The same function serves those who write: a row that it refuses
 * is not written. How the bytes of a journal were cut when they were read makes no difference.
 */
#pragma once

#include "base/limits.h"
#include "base/limits_rails.h"
#include "base/sha.h"
#include "rails/ledger.h"
#include "rails/row.h"

/* In rows by number: only ever added to. INTERRUPTED is not in rows: the lease is over, the run is
 * not. WAITING: it has no owner and waits for an answer, a signal or a time. */
enum run_status {
	RUN_RUNNING = 1,
	RUN_WAITING,
	RUN_COMPLETED,
	RUN_FAILED,
	RUN_CANCELLED,
	RUN_INTERRUPTED,
	RUN_STATUSES
};
const char *run_status_name(enum run_status status);
enum run_status run_status_find(const char *name); /* 0 */

enum run_step_state {
	RUN_STEP_STARTED = 1, /* and, if its starter lost the lease, interrupted */
	RUN_STEP_DONE,
	RUN_STEP_FAILED, /* an attempt did; another may come while there are retries */
	RUN_STEP_READY,	 /* resolved by "retry": the next that asks starts it */
	RUN_STEP_WAITING /* a wait that is open */
};

/* Of a step, in its first row. */
enum {
	RUN_STEP_IDEMPOTENT = 1, /* may be fired again without a person */
	RUN_STEP_UNCACHED = 2,	 /* its result is kept and not given to who asks again */
	RUN_STEP_IS_WAIT = 4,
	RUN_STEP_SKIPPED = 8, /* done without an effect, because somebody said so */
	RUN_STEP_FINAL = 16   /* failed, and no retry is left */
};

/* How an answer ended a wait. */
enum run_outcome {
	RUN_ANSWERED = 1,
	RUN_APPROVED,
	RUN_DENIED,
	RUN_TIMED_OUT,
	RUN_SLEPT /* a wait that was a sleep */
};
const char *run_outcome_name(enum run_outcome outcome);

/* Step, wait, or the taking of a signal. */
struct run_step {
	char position[RUN_POSITION_MAX + 1], kind[RUN_KIND_MAX + 1], name[RUN_NAME_MAX + 1];
	uint8_t key[SHA256_BYTES];
	enum run_step_state state;
	uint32_t flags;
	uint32_t attempts; /* begun; the last is under way or ended */
	uint32_t retries;  /* allowed after the first */
	uint64_t backoff_ms, fence, begun_ms, ended_ms;
	uint64_t until_ms;	  /* of a wait; 0: none */
	enum run_outcome outcome; /* of a wait */
	struct run_place first;	  /* its START row, or that which opened the wait */
	struct run_place last;	  /* the row with its result, error or answer; 0 bytes: none */
	uint64_t first_row;	  /* number of it */
	uint64_t signal;	  /* the number of the row that it took */
	uint64_t tokens_in, tokens_out, cost_micros, exec_id;
	uint32_t next; /* of the same hash, 1 more than its index; 0: the last */
};

struct run_signal {
	char name[RUN_NAME_MAX + 1];
	uint64_t row; /* its number */
	struct run_place place;
	bool is_taken;
};

struct run_totals {
	uint64_t steps_done, steps_failed, waits_open;
	uint64_t tokens_in, tokens_out, cost_micros;
};

struct run_state {
	struct rails_name id;
	char name[RUN_NAME_MAX + 1];
	char owner[RUN_WHO_MAX + 1]; /* the API key that made it; never answers its waits */
	char parent[RAILS_ID + 1];
	uint8_t request[SHA256_BYTES]; /* the hash of the request that made it */
	uint64_t rows, bytes;	       /* of its journal */
	uint64_t created_ms, last_ms, ended_ms;
	uint64_t fence; /* the greatest that was given */
	char holder[RUN_WHO_MAX + 1];
	uint64_t lease_ms, lease_until_ms;
	bool is_held;		  /* not released */
	enum run_status said;	  /* RUN_RUNNING until it was ended */
	struct run_place created; /* row 1: entry, metadata, input */
	struct run_place end;	  /* the last row that said a status */
	struct run_step *steps;	  /* owned, in the order of their beginning */
	uint32_t step_count, step_cap;
	uint32_t *heads; /* owned: the steps by the hash of their position */
	uint32_t head_count;
	struct run_signal *signals; /* owned */
	uint32_t signal_count, signal_cap;
	uint32_t started; /* steps that are */
	struct run_totals totals;
};

/* The first digit of an id says what it names: a run by its time, by its key; a scope of values. */
#define RUN_ID_OF_TIME	 '0'
#define RUN_ID_OF_KEY	 'f'
#define RUN_ID_OF_VALUES 'e'
void run_value_position(const char *name, char ret[RUN_POSITION_MAX + 1]);

void run_state_init(struct run_state *s, const char *id);
void run_state_done(struct run_state *s);

/* 0; -EBADMSG: it cannot follow; -ENOMEM, -E2BIG: more than a run may have. After an error the
 * state is as it was, but for -ENOMEM. */
int run_fold(struct run_state *s, const struct run_row *row, const struct run_place *place);
/* The rows at p, which begin at s->bytes. Bytes of whole rows; errors as above and of
 * run_row_decode. */
int64_t run_fold_bytes(struct run_state *s, const uint8_t *p, size_t n);

/* NULL where none is at that position. */
struct run_step *run_step_find(const struct run_state *s, const char *position);
enum run_status run_status_at(const struct run_state *s, uint64_t now_ms);
/* Does somebody have it? */
bool run_is_held_at(const struct run_state *s, uint64_t now_ms);
/* Started, by an owner who has lost the run. */
bool run_step_is_interrupted(const struct run_state *s, const struct run_step *step,
			     uint64_t now_ms);
/* When the next of its waits is over by itself; 0: none. */
uint64_t run_next_time(const struct run_state *s);
