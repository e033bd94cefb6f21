/*
 * HELLO: which versions of the wire both sides speak, and which features both have.
 *
 * Each side says the lowest and the highest version it speaks, and the names of its features. The
 * version of a link is the highest that both speak; without one the link ends, with a sentence that
 * names both ranges. A feature is in use if both named it; unknown names are skipped.
 *
 *	version 1   HELLO has one number, and a frame of an unknown type ends the connection
 *	version 2   HELLO has a range; an unknown type is answered, see below
 *
 * The client's link: the keeper says HELLO first thing, the client before its first request. A
 * client that says none is of version 1 and without features.
 *
 * The init link: init says HELLO once it can work, the keeper answers with its own, together with
 * its first request. Either may say it again, which means that a box was restored from a
 * checkpoint and has a new keeper: the keeper says HELLO first, init answers every HELLO of the
 * keeper's but the first one, and from then on the new version and features hold. Requests are not
 * carried over: ids start anew.
 *
 * A frame of a type that is not known is answered with ERROR(id), ERR_UNSUPPORTED, and the link
 * goes on; with id 0, which is no request, it is dropped. What the keeper hears from init or the
 * door it drops and counts, and a client drops what it hears, since an ERROR from them would mean
 * something else there. So before a new
 * kind of request is sent to version 1, its feature is looked at.
 */
#pragma once

#include "base/err.h"
#include "wire/msg.h"

enum wire_feature {
	WIRE_FEATURE_TOKEN = 1 << 0,  /* "token": EXEC's token is kept */
	WIRE_FEATURE_EVENTS = 1 << 1, /* "events": SUBSCRIBE */
	WIRE_FEATURE_COPY = 1 << 2,   /* "copy": ~ in paths; hard links and holes in a put */
	WIRE_FEATURE_SHELLS = 1 << 3, /* "shells": EXEC's login, SHELL */
	WIRE_FEATURE_MERGE = 1 << 4,  /* "merge": EXEC's merge */
	WIRE_FEATURE_TIMES = 1 << 5,  /* "times": TIMES */
	WIRE_FEATURE_TOOLS = 1 << 6,  /* "tools": FILE_READ and those after it */
	WIRE_FEATURE_RANGES = 1 << 7, /* "ranges": a part of a file in a get */
};

/* What both sides of a link speak. All zero: the other one did not say HELLO yet. */
struct wire_peer {
	uint32_t version;
	uint32_t features; /* enum wire_feature */
};

/* Our own range and features; the rest is empty. */
struct wire_hello wire_hello_ours(void);
/* ERR_UNSUPPORTED if there is no common version. who says it: "the box's keeper"; remedy: what to
 * do about it. */
int wire_hello_agree(const struct wire_hello *theirs, const char *who, const char *remedy,
		     struct wire_peer *ret, struct err *e);

static inline bool wire_type_is_known(enum wire_type type)
{
	return type < WIRE_TYPE_COUNT;
}
/* Appends the answer to a frame of an unknown type, if it has one. */
int wire_unknown_encode(struct buf *out, const struct wire_frame *f);
