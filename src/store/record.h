/*
 * The life of a box on disk, as one small file, the record. Each of its two parts begins with the
 * sum of its text (base/lines.h): what is damaged is never used (ERR_DAMAGED).
 *
 *	spec	what the box is; written once by create, durable before the box is named
 *	run	keeper pid, boot id, start time, revision of init, whether the box is paused,
 *		or up for one client alone, what was set of its times since it was made; then
 *		cause, by whom and when it ended. Written by the keeper, or by the sweep after it
 *		(record_run.h)
 *
 * The keeper has the file locked for as long as it lives: the only truth about liveness.
 *
 *	locked				running
 *	free, with an end		stopped
 *	free, with a start, no end	the keeper was lost, or the host rebooted (boot id differs)
 *	free, no run			created, never started
 *
 * Besides, whoever makes, starts or removes a box holds its operation lock: flock(2) on
 * boxes/<name>. A box that is neither live nor locked so was left behind: the sweep may judge it.
 */
#pragma once

#include "base/err.h"
#include "store/spec.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In a box's directory: what its spec says is to be made anew at its first start has been. */
#define BOX_RENEWED_FILE "renewed"

enum box_state { BOX_CREATED, BOX_RUNNING, BOX_STOPPED };

struct record {
	struct spec spec;
	char *text; /* owned; the spec points into it */
	enum box_state state;
	pid_t keeper_pid;
	uint64_t started_ms, ended_ms;
	char cause[64]; /* why it ended: "stopped", "keeper lost", "host reboot", ... */
	char by[64];	/* who asked, may be empty; both also of one that is asleep */
	char boot[40];	/* the host's boot in which its last run began; may be empty */
	/* When its last run began that was not for one client alone, and why that ended. */
	uint64_t own_ms;
	char own_cause[64];
	uint64_t ttl_from_ms; /* since when its ttl counts */
	uint64_t on_start;    /* the number of spec.on_start in its last run; 0: it did not run */
	/* Of one that runs: */
	bool paused;
	bool asleep;		/* paused, as its time was over: a request wakes it */
	uint64_t init_revision; /* WIRE_INIT_REVISION of its keeper; 0: an older keeper */
	bool has_sum;		/* the record has; one of an older Cove has none */
};

/* Makes boxes/<name> whole or not at all: a temporary directory, the record inside, then one
 * rename. -EEXIST (ERR_EXISTS) if the name is taken. A one-shot box is not fsynced. Returns the
 * directory with the operation lock, held for as long as that descriptor is open. */
int record_create(struct state *s, const struct spec *spec, int *ret_box_fd, struct err *e);

/* The same of a box that was made ahead (premade.h), in its directory, which has that name and
 * which box_fd holds with the operation lock. On failure it has that name still. Its new name is
 * durable after record_sync_name, which may come while its keeper starts. */
int record_create_in(struct state *s, const struct spec *spec, const char *dir, int box_fd,
		     struct err *e);

int record_sync_name(struct state *s, const struct spec *spec, struct err *e);
/* The file of such a directory, when it is made: then naming a box takes fewer writes. */
int record_prepare(struct state *s, int dir_fd, struct err *e);

/* What everybody says of a box that is not there: -ENOENT, with the remedy. */
int record_missing(const char *name, struct err *e);

/* The directory of a box. ERR_NOT_FOUND if there is no such box. */
int record_open(struct state *s, const char *name, int *ret_box_fd, struct err *e);

/* Holds the operation lock of a box for as long as this descriptor is open: -EBUSY (ERR_CONFLICT)
 * if another process has it and wait is not set. After waiting the box may be gone: load it. */
int record_lock_operation(int box_fd, bool wait, struct err *e);

/* ERR_NOT_FOUND if there is no such box, ERR_DAMAGED if one of its files is not as written. */
int record_load(struct state *s, const char *name, struct record *ret, struct err *e);
/* Writes a record anew, with its sum. The caller has the operation lock. */
int record_renew(int box_fd, const struct spec *spec, struct err *e);
/* The same of a box that does not run, whose spec is another from now on: what is said of its last
 * run stays, but for what record_set_times set, which the spec has. */
int record_replace(int box_fd, const struct spec *spec, struct err *e);
void record_done(struct record *r);

/* Keeper: lock for life (-EBUSY if held), then say live. The last end is forgotten. */
int record_lock(int box_fd, int *ret_lock_fd, struct err *e);
int record_write_live(int lock_fd, bool durable, struct err *e);
/* The same of a box that is up for one client alone, and so has no socket. */
int record_write_visit(int lock_fd, bool durable, struct err *e);
/* Keeper, before it says so: was there an earlier one, or may there have been? */
bool record_ran_before(int lock_fd);
/* Keeper: the box is frozen, or runs again; asleep: the time that was over, or NULL. Needs no room
 * on the disk, as what follows. */
int record_set_paused(int lock_fd, bool on, const char *asleep, struct err *e);
/* Keeper: how long the box may run from now on, in place of what its spec says; 0: as it is,
 * UINT64_MAX: without end. Durable. It holds until the spec is written anew. */
int record_set_times(int lock_fd, uint64_t ttl_ms, uint64_t idle_ms, struct err *e);
/* Keeper: which command is its spec's on_start. */
int record_set_on_start(int lock_fd, uint64_t exec_id, struct err *e);
/* The first end of a run stays: a later one changes nothing. Needs no room on the disk. */
int record_write_end(int box_fd, const char *cause, const char *by, bool durable, struct err *e);
/* Of a box that does not run: a run whose text is damaged says that it ended, and that how is not
 * known. Others are left as they are. */
int record_mend_run(int box_fd, const char *by, struct err *e);

/* Is the lock held by somebody else? Only asks, so it never gets in a keeper's way. Who asks again
 * and again while watching the directory opens the file once (or -errno) and asks record_is_locked:
 * closing it would itself be an event there. */
bool record_is_live(int box_fd);
int record_open_lock(int box_fd);
bool record_is_locked(int lock_fd);
/* Does it run for one client alone? Nobody else can reach its keeper. */
bool record_is_visited(int box_fd);
bool record_says_visit(int lock_fd);

/* Moves the box to the trash: renames boxes/<name> to boxes/.gone-<random>, so that the name is
 * free and a crash leaves something the sweep knows to delete. Missing is success with ret_trash[0]
 * = 0. The caller then deletes it. */
int record_trash(struct state *s, const char *name, bool durable, char ret_trash[64],
		 struct err *e);

/* Names of all boxes, sorted. */
int record_names(struct state *s, char ***ret_names, size_t *ret_count, struct err *e);

/* Calls fn with the spec of each box until it returns something else than 0. A damaged record
 * counts for nothing, unless strict: its box cannot be started, only removed. One that cannot be
 * read just now, or that is a newer Cove's, is an error. */
int record_each_spec(struct state *s, bool strict, int (*fn)(void *arg, const struct spec *spec),
		     void *arg, struct err *e);

/* 1 and a box whose spec names this image or this workspace, 0 if none does. by_name: an image that
 * it stands on by that name alone, its record having no layers. Each may be NULL. */
int record_find_user(struct state *s, const char *image, const char *by_name, const char *workspace,
		     char ret_box[BOX_NAME_MAX + 1], struct err *e);

struct refs;
/* For refs_collect (refs.h): the layers of all boxes. What a damaged record named is not known, so
 * that is an error: nothing goes until the box is removed. */
int record_refs(struct state *s, struct refs *refs, struct err *e);
