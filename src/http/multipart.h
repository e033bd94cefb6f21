/*
 * multipart/form-data (RFC 7578), sans-I/O: the content of a body in, its parts out in pieces; and
 * parts written. Nothing of a part is kept but its head, which has a maximum.
 *
 * Strict like http.h: lines end with CR LF; nothing may stand between a boundary and the end of its
 * line; a part begins with its head, and that with one Content-Disposition of form-data with one
 * name; a coding of its own (base64) is refused. What stands before the first boundary and after
 * the last is dropped. How the bytes were cut never changes the parts.
 */
#pragma once

#include "http/http.h"

enum { MULTIPART_BOUNDARY_MAX = 70 };

struct multipart_part {
	const char *name;
	const char *filename;		 /* NULL: it is no file; may be "" and may be a path */
	const char *content_type;	 /* NULL: it says none */
	const struct http_field *fields; /* read: all of its head; written: what else is in it */
	size_t field_count;
};

enum multipart_event_kind {
	MULTIPART_PART = 1, /* its head is there: ret->part, until its end */
	MULTIPART_DATA,	    /* some of its content: until the next call, or as long as p */
	MULTIPART_PART_END,
	MULTIPART_END, /* there will be no more */
};

struct multipart_event {
	const struct multipart_part *part;
	const uint8_t *data;
	size_t len; /* not 0 for MULTIPART_DATA */
};

struct multipart {
	char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF "--" boundary */
	size_t delimiter_len;
	size_t matched; /* bytes of it that were seen last */
	size_t assumed; /* of those that did not come: the CR LF of the line before */
	int state;
	unsigned count, count_max; /* of parts */
	unsigned lines;		   /* of this head */
	struct buf line;	   /* this head so far */
	struct http_head head;
	char *name, *filename; /* owned; of part */
	struct multipart_part part;
};

/* From the head of the request or response whose body it is. At most that many parts. -EBADMSG:
 * e->code is 415 where it is no form, 400 where its boundary is bad. */
int multipart_init(struct multipart *m, const struct http_head *h, unsigned parts_max,
		   struct err *e);
void multipart_done(struct multipart *m);

/* Eats *ret_used bytes of content. Returns what happened (enum multipart_event_kind), to be called
 * again with the rest; 0: more is needed; negative: refused (-EBADMSG; -ENOMEM), e->code is the
 * status to answer with (400, 413, 415, 431; 500), and it is over. */
int multipart_feed(struct multipart *m, const void *p, size_t n, size_t *ret_used,
		   struct multipart_event *ret, struct err *e);
/* The body has ended: -EBADMSG if the form had not. */
int multipart_close(const struct multipart *m, struct err *e);

/* A form is, for each part, its head, the content, its end; then its own end. Its Content-Type is
 * "multipart/form-data; boundary=" and the boundary, which is of letters, digits and "-_.+", at
 * most MULTIPART_BOUNDARY_MAX of them, and random, so that no content has it. All or nothing:
 * -EINVAL for another boundary, control bytes in a name, or fields that are written here. A
 * filename with control bytes is written twice, as RFC 8187 does, and must be UTF-8. */
int multipart_part_write(struct buf *out, const char *boundary, const struct multipart_part *part);
int multipart_part_end_write(struct buf *out);
int multipart_end_write(struct buf *out, const char *boundary);
