/*
 * A command under way on one connection. cove_run drives one to its end; cove_exec_* hand its
 * events to the caller. The log of a stopped box (history.c) gives the same events from files.
 *
 *	begin -> STARTED -> OUT, ERR ... -> EXIT -> done
 *
 * Credit: stdin spends flow.left; output is given back when the caller comes for the next event,
 * that is, when it has really taken the last one.
 */
#pragma once

#include "core/core.h"
#include "wire/link.h"
#include "wire/msg.h"

struct log_reader;
struct wire_attach;

struct cove_exec {
	struct cove_box *box;	/* a reference; NULL for a log */
	struct core_conn *conn; /* owned while the command is read; NULL for a log */
	struct log_reader *log; /* owned; the command of a stopped box */
	struct core_call call;
	uint64_t exec_id;
	struct wire_flow input;
	struct wire_flow output[WIRE_STREAM_COUNT];
	uint8_t owed_stream; /* what the caller has in its hands */
	uint32_t owed;
	bool quiet;		    /* no events for on_event: an attach, a log */
	bool queued;		    /* QUEUED came, and STARTED has yet to */
	bool background;	    /* over with STARTED or QUEUED */
	bool done;		    /* there is no next event */
	bool over;		    /* the keeper knows that too: nothing is to be cancelled */
	size_t queued_before;	    /* bytes that waited on the connection when it was begun */
	char *cwd;		    /* owned; behind the EXIT event */
	struct cove_denial *denied; /* the same */
	char command[96], shell[SHELL_NAME_MAX + 1];
};

/* ERR_UNSUPPORTED where the keeper, of an older Cove, does not know what the command asks for, and
 * would run it all the same. After HELLO. */
int core_exec_check_peer(const struct core_conn *conn, const struct cove_command *command,
			 struct err *e);
/* Queues EXEC on a connection; nothing is sent yet. inline_max as in struct wire_exec. Where it
 * fails nothing was queued, and the call is to be ended. */
int core_exec_begin(struct cove_exec *x, struct core_conn *conn, const struct cove_command *command,
		    uint64_t inline_max, struct err *e);
/* The same on a connection of the box. */
int core_exec_open(struct cove_exec *x, struct cove_box *box, const struct cove_command *command,
		   uint64_t inline_max, struct err *e);
/* Right after that: queues all of the command's stdin, and its end. For no more than a window;
 * where it fails the command is taken back, and what others queued stays. */
int core_exec_feed_all(struct cove_exec *x, const struct cove_command *command, struct err *e);
/* Gives the connection back; the command goes on. */
void core_exec_end(struct cove_exec *x);

/* Queues as much of data as the window allows; returns how much. */
size_t core_exec_feed(struct cove_exec *x, const void *data, size_t len);

/* So much output was consumed: queues credit for it. */
int core_exec_took(struct cove_exec *x, enum wire_stream stream, size_t n, struct err *e);

/* Handles one frame. 1: *ret is an event, 0: it was only credit. */
int core_exec_frame(struct cove_exec *x, const struct wire_frame *f, struct cove_event *ret,
		    struct err *e);

/* What the structs of cove.h show of a record, under the same names in both: its one transcription.
 * Where init's word goes in it is bounded here. */
#define EXEC_SHOWN(r)                                                                             \
	.exec_id = (r)->exec_id, .duration_ms = (r)->duration_ms, .out_bytes = (r)->stdout_bytes, \
	.err_bytes = (r)->stderr_bytes, .has_exit = exec_status(r) >= 0,                          \
	.exit_code = exec_status(r) >= 0 ? exec_status(r) : 0,                                    \
	.signal = (r)->signal < 128 ? (r)->signal : 0, .truncated = (r)->truncated,               \
	.oom_killed = (r)->oom_killed, .cpu_us = (r)->cpu_us,                                     \
	.mem_peak_bytes = (r)->mem_peak_bytes, .io_read_bytes = (r)->io_read_bytes,               \
	.io_write_bytes = (r)->io_write_bytes

/* What a record says, for the caller. */
void exec_result(const struct exec_record *m, struct cove_result *r);

/* Queues ATTACH on a connection; nothing is sent yet. */
int core_exec_join(struct cove_exec *x, struct core_conn *conn, const struct wire_attach *m);
/* Joins a command of the box. */
int core_exec_attach(struct cove_box *box, const struct wire_attach *m, struct cove_exec **ret,
		     struct err *e);

/* history.c: the commands of a box, running or not; the count. */
int core_exec_infos(struct cove *cove, const char *box, struct cove_exec_info **ret, struct err *e);
/* history.c: the same as cove_exec_next for a log. */
int core_log_next(struct cove_exec *x, int timeout_ms, struct cove_event *ret, struct err *e);
void core_log_free(struct log_reader *l);
