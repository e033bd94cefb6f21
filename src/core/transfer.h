/*
 * A file operation under way: one request on one connection. put.c and get.c move data with it,
 * files.c asks the small questions.
 */
#pragma once

#include "core/carry.h"
#include "core/core.h"
#include "wire/link.h"
#include "wire/msg.h"

#include <sys/types.h>

struct transfer {
	struct cove_box *box;
	struct core_conn *conn; /* borrowed from the box */
	struct core_call call;
	struct wire_flow flow; /* of the one stream that flows */
	struct cove_copy how;
	uint64_t bytes, files;
	unsigned left_out; /* entries that are no file, directory or link */
};

/* how may be NULL. */
int transfer_init(struct transfer *t, const struct cove_copy *how, struct err *e);
/* Sends the request, with what was queued after it; transfer_end gives the connection back, and
 * gives the request up if r, what became of it, is negative. Returns r. */
int transfer_begin(struct transfer *t, struct cove_box *box, const struct wire_file *m,
		   struct err *e);
int transfer_end(struct transfer *t, int r);

/* tool.c: does the box know this of files (WIRE_FEATURE_TOOLS, WIRE_FEATURE_RANGES)? */
int core_file_check(struct core_conn *conn, uint32_t feature, struct err *e);

/* The next frame, whatever it takes unless the caller gives up. ERROR is the return value. */
int transfer_next(struct transfer *t, struct wire_frame *ret, struct err *e);

/* n bytes of the box's were taken: counts them and lets it go on. */
int transfer_took(struct transfer *t, size_t n, struct err *e);
/* Tells the caller how far it is; an error if the caller gives up. While nothing moves that is to
 * be done every TRANSFER_REPORT_MS. */
enum { TRANSFER_REPORT_MS = 250 };
int transfer_report(struct transfer *t, struct err *e);
int transfer_given_up(struct err *e);

/* Stat as how (may be NULL) says, following a final link: 1 and the type, 0 if there is nothing
 * there. */
int files_probe(struct cove_box *box, const char *path, const struct cove_copy *how, char *ret_type,
		struct err *e);
