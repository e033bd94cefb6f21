/* A box's policy as libcove keeps it: policy.c, door.c and network.c. */
#pragma once

#include "core/core.h"
#include "store/net.h"
#include "wire/msg.h"

/* What a caller's `net` stands for. */
struct net_choice {
	char policy[NET_NAME_MAX]; /* a preset's name, a list or "file" */
	char *text;		   /* owned; the text where it is "file" */
	size_t len;
};

/* net NULL: the default. A file is read, and checked by the door's own reader: for a box of owner,
 * which has no secrets but its own. */
int net_choose(struct cove *cove, const char *net, const char *owner, struct net_choice *ret,
	       struct err *e);
void net_choice_done(struct net_choice *c);

/* Runs cove-door: what it printed on `stream` (owned), and its exit status as child_wait has it. */
int net_run_door(struct cove *cove, char *const argv[], int input, int stream, char **ret,
		 int *ret_status, struct err *e);

/* The text of a preset, a group, or a list of one preset and groups; owned. */
int net_preset_text(struct cove *cove, const char *preset, char **ret, struct err *e);

/* What the door of a running box says of itself. The texts of status are in it. */
struct net_door {
	struct wire_door_status status;
	char policy[NET_NAME_MAX], trouble[sizeof(((struct err *)0)->msg)];
};
int net_door_status(struct cove *cove, const char *box, struct net_door *ret, struct err *e);

/* Checks "HOST[:PORT]". */
int net_check_pattern(struct cove *cove, bool allow, const char *pattern, struct err *e);

/* ---- network.c: of a box that is made or opened ---- */

/* Decides spec.net and what goes with it; once. Nothing is made before it. */
int network_choose(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
		   struct err *e);
/* Into the directory of a box just made. */
int network_write(struct cove *cove, const struct core_spec *s, int box_fd, struct err *e);
/* Before a box is started again: is its policy still good? A secret that it names may be gone. */
int network_check(struct cove *cove, const struct spec *box, int box_fd, struct err *e);
/* ERR_CONFLICT and the remedy where a box has not the network that was asked for. */
int network_agrees(struct cove *cove, const struct spec *have, const struct cove_box_options *o,
		   struct err *e);
