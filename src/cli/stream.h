/*
 * Drives one command to its end: the user's stdin, stdout, stderr, signals and window size on one
 * side, a struct cove_exec on the other.
 */
#pragma once

#include "cove.h"

#include <stdbool.h>
#include <stdint.h>

struct stream_options {
	bool input;	 /* pass stdin */
	bool raw;	 /* stdin is a terminal that the command gets as it is */
	bool collect;	 /* keep the output in the result instead of writing it */
	bool leave;	 /* a signal or a reader that left ends the watching, not the command */
	bool one_shot;	 /* the box ends with us: leaving is always clean */
	bool out_to_err; /* stdout is for something else */
	/* Of each stream, as in collect.h: the beginning as it comes, the end when it has ended; or
	 * both in the result. 0: all of it, or in the result the first RESULT_INLINE_MAX. */
	size_t max_output;
	/* From our SIGTERM or SIGHUP to the command's SIGKILL; 0: 10 s, COVE_NO_GRACE: none. */
	uint64_t grace_ms;
};

struct stream_end {
	bool started;		   /* the command did */
	bool ended;		   /* it did; otherwise we left it */
	struct cove_result result; /* owned (cove_result_free); with out and err_out if collected */
	int left_by;		   /* the signal that made us leave, or 0 */
	bool reader_gone;	   /* our output has no reader any more */
	uint64_t out_seen, err_seen; /* bytes that passed */
};

/* box may be NULL with leave. 0, or a negative errno and a sentence. *ret is filled either way. */
int stream_drive(struct cove_box *box, struct cove_exec *exec, const struct stream_options *options,
		 struct stream_end *ret, struct cove_error *err);
