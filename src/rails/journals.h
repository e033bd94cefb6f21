/*
 * The journals' files: found by name, kept open, given room before they are written. Who has the
 * ledger's lock uses them; fsync is for any thread (rails_journal_sync).
 */
#pragma once

#include "base/limits_rails.h"
#include "rails/ledger.h"

#define RAILS_DIR "rails"

enum { JOURNAL_WAYS = 4, JOURNAL_SETS = LEDGER_OPEN_MAX / JOURNAL_WAYS };

struct rails_journal {
	struct rails_name name;
	int fd;		   /* owned, -1 */
	uint64_t reserved; /* bytes from its beginning that cannot run out of room */
	uint64_t used;
};

struct rails_journals {
	int dirs[RAILS_SPACES]; /* owned, -1 */
	struct rails_journal open[JOURNAL_SETS][JOURNAL_WAYS];
	uint64_t clock;
};

void rails_journals_init(struct rails_journals *j);
void rails_journals_done(struct rails_journals *j);
/* Closes what is open of them. */
void rails_journals_forget(struct rails_journals *j);
/* Their directories below rails/; made, and that durable, where they are missing. */
int rails_journals_begin(struct rails_journals *j, int rails_fd);

/* Makes it (offset 0) and sees to it that n bytes at offset find room. */
int rails_journal_reserve(struct rails_journals *j, const struct rails_name *name, uint64_t offset,
			  size_t n);
/* Takes back one that was made for rows that do not come. */
void rails_journal_drop(struct rails_journals *j, const struct rails_name *name);
int rails_journal_write(struct rails_journals *j, const struct rails_name *name, uint64_t offset,
			const void *p, size_t n);
/* All of it, or -errno. */
int rails_pwrite(int fd, const void *p, size_t n, uint64_t offset);
/* Missing is success. */
int rails_journal_remove(struct rails_journals *j, const struct rails_name *name);
/* Begins to write it to the disk, and does not wait. */
void rails_journal_flush(const struct rails_journals *j, const struct rails_name *name);
/* Its bytes and, if is_new, its name. Missing is success. */
int rails_journal_sync(const struct rails_journals *j, const struct rails_name *name, bool is_new);
/* The names of all journals of that space. */
int rails_journals_sync_names(const struct rails_journals *j, enum rails_space space);
/* What removals left that were killed. */
void rails_journals_sweep(struct rails_journals *j);
/* "runs/<id>/journal" */
enum { JOURNAL_PATH = 48 };
void rails_journal_path(const struct rails_name *name, char ret[JOURNAL_PATH]);
const char *rails_space_dir(enum rails_space space);
