/*
 * The list of a box's commands on disk: logs/execs, lines that are only ever appended. Each is a
 * sum (CRC-32C of the rest, eight hex digits), a word and fields of an exec record (journal.c has
 * the table).
 *
 *	start ID STARTED_MS PID BACKGROUND SHELL COMMAND...	before it is passed to init
 *	token ID ARGUMENTS TOKEN	with its start; without a token: that one is free again
 *	begin ID STARTED_MS PID	it runs; written with its end
 *	end   ID STATE HAS_EXIT CODE SIGNAL TIMED_OUT OOM CUT DURATION_MS OUT ERR
 *	      SHELL_STATE CAUSE...
 *	used  ID CPU_US MEM_PEAK IO_READ IO_WRITE	what its tree used, if known
 *	late  ID OUT ERR	output that came after the end
 *	drop  ID		forgotten, its logs are deleted
 *	spent KEY		the token of one that was forgotten
 *	next  ID		the first id not used yet
 *
 * Crash-safe, not power-safe: only the start of a command with a token is fsynced (journal_sync). A
 * start without an end, where no keeper holds the box, is a command whose outcome is unknown:
 * interrupted. When the file grows past half its maximum it is written anew from what is
 * remembered.
 *
 * A line whose sum is wrong is not used, and counted. A last line without its newline is what a
 * crash leaves: it is not damage. An older Cove wrote lines without sums; they are read where they
 * stand before the first with one. The keeper that reads such a file, or a damaged one, writes it
 * anew; a damaged one stays beside it as logs/execs.damaged.
 */
#pragma once

#include "keeper/tokens.h"
#include "wire/exec_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal_list {
	struct exec_record *records; /* owned, oldest first */
	size_t count, cap;
	uint32_t next;		 /* the first free id */
	struct token_set spent;	 /* of commands that are not in the list any more */
	int error;		 /* a token that could not be remembered */
	size_t damaged;		 /* lines that are not used */
	bool has_sums, is_older; /* lines with a sum were met, and lines without */
};

/* Reads the list of a box whose directory is box_fd. A missing file is an empty list. Damaged lines
 * are skipped and counted; an id that one of them may have had is not free. Commands without an end
 * are returned as running: the caller knows whether a keeper lives. After a failure too,
 * journal_list_done. */
int journal_read(int box_fd, struct journal_list *ret);
void journal_list_done(struct journal_list *l);

/* The file beside it in logs/ with what a command printed: stream 0 is stdout, 1 stderr. */
struct journal_log {
	char text[24];
};
struct journal_log journal_log_name(uint32_t id, unsigned stream);

struct journal {
	int fd;		/* owned, -1 while closed */
	uint64_t bytes; /* in the file */
	bool fresh;	/* its name was not synced yet */
};

void journal_init(struct journal *j);
void journal_done(struct journal *j);

enum journal_lines {
	JOURNAL_START = 1 << 0,
	JOURNAL_TOKEN = 1 << 1,
	JOURNAL_BEGIN = 1 << 2,
	JOURNAL_END = 1 << 3, /* and used, if something is known */
	JOURNAL_LATE = 1 << 4,
	JOURNAL_DROP = 1 << 5,
};

/* Appends lines of a record in one write; what does not fit on the disk is taken back. logs_fd is
 * the directory. Negative errno on failure. */
int journal_add(struct journal *j, int logs_fd, unsigned lines, const struct exec_record *r);
/* What was added is on the disk after this, the file's own name included. */
int journal_sync(struct journal *j, int logs_fd, int box_fd);

/* Has it grown so much that it should be written anew? */
bool journal_is_large(const struct journal *j);
/* Writes it anew: records oldest first, handed out by `each` until it returns NULL. tokens has
 * those of the records too. With a token in it, it is fsynced. */
int journal_rewrite(struct journal *j, int logs_fd, uint32_t next, const struct token_set *tokens,
		    const struct exec_record *(*each)(void *arg), void *arg);
/* Keeps the file as it is beside the one that is written next. */
int journal_set_aside(int logs_fd);
