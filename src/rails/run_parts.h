/* What the files of runs share: the states that a process keeps, rows on their way, payloads. */
#pragma once

#include "rails/run.h"

#include <sys/types.h>

struct run_cache;
struct run_cache *run_cache_new(void);
void run_cache_free(struct run_cache *c); /* NULL is fine */
struct run_cache **rails_runs(struct rails *l);
/* Of the batch that is being made: grows with each. */
uint64_t rails_batch_number(const struct rails_batch *b);

/* In a turn: the state of a run as it is with all rows before. Borrowed, for this turn. -ENOENT
 * (ERR_NOT_FOUND). */
int run_in_turn(struct rails_batch *b, const char *id, struct run_state **ret, struct err *e);
/* One that is to be created, with no row yet. */
int run_in_turn_new(struct rails_batch *b, const char *id, struct run_state **ret, struct err *e);
void run_forget(struct rails_batch *b, const char *id);
/* The same for its owner: ERR_CONFLICT -ESTALE where the fence is not the newest, -EALREADY where
 * it is over, unless over_too. */
int run_of_owner(struct rails_batch *b, const char *id, uint64_t fence, bool over_too,
		 struct run_state **ret, struct err *e);

/* Numbers the row, folds it and adds it to the batch. A row that cannot follow is a conflict; then
 * nothing was added. */
int run_put(struct rails_batch *b, struct run_state *s, struct run_row *row, struct err *e);
/* What a turn that puts this row needs. */
size_t run_put_room(const struct run_row *row);

/* Checks texts of a caller: NULL is none, unless it must be there. */
int run_check_text(const char *what, const char *text, size_t max, bool must, struct err *e);
static inline struct rails_bytes run_bytes(const char *text)
{
	return text ? (struct rails_bytes){text, __builtin_strlen(text)} : (struct rails_bytes){0};
}
int run_check_id(const char *id, struct err *e);
/* The same of runs and scopes of values. */
int run_check_any_id(const char *id, struct err *e);
struct rails_name run_name_of(const char *id);
/* run_load of any id. */
int run_load_any(struct rails *l, const char *id, struct run_state *ret, struct err *e);

/* Another step stands at that position: the sentence that names both. */
int run_diverged(const struct run_state *s, const struct run_step *step, const char *kind,
		 const char *name, struct err *e);

/* A payload that is kept: in line, or a blob of the run, durable before the row that names it.
 * is_new: the run need not be there yet. */
struct run_kept {
	struct run_payload payload;
	void *owned;
};
int run_keep(const struct rails *l, const char *id, bool is_new, const struct run_data *data,
	     struct run_kept *ret, struct err *e);
void run_kept_done(struct run_kept *k);

/* One row of a journal, whole; *ret_text is owned, and row points into it. */
int run_row_read(const struct rails *l, const struct rails_name *name,
		 const struct run_place *place, struct run_row *ret, uint8_t **ret_text,
		 struct err *e);
/* Journal bytes from offset on, to the function, which says how many it used. 0, or its error; what
 * is left at the end and was not used: -EBADMSG. */
typedef int64_t run_on_bytes(void *arg, const uint8_t *p, size_t n);
int run_read_bytes(int fd, uint64_t offset, run_on_bytes *on_bytes, void *arg);
int run_read_error(const char *id, int r, struct err *e);
