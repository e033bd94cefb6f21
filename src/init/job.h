/*
 * A job: what one EXEC asked for. It is a process of its own (exec.c) or a line in a persistent
 * shell (shell.c); both have this one life, and job.c alone writes its state and answers for it.
 *
 *	asked -> queued -> starting -> running ----------------> ended -> late -> gone
 *	     \_________\_______/  ^       | \-> stopping ------->/
 *	                          \_______/      (and back to running)
 *
 * asked	the request was read. A refusal here, or while it starts, is ERROR and its end.
 * queued	its shell is busy: QUEUED was sent, and its timeout runs.
 * starting	a process for it was forked and has yet to say whether it runs (spawn.h).
 * running	STARTED is on its way. It is flushed with the first output or the end, or LAZY_MS
 *		later, and so is the end of a stream: most commands are so short that one write
 *		says all. A line in whose shell nothing ran starts once more.
 * stopping	its time is up, or a signal is to end it: the kind ends its tree.
 * ended	the answer is known. After a kill for lack of memory it waits until the memory is
 *		back; then what the streams hold is drained, as credit and the link allow, so that
 *		it comes before EXIT.
 * late		EXIT was sent. What is left is tidied after that was written. A child in the
 *		background may still hold a stream: its bytes go on under the job's id until it
 *		closes. Such a job takes no place from others: beyond late_max of its kind the
 *		oldest is let go.
 *
 * Nothing here waits in place: a job is moved on by frames, pipes, the reaper and timers.
 */
#pragma once

#include "base/err.h"
#include "ev/ev.h"
#include "init/init.h"
#include "init/input.h"
#include "init/stream.h"
#include "init/usage.h"
#include "wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

enum job_state {
	JOB_ASKED,
	JOB_QUEUED,
	JOB_STARTING,
	JOB_RUNNING,
	JOB_STOPPING,
	JOB_ENDED,
	JOB_LATE,
};

enum { JOB_EXEC, JOB_LINE, JOB_KINDS, JOB_BUCKETS = 64 };

struct init_job;

struct init_job_kind {
	int number; /* JOB_EXEC or JOB_LINE */
	/* A signal for it, or with `tree` the end of its whole tree; also when its time is up
	 * (result.timed_out). Called in every state but JOB_ASKED. */
	void (*stop)(struct init_job *j, int sig, bool tree);
	/* The answer is on its way or waits for credit only; may be NULL. */
	void (*on_ended)(struct init_job *j);
	void (*tidy)(struct init_job *j); /* after EXIT was written; may be NULL */
	/* Lets go of all the kind has, and of the job itself. The streams are closed here. */
	void (*free)(struct init_job *j);
};

struct init_job {
	const struct init_job_kind *kind;
	struct init *in;
	struct init_job *bucket_next, *newer, *older, *untidy_next;
	uint32_t id;
	enum job_state state;	   /* written by job.c */
	struct out_stream *out[2]; /* the kind's; NULL: there is none, or not yet */
	struct in_stream input;	   /* held until the kind adopts a descriptor, if has_input */
	struct ev_timer timer;	   /* the timeout; once ended, the wait for memory */
	struct ev_timer flush;	   /* of what need not be written at once */
	uint64_t timeout_ms;	   /* 0: none */
	uint64_t grace_ms;	   /* after that, from SIGTERM to SIGKILL; 0: at once */
	uint64_t started_ms;	   /* when it ceased to wait */
	unsigned memory_rounds;	   /* waits for memory that are left */
	bool has_input, pty;
	int pty_fd;	    /* of a terminal, until its stream ended; borrowed */
	bool waited, begun; /* QUEUED, STARTED is on its way */
	bool busy; /* the kind has something to do for it even after EXIT: it is not freed */
	bool draining, tidying, late; /* late: counted so */
	struct usage used;
	struct exec_record
		result; /* exit or signal, timed_out, shell_state and cause are the kind's */
	char *cwd;	/* for the answer; owned */
};

struct init_job_table {
	struct init_job *buckets[JOB_BUCKETS];
	struct init_job *oldest, *newest;
	unsigned count[JOB_KINDS], late[JOB_KINDS];
	uint32_t last_id; /* the highest there was */
	struct init_job *untidy;
	struct ev_defer tidy;
};

struct init_job *init_job_find(const struct init *in, uint32_t id);
/* Jobs of a kind that are not over but for a held stream. */
unsigned init_job_count(const struct init *in, int kind);
/* The new job is JOB_ASKED. kind, in, id, timeout_ms, grace_ms, has_input and pty are set
 * already. */
void init_job_add(struct init_job *j);

/* The steps of its life; which may follow which is a table in job.c. */
void init_job_queue(struct init_job *j);
void init_job_start(struct init_job *j);
void init_job_run(struct init_job *j, pid_t pid);
void init_job_stop(struct init_job *j);
void init_job_resume(struct init_job *j); /* it was not stopped after all */
void init_job_end(struct init_job *j, const char *cause);
/* ERROR instead: nothing of it ran. Frees it. */
void init_job_refuse(struct init_job *j, const struct err *e);
/* The kind is done with it, after busy. May free it. */
void init_job_release(struct init_job *j);

/* From stream.c: its end was read, or one whose drain stopped for lack of room may go on. */
void init_job_on_stream(struct out_stream *s);

/* DATA, EOF, CREDIT, SIGNAL, RESIZE, CANCEL. False if the id is no job. */
bool init_job_frame(struct init *in, const struct wire_frame *f);
