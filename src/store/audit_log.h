/*
 * Where audit logs are and how the rows of one are read; shared by the files of the audit log.
 *
 * The first row of a segment but the first is of kind `segment`: `status` is the number of the
 * oldest segment that is kept, `about` the row before that one and `reason` its hash, if any were
 * dropped. It is durable before a segment that it drops is removed.
 */
#pragma once

#include "store/audit_row.h"

#define AUDIT_DIR      "audit"
#define AUDIT_LOGS     "boxes"
#define AUDIT_LIST     "list"
#define AUDIT_HEAD     "head"
#define AUDIT_HEAD_NEW "head.new"
#define AUDIT_MARK     "audit-log"
#define AUDIT_SEGMENT  "segment"

/* audit/, or audit/boxes/; made if asked for. -ENOENT, without an error, where there is none. */
int audit_dir_open(struct state *st, bool make, struct err *e);
int audit_logs_open(struct state *st, bool make, struct err *e);

/* "<box>.<created_ms>" -> box; false for anything else that is there. */
bool audit_box_of(const char *name, char ret[BOX_NAME_MAX + 1]);
bool audit_box_is_there(const struct state *st, const char *name);

/* Every log of a box or (NULL) of all, in no order; non-zero stops, and is returned. */
typedef int audit_on_log(void *arg, const char *name);
int audit_logs_each(int logs_fd, const char *box, audit_on_log *on_log, void *arg);
/* Their names, sorted; state_names_free. -E2BIG beyond AUDIT_LOGS_MAX. */
int audit_logs_list(int logs_fd, const char *box, char ***ret, size_t *ret_count);
/* -ENOENT where the box has no log and is not there either. */
int audit_check_known(const struct state *st, const char *box, size_t count, struct err *e);

/* Adds to the list that a log was begun (`file`), or deleted. */
int audit_list_add(struct state *st, const struct audit_row *row, struct err *e);

int audit_log_open(int logs_fd, const char *name); /* its directory, or -errno */
bool audit_log_is_written(int log_fd);		   /* a door holds its lock */

/* What was durable when the log was last synced: all rows up to this one, which ends at that byte
 * of that segment. -ENOENT without one; that and an empty one, as a log has before its first, say
 * that there were no rows. */
struct audit_head {
	struct audit_chain at;
	uint64_t segment, bytes;
};
int audit_head_read(int log_fd, struct audit_head *ret);

struct audit_segments {
	uint64_t first, last; /* 0: none */
};
int audit_segments_find(int log_fd, struct audit_segments *ret);
void audit_segment_name(uint64_t segment, char ret[24]);

/* Rows of one segment, through a small buffer. */
struct audit_reader {
	int fd; /* owned */
	struct buf in;
	uint64_t at; /* in the file, of the first byte in the buffer */
	size_t taken;
	char *line; /* the row handed out last: a copy, owned */
	size_t line_len, line_cap;
	uint64_t line_at;
};
/* Closed also after it failed. */
int audit_reader_open(struct audit_reader *r, int log_fd, uint64_t segment, uint64_t from);
void audit_reader_close(struct audit_reader *r);
/* 1 and a whole line in line, line_len and line_at (without its newline, valid until the next
 * call); 0 at the end or before one that has no end yet; -EBADMSG for one that is too long. */
int audit_reader_next(struct audit_reader *r);
/* After a 0: are there bytes that are no line? */
bool audit_reader_has_rest(const struct audit_reader *r);

/* The first row of a segment; the line is owned by the caller and what *ret points into. -EBADMSG
 * where there is none. */
int audit_segment_first(int log_fd, uint64_t segment, struct audit_line *ret, char **ret_line);
/* What the log says of rows that were dropped: the oldest segment that is kept, and the place in
 * the chain that it follows. No rows and segment 1 if none were. -EBADMSG where it does not say. */
int audit_dropped(int log_fd, const char *name, const struct audit_segments *segments,
		  struct audit_chain *ret_at, uint64_t *ret_first);

bool audit_row_passes(const struct audit_filter *f, const struct audit_row *row);
