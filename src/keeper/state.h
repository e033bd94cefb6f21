/* What a client asks of the box as a whole; a part of keeper.h. state.c says how. */
#pragma once

#include "wire/msg.h"

struct keeper;
struct keeper_client;

void keeper_on_status(struct keeper_client *c, const struct wire_frame *f);
void keeper_on_stats(struct keeper_client *c, const struct wire_frame *f);
void keeper_on_pause(struct keeper_client *c, const struct wire_frame *f);
void keeper_on_times(struct keeper_client *c, const struct wire_frame *f);
void keeper_on_stop(struct keeper_client *c, const struct wire_frame *f);

/* What is known of its use now. */
void keeper_stats_read(struct keeper *k, struct wire_stats *ret);
/* Freezes the box as its time is over, until a request or a person wakes it; cause: "ttl", "idle",
 * static. One that is paused stays as it is. */
int keeper_sleep(struct keeper *k, const char *cause, struct err *e);
/* Is the box paused, after one that is asleep was woken? Answers the request if it is. */
bool keeper_client_is_paused(struct keeper_client *c, uint32_t id);
