/* Messages about commands; see msg.h. */
#pragma once

#include "wire/msg_list.h"

#include <stdint.h>

#define WIRE_UNKNOWN	UINT64_MAX /* a number that nobody counts here */
#define WIRE_NO_TIMEOUT UINT64_MAX /* client: none, although the box has a default */
struct wire_exec {
	struct wire_list argv; /* exec: program and arguments */
	const char *line;      /* instead of argv: exec runs it with `bash -c`, or `sh -c` */
	/* Not NULL: run line in this named persistent shell ("": the default one). cwd, env and
	 * user are those of the line that starts the shell; for a running shell cwd and env, and
	 * another user than its own, are an error. */
	const char *shell;
	struct wire_list env; /* NAME=VALUE, added to the box's own */
	const char *cwd;      /* NULL: the box's start directory */
	const char *user;     /* NULL: the box's user; a name or a uid[:gid] */
	uint64_t timeout_ms;  /* 0: none; waiting for a shell counts */
	uint64_t pty;	      /* 1: a terminal; everything comes on stdout */
	uint64_t rows, cols;
	uint64_t has_stdin;  /* 1: the asker will send stdin; 0: it is empty */
	uint64_t background; /* client: answer is STARTED or QUEUED; output goes to the log */
	uint64_t inline_max; /* client: send no more than this per stream, count the rest; 0: all */
};

struct wire_started {
	uint64_t exec_id;
	uint64_t pid; /* inside the box */
};

/* Its shell is busy with another line. */
struct wire_queued {
	uint64_t exec_id;
};

enum wire_shell_state { SHELL_NONE = 0, SHELL_KEPT, SHELL_EXITED, SHELL_RESTARTED };

struct wire_exit {
	uint64_t exec_id;
	uint64_t exit_code; /* valid if has_exit */
	uint64_t has_exit;
	uint64_t signal; /* ended by this signal, or 0 */
	uint64_t timed_out;
	uint64_t oom_killed;
	uint64_t stdout_bytes, stderr_bytes; /* true counts at the end of the command */
	uint64_t truncated; /* keeper: the log or the inline answer does not hold all of it */
	uint64_t duration_ms;
	uint64_t shell_state; /* enum wire_shell_state */
	const char *cwd;      /* of the shell after a line; of the command for exec */
	const char *cause;    /* exit, signal, timeout, oom, pids, disk, killed, interrupted, ... */
	/* Of its whole tree, as far as the host's cgroups can tell; 0 where they cannot. keeper:
	 * I/O that is not counted is WIRE_UNKNOWN. */
	uint64_t cpu_us, mem_peak_bytes, io_read_bytes, io_write_bytes;
};

struct wire_signal {
	uint64_t exec_id; /* client link: which command, 0 for the one of this frame's id */
	uint64_t signal;
	uint64_t tree; /* 1: SIGKILL to the whole tree, however it was set up */
};

struct wire_resize {
	uint64_t rows, cols;
};

struct wire_attach {
	uint64_t exec_id;
	uint64_t stdout_from, stderr_from;
	uint64_t follow; /* 1: stay until the command ends, then EXIT; 0: what there is, then OK */
	uint64_t inline_max; /* as in wire_exec */
	uint64_t input;	     /* 1: this client feeds stdin from now on */
};

struct wire_info {
	uint64_t exec_id;
	const char *command; /* first line, cut */
	const char *state;   /* queued, running, done, interrupted */
	const char *shell;   /* the named shell, or NULL */
	uint64_t pid;
	uint64_t started_ms; /* wall clock */
	uint64_t has_exit, exit_code, signal;
	uint64_t stdout_bytes, stderr_bytes;
	uint64_t duration_ms;
	const char *cause;
	uint64_t background;
	uint64_t truncated; /* not all of its output was kept */
	uint64_t oom_killed, cpu_us, mem_peak_bytes, io_read_bytes, io_write_bytes;
};
