/* Messages about commands; see msg.h. */
#pragma once

#include "wire/exec_record.h"
#include "wire/msg_list.h"

#include <stdint.h>

#define WIRE_NO_TIMEOUT UINT64_MAX /* client: none, although the box has a default */
struct wire_exec {
	struct wire_list argv; /* exec: program and arguments */
	const char *line;      /* instead of argv: exec runs it with `bash -c`, or `sh -c` */
	/* Not NULL: run line in this named persistent shell. cwd, env and user are those of the
	 * line that starts the shell; for a running shell cwd and env, and
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
	/* client: the caller's own name for this request, 1 to EXEC_TOKEN_MAX printable bytes
	 * without a space. The box runs at most one command per token, for its whole life: EXEC
	 * with a token that it knows is answered with that command's STARTED, its output from the
	 * first byte and its EXIT, also after it ended, and after the keeper was started again. Of
	 * stdin the command gets what it did not get before. Other arguments (but for what only
	 * shapes the answer: background, inline_max, rows, cols) are ERROR CONFLICT; and so is a
	 * token whose command was forgotten to make room. One that did not start is free again. */
	const char *token;
	uint64_t grace_ms; /* from SIGTERM, when its time is over, to SIGKILL; 0: at once */
	/* 1: the shell that the line starts reads the profile and ~/.bashrc first, with the line's
	 * output; for a running shell that did not it is an error. Feature "shells". */
	uint64_t login;
	/* 1: stderr is stdout, so that both are in the order in which they were written. Feature
	 * "merge". */
	uint64_t merge;
};

struct wire_started {
	uint64_t exec_id;
	uint64_t pid; /* inside the box */
};

/* Its shell is busy with another line. */
struct wire_queued {
	uint64_t exec_id;
};

/* The box's persistent shells. As a request: a list of them, or the end of one. As an answer: one
 * of them. */
struct wire_shell {
	uint64_t remove;  /* request; 1: end it if no line runs in it or waits; 2: end those too */
	const char *name; /* with remove: which */
	const char *user;
	const char *state;     /* idle, busy, starting; lost: it died since its last line */
	const char *cwd;       /* NULL: not known */
	uint64_t pid, exec_id; /* inside the box; the line that runs. 0: none */
	uint64_t queued;       /* lines that wait */
	uint64_t login;
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

/* From the box's log of events: the rows from a number on, those that are kept and then each as it
 * comes. The first answer is an EVENT without a row. It ends with OK after the box's last row, or
 * with CANCEL from the client. */
struct wire_subscribe {
	uint64_t from; /* the first row wanted; 0: the next one */
};

struct wire_event {
	uint64_t seq;	  /* of this row, one more than the last; without a row: of the next */
	uint64_t missed;  /* rows before this one that are not kept any more, or came too fast */
	const char *text; /* one JSON object, store/event.h; NULL: no row */
};
