/* What door.c and door_control.c share; see door.h. */
#pragma once

#include "keeper/door.h"

enum { DOOR_BUCKETS = 256 };

enum door_state { DOOR_OFF, DOOR_STARTING, DOOR_UP, DOOR_STATE_COUNT };

/* A NAME or CONNECT of init's. */
struct door_stream {
	struct door_stream *next; /* of its bucket */
	uint32_t id;
	bool is_name;
	bool answered;		   /* CONNECT: the door said OK */
	bool up_ended, down_ended; /* EOF passed */
	struct wire_flow up, down; /* what init, and what the door, may still send */
};

/* A control request of a client (DOOR) that the door has not answered yet. */
struct door_request {
	struct door_request *next;
	struct client *client;
	uint32_t id, door_id;
};

struct door_side {
	struct keeper *k;
	const char *policy; /* borrowed */
	int launcher_fd;    /* owned; -1 when it is gone */
	struct ev_io launcher;
	struct cgroup_meter meter; /* what all doors used */
	enum door_state state;
	struct wire_link link;
	bool linked;
	struct buf waiting; /* frames for a door that is not up yet */
	struct door_stream *streams[DOOR_BUCKETS];
	unsigned conn_count, name_count;
	struct door_request *requests;
	uint32_t next_request;
	uint64_t up_bytes, down_bytes; /* of all doors so far */
	struct ev_timer timer; /* starting: for HELLO; up, and init held back: for its reading */
	size_t stall_mark;     /* its queue when last looked at */
	bool holds_init, waits_init;
	uint32_t start_number; /* of the last start; 0: there was none */
	uint64_t retry_ms;     /* ev_now: no new start before */
	struct err failure;    /* of the last start */
	uint32_t told;	       /* the start whose end the record has already */
	char why[80];	       /* why we ended it, for the journal */
	bool has_rows;	       /* a door may have audit rows that are not written yet */
	bool is_ending;
	void (*on_over)(struct keeper *k); /* NULL: nothing is waited for */
};

/* door.c */
int door_ensure(struct door_side *d, struct err *e); /* starts a door unless there is one */
size_t door_queued(const struct door_side *d);
void door_send(struct door_side *d, enum wire_type type, uint8_t stream, uint32_t id,
	       const struct wire_frame *f);
void door_kill(struct door_side *d, const char *why); /* the keeper's own decision */

/* door_control.c */
void door_on_reply(struct door_side *d, const struct wire_frame *f); /* to a control request */
void door_requests_end(struct door_side *d, const struct err *e);
