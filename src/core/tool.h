/*
 * File operations whose answer is a stream of frames (wire/msg_tool.h): what tool*.c share. Nothing
 * of it is believed: each frame is checked by whom it is handed to.
 */
#pragma once

#include "core/transfer.h"

struct core_tool {
	struct transfer t;
	struct wire_decoder decoder;
	struct ev_io cancel;
	bool begun, cancelled;
	/* A frame of the answer, borrowed for the call. 1: no more is wanted. */
	int (*on_frame)(void *arg, const struct wire_frame *f, struct err *e);
	void *arg;
};

/* The request and its whole answer. 1 if on_frame wanted no more. cancel_fd: above 0,
 * when it can be read, ERR_INTERRUPTED and `cancelled`. begun: the request was sent. Set on_frame
 * and arg first. */
int core_tool_run(struct core_tool *tool, struct cove_box *box, const struct wire_file *m,
		  int cancel_fd, struct err *e);
int core_tool_unexpected(const struct wire_frame *f, struct err *e);

/* A path as the box gives it: below, or "" for NULL. -EPROTO if it is neither. */
int core_tool_path(const char *path, const char **ret, struct err *e);
