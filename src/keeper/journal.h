/*
 * The list of a box's commands on disk: logs/execs, lines that are only ever appended.
 *
 *	start ID STARTED_MS PID BACKGROUND SHELL COMMAND...
 *	begin ID STARTED_MS PID	one that was queued before
 *	end   ID STATE HAS_EXIT CODE SIGNAL TIMED_OUT OOM CUT DURATION_MS OUT ERR
 *	      SHELL_STATE CAUSE...
 *	used  ID CPU_US MEM_PEAK IO_READ IO_WRITE	what its tree used, if known
 *	late  ID OUT ERR	output that came after the end
 *	drop  ID		forgotten, its logs are deleted
 *	next  ID		the first id not used yet
 *
 * Written without fsync: crash-safe, not power-safe. A start without an end, where no keeper holds
 * the box, is a command whose outcome is unknown: interrupted. When the file grows past half its
 * maximum it is written anew from what is remembered.
 */
#pragma once

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exec_state { EXEC_RUNNING, EXEC_DONE, EXEC_INTERRUPTED, EXEC_STATE_COUNT };

struct exec_record {
	uint32_t id;
	enum exec_state state;
	bool background, has_exit, timed_out, oom_killed, truncated;
	uint8_t shell_state; /* enum wire_shell_state */
	int exit_code, signal;
	uint64_t pid, started_ms, duration_ms;
	uint64_t bytes[2]; /* true counts: stdout, stderr */
	/* Of its whole tree; 0 where this host cannot tell. */
	uint64_t cpu_us, mem_peak_bytes, io_read_bytes, io_write_bytes;
	char command[EXEC_COMMAND_MAX + 1]; /* first line, cut; any bytes */
	char shell[SHELL_NAME_MAX + 1];	    /* empty: not a line of a shell */
	char cause[32];
};

/* "running", "done", "interrupted". */
const char *exec_state_name(enum exec_state state);

/* Reads the list of a box whose directory is box_fd, oldest first; free() it. *ret_next is the
 * first free id. A missing file is an empty list. Damaged lines are skipped. Commands without an
 * end are returned as running: the caller knows whether a keeper lives. */
int journal_read(int box_fd, struct exec_record **ret, size_t *ret_count, uint32_t *ret_next);

struct journal {
	int fd;		/* owned, -1 while closed */
	uint64_t bytes; /* in the file */
};

void journal_init(struct journal *j);
void journal_done(struct journal *j);

/* Each appends what it has to say in one write; what does not fit on the disk is taken back.
 * logs_fd is the directory. Negative errno on failure. */
int journal_start(struct journal *j, int logs_fd, const struct exec_record *r);
int journal_begin(struct journal *j, int logs_fd, const struct exec_record *r);
int journal_end(struct journal *j, int logs_fd, const struct exec_record *r);
int journal_late(struct journal *j, int logs_fd, const struct exec_record *r);
int journal_drop(struct journal *j, int logs_fd, uint32_t id);

/* Has it grown so much that it should be written anew? */
bool journal_is_large(const struct journal *j);
/* Writes it anew: records oldest first, handed out by `each` until it returns NULL. */
int journal_rewrite(struct journal *j, int logs_fd, uint32_t next,
		    const struct exec_record *(*each)(void *arg), void *arg);
