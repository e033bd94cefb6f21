/* A box that is frozen for one client; see state.c. */
#pragma once

#include "ev/ev.h"

#include <stdbool.h>

struct keeper;
struct keeper_client;

struct keeper_hold {
	bool on;
	bool is_over; /* it was on for too long, and its client has not heard of that yet */
	struct ev_timer end;
};

/* By a person, or for a client? */
bool keeper_is_frozen(const struct keeper *k);
/* The client has gone: the box is not frozen for it any more. */
void keeper_hold_end(struct keeper_client *c);
