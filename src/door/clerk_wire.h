/* What front and clerk say to each other: packets on a SOCK_SEQPACKET pair, one after another. */
#pragma once

#include "base/limits.h"

#include <stdint.h>

enum clerk_verb {
	CLERK_POLICY = 1, /* no payload -> text, in parts */
	CLERK_GRANTS,	  /* the same */
	CLERK_SECRET,	  /* its name -> its value */
	CLERK_RECORD,	  /* audit_row_pack -> seq */
	CLERK_USED,	  /* no payload -> text, in parts; or lines of used.h that are kept */
	CLERK_VERB_COUNT
};

/* Both ways. Payload follows. */
struct clerk_head {
	uint32_t id; /* the front's, echoed; 0: nobody waits */
	uint16_t verb;
	uint8_t more;	  /* another part follows */
	uint8_t unlocked; /* the clerk has held a value in memory that could not be locked */
	uint64_t seq;
	int32_t r;     /* 0, or -errno: then the payload is a sentence */
	uint32_t kind; /* enum err_kind of that */
};

enum {
	CLERK_PART = 64 << 10,
	CLERK_PACKET_MAX = sizeof(struct clerk_head) +
			   (DOOR_SECRET_MAX > CLERK_PART ? DOOR_SECRET_MAX : CLERK_PART),
};

struct door_config;

/* The process itself: returns its exit status when the front is gone and all rows are written. */
int clerk_process(int fd, const struct door_config *config);
