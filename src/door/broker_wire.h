/* What proxy and broker say to each other: packets on a SOCK_SEQPACKET pair, one after another. */
#pragma once

#include "base/limits.h"

#include <stdint.h>

enum broker_verb {
	BROKER_POLICY = 1, /* no payload -> text, in parts */
	BROKER_GRANTS,	   /* the same */
	BROKER_SECRET,	   /* its name -> its value */
	BROKER_RECORD,	   /* audit_row_pack -> seq */
	BROKER_USED,	   /* no payload -> text, in parts; or lines of used.h that are kept */
	BROKER_VERB_COUNT
};

/* Both ways. Payload follows. */
struct broker_head {
	uint32_t id; /* the proxy's, echoed; 0: no answer is wanted */
	uint16_t verb;
	uint8_t more;	  /* another part follows */
	uint8_t unlocked; /* the broker has held a value in memory that could not be locked */
	uint64_t seq;
	int32_t r;     /* 0, or -errno: then the payload is a sentence */
	uint32_t kind; /* enum err_kind of that */
};

enum {
	BROKER_PART = 64 << 10,
	BROKER_PACKET_MAX = sizeof(struct broker_head) +
			    (DOOR_SECRET_MAX > BROKER_PART ? DOOR_SECRET_MAX : BROKER_PART),
};

struct door_config;

/* The process itself: returns its exit status when the proxy is gone and all rows are written.
 * end_fd is a pipe whose end says that the proxy has begun to end. */
int broker_process(int fd, int end_fd, const struct door_config *config);
