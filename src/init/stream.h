/*
 * One output stream of a command on its way to the keeper: a pipe (or pty master, or FIFO) is read
 * while there is credit, and becomes DATA frames. The stream outlives its command: whatever a
 * background child still writes goes out under the same id, until the last writer closes.
 */
#pragma once

#include "ev/ev.h"
#include "init/init.h"
#include "wire/link.h"

struct init_job;

struct out_stream {
	struct init_job *job; /* whose it is; NULL: none yet */
	struct wire_link *link;
	struct ev *ev;
	struct ev_io io; /* io.fd is owned */
	struct wire_flow flow;
	uint32_t id;
	uint8_t stream;
	uint64_t bytes;	  /* sent so far */
	uint32_t chunk;	  /* size of the next read */
	uint32_t drained; /* bytes read by out_stream_drain */
	struct room_wait room;
	bool ended;
	size_t held; /* bytes read that may be the beginning of `hide` */
	/* Of a stream without a job, instead of it: its end; may free the owner. NULL: the job. */
	void (*on_end)(struct out_stream *s);
	const char *hide; /* is taken out of what is read; borrowed, may be NULL */
};

/* Takes fd, which does not block, on failure too. link is that of a struct init. The stream's end,
 * and room for one whose drain stopped, are passed to its job (init_job_on_stream). */
int out_stream_start(struct out_stream *s, struct ev *ev, struct wire_link *link, int fd,
		     uint32_t id, uint8_t stream);
void out_stream_done(struct out_stream *s); /* closes, sends nothing */
/* Ends it now although somebody may still write: EOF is queued for the next flush, its job
 * is not called. */
void out_stream_end(struct out_stream *s);
void out_stream_credit(struct out_stream *s, uint64_t bytes);
/* Reads what is there now without waiting, at most INIT_DRAIN_BYTES and never past credit: called
 * when the command ended, so that its own bytes precede EXIT. Returns true if it stopped for lack
 * of credit or room with more to read: call again when there is some. The job is not called from
 * here: look at `ended`. */
bool out_stream_drain(struct out_stream *s);
