/*
 * One output stream of a command on its way to the keeper: a pipe (or pty master, or FIFO) is read
 * while there is credit, and becomes DATA frames. The stream outlives its command: whatever a
 * background child still writes goes out under the same id, until the last writer closes.
 */
#pragma once

#include "ev/ev.h"
#include "init/init.h"
#include "wire/link.h"

struct out_stream {
	void (*on_end)(struct out_stream *s); /* EOF was read and sent; may be NULL */
	/* Drain stopped because the link's queue is long and may be called again now; may be NULL,
	 * then drain fills the queue further. */
	void (*on_room)(struct out_stream *s);
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
	size_t held;	  /* bytes read that may be the beginning of `hide` */
	const char *hide; /* is taken out of what is read; borrowed, may be NULL */
};

/* Takes fd (made non-blocking), on failure too. link is that of a struct init. Set the callbacks
 * first. */
int out_stream_start(struct out_stream *s, struct ev *ev, struct wire_link *link, int fd,
		     uint32_t id, uint8_t stream);
void out_stream_done(struct out_stream *s); /* closes, sends nothing */
/* Ends it now although somebody may still write: EOF is sent, on_end is not called. */
void out_stream_end(struct out_stream *s);
void out_stream_credit(struct out_stream *s, uint64_t bytes);
/* Reads what is there now without waiting, at most INIT_DRAIN_BYTES and never past credit: called
 * when the command ended, so that its own bytes precede EXIT. Returns true if it stopped for lack
 * of credit with more to read: call again after the next credit, and from on_room. on_end is not
 * called from here: look at `ended`. */
bool out_stream_drain(struct out_stream *s);
