/*
 * The ledger's insides: ledger.c is the group commit, files.c finds, replays and changes logs. All
 * of struct rails but its first half belongs to who leads and has the lock.
 */
#pragma once

#include "base/buf.h"
#include "base/fd.h"
#include "rails/journals.h"
#include "rails/log.h"
#include "rails/run_parts.h"

#include <pthread.h>

/* rails/lock: who wrote last, and up to where the journals have what the log has. It is believed
 * only in the file it was written to, until the machine is started again. */
struct rails_mark {
	uint64_t magic;
	uint64_t token;	     /* of the process's ledger */
	uint64_t log, older; /* numbers; older: 0 for none */
	uint64_t next;	     /* the number of the next batch */
	uint32_t at;	     /* and where in the log it goes */
	uint32_t crc;
	uint64_t inode;
	char boot[40];
};

struct rails_waiter {
	size_t room;
	rails_on_turn *on_turn;
	void *arg;
	int r;
	struct err e;
	bool is_done;
	pthread_cond_t changed;
	struct rails_waiter *next;
};

struct rails {
	struct state *st; /* borrowed */
	struct rails_options options;
	uint64_t token;
	char boot[40];

	pthread_mutex_t mutex; /* of these: */
	struct rails_waiter *first, *last;
	bool is_led, is_syncing;
	uint64_t to_sync; /* the log whose journals are to be fsynced, 0 */

	int dir_fd, lock_fd, log_fd; /* owned, -1 */
	ino_t lock_inode;
	struct rails_log_head head;
	uint32_t log_bytes; /* of that log, with its head */
	uint32_t at;	    /* where the next batch goes */
	uint64_t next;	    /* its number */
	uint64_t older;	    /* the log before, whose journals are not all fsynced; 0 */
	bool is_older_mine;
	struct err broken; /* kind set: nothing is appended any more */
	struct buf batch;
	int short_of; /* -ENOMEM: not all of the batch is in it */
	struct rails_epoch epoch;
	struct rails_journals journals;
	struct run_cache *runs; /* owned: what turns know of journals; NULL */
};

/* What is being made in the turns of one batch. */
struct rails_batch {
	struct rails *l;
	struct buf *out;
	uint32_t rows;
	size_t left; /* of the room of the turn */
};

/* Makes what is missing on disk. */
int rails_files_make(struct rails *l, struct err *e);
/* Under the lock: goes where the last writer was, and brings the journals up to date. */
int rails_files_catch_up(struct rails *l, struct err *e);
int rails_mark_write(struct rails *l);
/* So that whoever comes next replays all. */
void rails_mark_spoil(struct rails *l);
/* The next log begins: the batch that is to come has its number. */
int rails_log_switch(struct rails *l, struct err *e);
/* fsyncs the journals that the log of that number names; any thread, without the lock. */
int rails_log_sync(const struct rails *l, uint64_t number);
/* The older log is not needed any more. */
void rails_log_retire(struct rails *l);
/* The rows of a batch into the journals. */
int rails_batch_apply(struct rails *l, struct rails_log_rows rows, bool is_replay);
