/*
 * Room on this host: may one more box be made, or one that does not run be started?
 *
 * Two things are asked, after its wall. What all boxes may use together, by their limits, is to
 * stay within a share of the host's memory and of its disk; a box without a limit may use all of
 * it. And what the host has left right now is not to fall below a reserve, whatever was promised.
 *
 *	memory	boxes that run, paused ones among them, and those that are coming up
 *	disk	every box there is, and those that are being made; twice with a named workspace
 *
 * One object serves all threads of a server, each with a struct cove of its own that refers to it.
 * Who may not yet waits behind those who came before, for as long as its struct cove says; only so
 * many wait at once, since each holds a thread. What others make beside this process counts from
 * the next look at the records on, at most ADMISSION_STALE_MS later.
 */
#pragma once

#include "base/err.h"
#include "store/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct cove;
struct core_admission;
struct core_hold;

enum { ADMISSION_STALE_MS = 1000, ADMISSION_LOOK_MS = 250, ADMISSION_WAIT_MAX_MS = 300000 };

/* "80%" of what the host has, or bytes. All zero: there is none. */
struct core_share {
	uint64_t percent, bytes;
};
bool core_share_parse(const char *text, struct core_share *ret);

struct core_admission_options {
	struct core_share memory, disk;
	uint64_t memory_reserve, disk_reserve; /* bytes; 0: none */
	unsigned waiting_max;
	const char *min_wall; /* borrowed; of each box that begins, or a stronger one; NULL: any */
};
/* NULL without memory. */
struct core_admission *core_admission_new(const struct core_admission_options *o);
/* From the next question on. */
void core_admission_set(struct core_admission *a, const struct core_admission_options *o);
void core_admission_free(struct core_admission *a); /* NULL is fine */

/* What the host's disk is to have left, whoever writes to it; 0: nothing was asked for. */
uint64_t core_disk_reserve(const struct cove *cove);
/* Not less left than that, for what a request has written beside boxes. ERR_FULL. */
int core_disk_check(const struct cove *cove, struct err *e);

/* What /proc/meminfo says, in bytes. */
int core_host_memory(uint64_t *ret_total, uint64_t *ret_available, struct err *e);

/* How long a thread's calls wait for room, and who they wait for. */
struct core_patience {
	uint64_t wait_ms;
	bool (*goes_on)(void *arg); /* NULL: as long as there is time */
	void *arg;
	int cancel_fd; /* above 0: readable when who asked has gone; for what takes long */
};

/* For create.c and up.c, before the record is written or the keeper is started. Negative (ERR_LIMIT
 * with EAGAIN) says in numbers what is held and by whom: to the box of a key, what is its key's and
 * what is not. *ret is NULL or held until core_hold_end, which is called when the record says what
 * the box is, or when it failed. */
int core_admit(struct cove *cove, const struct spec *spec, struct core_hold **ret, struct err *e);
/* Keeps the place of a box that runs and is to run again (rollback): it is never refused. */
struct core_hold *core_hold_keep(struct cove *cove, const struct spec *spec);
void core_hold_end(struct core_hold *h); /* NULL is fine */
