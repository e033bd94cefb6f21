/*
 * Frames: the one byte stream between a box's init and its keeper, and between a keeper and its
 * clients. Sans-I/O: bytes in, frames out.
 *
 *	 0       4      5        6      8       12
 *	+-------+------+--------+------+-------+----------- - -
 *	| len   | type | stream | zero | id    | payload
 *	+-------+------+--------+------+-------+----------- - -
 *
 * Little endian. len counts the payload only: at most WIRE_DATA_MAX for WIRE_DATA, WIRE_CONTROL_MAX
 * for the rest. id names the request the frame belongs to; whoever starts a request chooses it and
 * does not use it again while the request lives. A frame that breaks a rule ends the connection:
 * the decoder stays in error and yields nothing more. How the bytes were cut never changes what
 * comes out. A type from WIRE_TYPE_COUNT on is not broken but newer: it comes out as it is, and
 * whoever gets it answers ERROR(id) with ERR_UNSUPPORTED, or drops it (hello.h).
 */
#pragma once

#include "base/buf.h"

#include <stdint.h>

enum { WIRE_HEADER = 12 };

enum wire_type {
	WIRE_HELLO = 1, /* both ways, first: struct wire_hello; hello.h */
	WIRE_ERROR,	/* the request failed, nothing more comes for it: struct wire_error */
	WIRE_OK,	/* the request is done and had nothing to say */
	WIRE_CANCEL,	/* the asker lost interest; a running command goes on, a transfer ends */

	WIRE_DATA,   /* bytes of one stream of a request */
	WIRE_EOF,    /* no more bytes on this stream */
	WIRE_CREDIT, /* the receiver took that many bytes more: struct wire_credit */

	WIRE_EXEC,    /* start a command or a shell line: struct wire_exec */
	WIRE_STARTED, /* it runs: struct wire_started */
	WIRE_EXIT,    /* it ended: struct exec_record */
	WIRE_SIGNAL,  /* struct wire_signal */
	WIRE_RESIZE,  /* struct wire_resize */

	WIRE_FILE,  /* a file operation: struct wire_file */
	WIRE_ENTRY, /* one file of a put, get, list or stat: struct wire_entry */

	/* The way out, from init through the keeper to the door; and the way in. */
	WIRE_NAME,    /* may this name be used, and is there one: struct wire_name */
	WIRE_CONNECT, /* a connection that something in the box made: struct wire_connect */
	WIRE_PORT,    /* from a client, to a port in the box: struct wire_port */

	/* Between a client and the keeper only. */
	WIRE_ATTACH, /* follow a command's output from an offset: struct wire_attach */
	WIRE_EXECS,  /* list commands: no payload; answered by WIRE_INFO frames, then WIRE_OK */
	WIRE_INFO,   /* one command: struct exec_record */
	WIRE_STATUS, /* is the box up; answered by struct wire_status */
	WIRE_STOP,  /* end the box: struct wire_stop; answered by WIRE_OK, then the socket closes */
	WIRE_PAUSE, /* freeze or thaw the box: struct wire_pause; answered by WIRE_OK; init too */
	WIRE_STATS, /* what it uses now: no payload; answered by struct wire_stats */
	WIRE_DOOR,  /* to the door: struct wire_door; answered by WIRE_SAY frames, then WIRE_OK */
	WIRE_SAY,   /* struct wire_say, wire_cut, wire_ask or wire_door_status */

	WIRE_QUEUED, /* a line waits for its shell: struct wire_queued */

	/* Between a client and the keeper, if both have the feature. */
	WIRE_SUBSCRIBE, /* the box's events: struct wire_subscribe; answered by WIRE_EVENT frames */
	WIRE_EVENT,	/* struct wire_event */

	WIRE_DENIED, /* door to keeper, id 0, no answer: struct wire_denied */

	/* From a client through the keeper to init, if both have the feature: the box's shells.
	 * Answered by WIRE_SHELL frames, then WIRE_OK: struct wire_shell both ways. */
	WIRE_SHELL,

	/* From init: what something in the box asks of it (cove-ctl): struct wire_ctl; answered by
	 * WIRE_CTL with the same id: struct wire_ctl_answer. */
	WIRE_CTL,

	/* From a client to the keeper, if both have the feature: how long the box may run from now
	 * on: struct wire_times; answered by WIRE_OK. */
	WIRE_TIMES,
	/* Never frames of a link: these, DATA and ENTRY, are what the bytes of a file operation
	 * are that reads, searches or watches; msg_tool.h. */
	WIRE_MATCH,   /* struct wire_match */
	WIRE_CHANGE,  /* struct wire_change */
	WIRE_SUMMARY, /* struct wire_summary */
	WIRE_TYPE_COUNT
};

/* Streams of a command. A transfer or a connection uses WIRE_STDIN towards the box, WIRE_STDOUT
 * from it. */
enum wire_stream { WIRE_STDIN = 0, WIRE_STDOUT = 1, WIRE_STDERR = 2, WIRE_STREAM_COUNT };

struct wire_frame {
	enum wire_type type; /* may be one that is not in the list above */
	uint8_t stream;
	uint32_t id;
	const uint8_t *payload; /* borrowed from the decoder until its next call */
	uint32_t len;
};

struct wire_decoder {
	struct buf in;
	size_t taken; /* bytes of the frame handed out last, dropped at the next call */
	bool hungry;  /* the last read filled all the space it was offered */
	int error;    /* 0, or the negative errno that ended it */
};

void wire_decoder_init(struct wire_decoder *d);
void wire_decoder_done(struct wire_decoder *d);

/* Where the next bytes go, and how many fit; then how many came. Room for at least one header is
 * always offered. NULL without memory or after an error. */
uint8_t *wire_decoder_space(struct wire_decoder *d, size_t *ret_room);
void wire_decoder_fill(struct wire_decoder *d, size_t n);

/* Gives memory back if nothing but the frame handed out last is in it, which ends with this. */
void wire_decoder_trim(struct wire_decoder *d);

/* 1 and a frame, 0 if more bytes are needed, -EBADMSG (for ever) on a broken rule. */
int wire_decoder_next(struct wire_decoder *d, struct wire_frame *ret);

/* No whole frame is behind the one handed out last: the next call may give its memory back. */
bool wire_decoder_is_last(const struct wire_decoder *d);

/* Appends one frame. -EMSGSIZE if the payload is over its maximum, -ENOBUFS if the buffer is full;
 * the buffer is then as before. */
int wire_encode(struct buf *out, enum wire_type type, uint8_t stream, uint32_t id, const void *p,
		size_t n);

/* In place: wire_encode_begin leaves room for a header and returns its offset from the start of the
 * buffer's content; append the payload; wire_encode_end fills the header in, or takes it all back
 * and returns -EMSGSIZE. */
int wire_encode_begin(struct buf *out, size_t *ret_at);
int wire_encode_end(struct buf *out, size_t at, enum wire_type type, uint8_t stream, uint32_t id);
