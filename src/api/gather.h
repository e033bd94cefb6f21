/*
 * One order for what happens to all boxes: a pass in a thread reads what is new in the boxes' own
 * files (events, audit logs; which boxes are there) and writes it to the host's events
 * (store/feed.h). Readers (events.c, hooks.c) have a number for their place; counting (figures.h)
 * is of the same rows.
 *
 *	truth     logs/events.jsonl of a box, its audit log, boxes/
 *	here      the order, the rows of boxes that are gone, and how far each file was read
 *
 * The place in each file is kept with the counts (events/state) now and then; after kill -9 the
 * rows that were written since say how far it was read beyond that. So every event of a box's
 * files gets one number, once. A box that is removed is read to the end of its events first: its
 * file is held open. What leaves no trace is a box that somebody else makes and removes between
 * two passes.
 *
 * One process gathers for a state directory; servers beside it read what that one wrote.
 */
#pragma once

#include "api/api.h"
#include "store/audit.h"
#include "store/feed.h"

#include <pthread.h>

enum { GATHER_TYPES_MAX = 24 };

/* "box.created" and so on; -1 for another word, NULL after the last. */
int gather_type(const char *word);
const char *gather_type_name(int type);

enum {
	GATHER_LEAST_MS = 100, /* between two passes, and */
	GATHER_MOST_MS = 2000,
	GATHER_SOON_MS = 10,	/* from a sign of something new to the pass */
	GATHER_SLOW_MS = 5000,	/* from one look at what runs to the next */
	GATHER_KEEP_MS = 30000, /* from one writing of the state to the next */
	GATHER_ROWS_MAX = 2000, /* of one pass; the next follows at once */
	GATHER_HINTS_MAX = 1024,
	GATHER_STATE_MAX = 64 << 20,
	GATHER_LABELS_BYTES = 1024, /* of a box's labels as JSON; beyond it has none in rows */
	GATHER_DENIALS_BURST = 500, /* of one box, as rows; */
	GATHER_DENIALS_RATE = 10,   /* a second after that. The others are counted */
};

struct gather_box {
	char name[BOX_NAME_MAX + 1];
	uint64_t created_ms, ino, birth_ns;
	json_t *labels; /* owned; NULL: none */
	bool one_shot, is_there;
	bool has_row; /* its creation has a row, or needs none */
	bool is_over; /* its removal has one */

	uint64_t seq; /* of its events: has a row */
	int fd;	      /* owned; its log of them, -1 */
	uint64_t log_ino, at, watched_ino;
	bool is_door_watched;

	char log[AUDIT_NAME_MAX]; /* its audit log's name; "" before there is one */
	struct audit_cursor door; /* counted so far */
	uint64_t door_row;	  /* has a row */
	uint64_t denials, denials_ms, left_out;

	uint64_t started_ms, cpu_us; /* of the run under way; 0: it does not run */
};

struct figures;
struct cgroup_reader;

struct api_gather {
	struct api *api;
	struct ev_timer timer;
	struct ev_io watch; /* owned fd; signs of something new */
	struct ev_job job;
	bool runs, again, is_ending;
	int trouble;	   /* what the last pass ended with */
	uint64_t ended_ms; /* when the last pass did */

	/* The pass's alone. */
	struct state *st; /* borrowed, of the thread */
	struct feed_writer feed;
	atomic_bool writes; /* other threads ask, too */
	bool is_fresh;
	int logs_fd;
	uint64_t boxes_ms, swept_ms, slow_ms, kept_ms, kept_seq, synced_ms;
	struct timespec boxes_time;
	unsigned rows;
	struct cgroup_reader *groups; /* owned */
	uint64_t now_ms, mono_ms;

	/* With the lock. */
	pthread_mutex_t lock;
	struct figures *figures;
	struct gather_box **boxes; /* owned; sorted by name */
	size_t count, cap;
	struct gather_box *hints[GATHER_HINTS_MAX]; /* owned */
	size_t hint_count;
};

int api_gather_start(struct api *a);
/* After the threads: writes down how far it came. NULL is fine. */
void api_gather_free(struct api_gather *g);
/* In a thread: this box was just made, or is to be removed: it may be gone in a moment. */
void api_gather_hint(struct api *a, struct cove *cove, const char *box);
/* In the loop: something may have happened. */
void api_gather_soon(struct api *a);
/* Is this server the one that writes the events? From any thread. */
bool api_gather_writes(const struct api *a);

/* ---- events.c: which rows somebody wants ---- */

struct api_events_filter {
	char owner[9];		 /* "": of all */
	uint32_t types;		 /* 1 << feed_type; 0: all */
	const char *box, *label; /* NULL: all; "NAME" or "NAME=VALUE". In what the owner keeps */
};
_Static_assert((int)FEED_TYPES < (int)GATHER_TYPES_MAX, "bits of a filter");
bool api_events_pass(const struct api_events_filter *f, const char *row, size_t len);
/* "box.created,exec.ended" */
int api_events_types(const char *list, uint32_t *ret, struct err *e);

/* ---- gather_box.c ---- */

/* What is known of a box that is there; NULL: it is gone, or not to be read now. */
struct gather_box *gather_box_new(struct state *st, const char *name);
void gather_box_free(struct gather_box *b);
/* One more row; data is taken. what, seq: where it is from; NULL: from no file. */
int gather_emit(struct api_gather *g, struct gather_box *b, enum feed_type type, uint64_t time_ms,
		const char *what, uint64_t seq, json_t *data);
/* What is new in its files. */
int gather_box_read(struct api_gather *g, struct gather_box *b);
/* From here on: nothing that is in them. */
void gather_box_skip(struct api_gather *g, struct gather_box *b);
/* What only its record and groups say. */
int gather_box_look(struct api_gather *g, struct gather_box *b);
int gather_box_created(struct api_gather *g, struct gather_box *b);
int gather_box_removed(struct api_gather *g, struct gather_box *b);

/* ---- gather_state.c ---- */

int gather_state_save(struct api_gather *g);
int gather_state_load(struct api_gather *g);
/* Into the list, by its name; takes b. -ENOMEM. */
int gather_box_insert(struct api_gather *g, struct gather_box *b);
struct gather_box *gather_box_find(struct api_gather *g, const char *name);
void gather_box_drop(struct api_gather *g, struct gather_box *b);
