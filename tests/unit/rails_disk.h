/*
 * A disk that is written down, and that fails: the calls by which the ledger changes files are this
 * program's own. They do what they should, unless told to die or to fail at one of them, and keep a
 * list. From the list the state after a loss of power at every call is made again: of a file what
 * it had at its last fsync, and of each later write every sector by itself or not; of a directory
 * the names of its last fsync, and of later changes each by itself or not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the program notes between calls. */
struct disk_note {
	unsigned what, run, step;
};

enum disk_fault { DISK_WELL, DISK_DIES, DISK_NOSPC, DISK_IO };

/* Counts calls from 1; at the one of that number (0: none) the fault happens. Of a write that dies
 * half was done. */
void disk_arm(enum disk_fault fault, unsigned at);
unsigned disk_calls(void);
bool disk_has_failed(void);
/* A control: fsync and fdatasync return, and do nothing. */
void disk_forget_syncs(bool on);

/* Writes down all changes below that directory from now on. */
void disk_record(int dir_fd);
void disk_record_stop(void);
unsigned disk_ops(void);
void disk_note(struct disk_note note);
/* NULL where that op is a call. */
const struct disk_note *disk_note_at(unsigned op);

enum disk_loss { DISK_LOSES_ALL, DISK_LOSES_NOTHING, DISK_LOSES_SOME };
/* The directory as it is after a loss of power when so many ops were done, made below dir_fd. */
void disk_make(int dir_fd, const char *name, unsigned ops, enum disk_loss loss, uint64_t seed);
