/*
 * Bytes between a box and an upstream as they are, both ways, with each side's end passed on by
 * itself. Nothing is copied on the way: from the frame to the socket, from the socket into a frame.
 */
#pragma once

#include "door/door.h"
#include "net/channel.h"

struct tunnel;

enum tunnel_end {
	TUNNEL_OK,	/* both sides ended in peace */
	TUNNEL_RESET,	/* one side had ended, and a reset said the rest: as many programs end */
	TUNNEL_FAILED,	/* one of them broke */
	TUNNEL_CUT,	/* a budget is over */
	TUNNEL_IDLE,	/* nothing happened for DOOR_IDLE_MS */
	TUNNEL_REFUSED, /* the gate did not let it pass */
	TUNNEL_HANDED,	/* the gate wants the two sides back: tunnel_release */
};

/* What a gate says to the box's next bytes; negative: they may not go. */
enum tunnel_gate {
	GATE_MORE,  /* it must see more. Never after the end, or DOOR_BUFFER_MAX */
	GATE_PASS,  /* they may go, and all that follow */
	GATE_WATCH, /* they may go; those that follow are shown as well, without these */
	GATE_HAND,  /* they stay, and the tunnel ends. Never after GATE_WATCH */
};

struct tunnel_config {
	struct door *door;
	struct channel *box, *up; /* taken; box is a channel_wire */
	/* Looks at the first bytes of the box before they leave. What the upstream says first
	 * passes meanwhile. NULL: no gate. */
	int (*gate)(void *arg, const uint8_t *p, size_t n, bool is_end);
	/* Sees what the upstream says, before the box does; false: no more of it. May be NULL. */
	bool (*watch)(void *arg, const uint8_t *p, size_t n);
	bool (*count)(void *arg, uint64_t up, uint64_t down); /* false: cut it */
	/* How many bytes may still go that way; NULL: as many as come. */
	uint64_t (*room)(void *arg, bool is_up);
	/* Once, never from within tunnel_new: free the tunnel. error is 0 or what broke. */
	void (*on_end)(void *arg, enum tunnel_end end, int error);
	void *arg;
};

/* first (n bytes, at most DOOR_BUFFER_MAX) was read from the box already. The channels are taken
 * also where it fails. */
int tunnel_new(struct tunnel **ret, const struct tunnel_config *c, const void *first, size_t n);
/* The box gave it up: whether that is TUNNEL_RESET. A program that closes and does not wait for the
 * server's goodbye ends so. */
bool tunnel_is_reset(const struct tunnel *p);
/* After TUNNEL_HANDED: both channels, and the bytes that were read and did not leave, are the
 * caller's. first is empty. */
void tunnel_release(struct tunnel *p, struct channel **ret_box, struct channel **ret_up,
		    struct buf *first);
/* Cuts what is still there. */
void tunnel_free(struct tunnel *p);
