/* What the verbs of the network share: who asks, grants. */
#pragma once

#include "cli/cli.h"

enum { BY_MAX = 96 };

/* Who asks, for the audit log: the uid, and what the environment says beside it. */
const char *door_by(char ret[BY_MAX]);

/* `cove allow` and `cove deny`. */
int door_grant(struct cli *c, bool allow);

/* Says how many open connections a change has cut, if any. */
void door_say_cut(struct cli *c, uint64_t cut);

/* Prints {"name", "result", and one number} where --json is. */
int door_done(struct cli *c, const char *name, const char *result, const char *key, uint64_t n);
