/*
 * One command of a box. This struct is what every part of Cove means by one: the messages EXIT and
 * INFO are encoded from it (msg.c has the tags of each), the keeper's table embeds it, the journal
 * reads and writes it (keeper/journal.c has the lines), an event points at one (store/event.h), and
 * libcove makes its results and JSON of it. A new field is added here, and to the tables of the
 * forms that are to have it. Members are picked by hand only for what the structs of cove.h show
 * (EXEC_SHOWN in core/exec.h).
 *
 * What init sends of it is what the box says: the keeper counts bytes and time itself.
 */
#pragma once

#include "base/limits.h"
#include "wire/msg_list.h"

#include <stdbool.h>
#include <stdint.h>

#define WIRE_UNKNOWN UINT64_MAX /* a number that is not counted here */

/* EXEC_DONE and what follows it is over. */
enum exec_state { EXEC_RUNNING, EXEC_QUEUED, EXEC_DONE, EXEC_INTERRUPTED, EXEC_STATE_COUNT };
enum wire_shell_state { SHELL_NONE = 0, SHELL_KEPT, SHELL_EXITED, SHELL_RESTARTED };

struct exec_record {
	uint32_t exec_id;
	enum exec_state state;
	bool background, has_exit, timed_out, oom_killed;
	bool truncated; /* keeper: the log or the inline answer does not hold all of it */
	int exit_code;	/* valid if has_exit */
	int signal;	/* ended by this signal, or 0 */
	uint32_t shell_state;
	uint64_t pid;	     /* inside the box; 0: it did not start, or its keeper was lost */
	uint64_t started_ms; /* wall clock: when it was asked for, then when it started */
	uint64_t duration_ms;
	union {
		struct {
			uint64_t stdout_bytes, stderr_bytes; /* true counts */
		};
		uint64_t bytes[2];
	};
	/* Of its whole tree, as far as the host's cgroups can tell; 0 where they cannot. keeper:
	 * I/O that is not counted is WIRE_UNKNOWN. */
	uint64_t cpu_us, mem_peak_bytes, io_read_bytes, io_write_bytes;
	/* keeper: what the door denied while it ran; borrowed, see denials.h; not journalled. */
	struct wire_list denied;
	uint32_t denied_more;		    /* that the list has no room for */
	uint32_t denied_count;		    /* keeper: all of them, each time counted */
	uint64_t arguments;		    /* keeper: what was asked for, as a number */
	uint64_t limit_value;		    /* keeper: of the limit it met; 0: none, or not known */
	const char *cwd;		    /* borrowed; of the shell after a line; may be NULL */
	char command[EXEC_COMMAND_MAX + 1]; /* first line, cut; any bytes */
	char shell[SHELL_NAME_MAX + 1];	    /* the named shell; empty: not a line of one */
	char token[EXEC_TOKEN_MAX + 1];	    /* the caller's; empty: none */
	/* exit, signal, timeout, oom, pids, disk, killed; of the box: stopped, ttl, idle;
	 * interrupted, failed to start, failed */
	char cause[32];
};

/* What `cove` exits with for it: 124 where its time was over, its own status, or 128+N after signal
 * N. -1 while it runs, and where it is not known how it ended. */
int exec_status(const struct exec_record *r);

/* The limit it met, as its flag is called: "mem", "pids", "disk", "ttl", "idle", "timeout". NULL:
 * none. */
const char *exec_limit(const struct exec_record *r);

/* "running", "queued", "done", "interrupted". */
const char *exec_state_name(enum exec_state state);
bool exec_state_parse(const char *word, enum exec_state *ret);
/* "kept", "exited", "restarted"; NULL for none. */
const char *exec_shell_word(const struct exec_record *r);
