/*
 * The keeper's side of the door. The keeper is confined and can start nothing, so before that it
 * forks the launcher: a process that waits on a socketpair and, when asked, starts cove-door with
 * a new link. The door is started when the box first asks for a name or a connection: a box that
 * never does has no door, and pays nothing for it. If a door ends, its connections end with it
 * (CANCEL to init) and the next request starts another; one that cannot be started is an ERROR for
 * the request, and nothing passes.
 *
 * What passes is the relay's (relay.h). The side that is ahead is held back (KEEPER_DOOR_QUEUE),
 * and a door that takes nothing for KEEPER_STALL_MS is ended. The launcher is launcher.h.
 */
#pragma once

#include "base/err.h"
#include "keeper/keeper.h"
#include "keeper/launcher.h"

#include <stdbool.h>

struct keeper_door;

/* Forks the launcher, and sets k->door. Before confine_keeper. The policy's name is borrowed for as
 * long as it lives. */
int keeper_door_new(struct keeper_door **ret, struct keeper *k, const struct launcher_config *c,
		    struct err *e);
/* Ends door and launcher. The door writes its last audit rows first: on_over comes when the log has
 * them all, or after KEEPER_DOOR_END_MS. True where there is nothing to wait for; then, and for a
 * second call, it does not come. Nothing passes any more. */
bool keeper_door_end(struct keeper_door *d, void (*on_over)(struct keeper *k));
/* Ends both, and waits for neither. */
void keeper_door_free(struct keeper_door *d);

/* For the relay: starts a door unless there is one; sends it a frame under this id; passes a frame
 * of its own to init; ends it, since it did wrong. */
int keeper_door_ensure(struct keeper_door *d, struct err *e);
void keeper_door_send(struct keeper_door *d, const struct wire_frame *f, uint32_t id);
void keeper_door_pass_to_init(struct keeper_door *d, const struct wire_frame *f);
void keeper_door_kill(struct keeper_door *d, const char *why);
/* Init took all that was queued for it. */
void keeper_door_init_drained(struct keeper_door *d);
/* DOOR of a client. Without a running door: a bare `reload`, `asks` and `status` are answered here;
 * `once`, and a `reload` that says what changed, start one, which records it. */
void keeper_door_from_client(struct keeper_door *d, struct keeper_client *c,
			     const struct wire_frame *f);
bool keeper_door_is_running(const struct keeper_door *d);
void keeper_door_stats(const struct keeper_door *d, struct wire_stats *m);
