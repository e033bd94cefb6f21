/*
 * The keeper confines itself once its box is up: no capability that it does not use, no new
 * privileges, not dumpable, and a system-call allowlist of its own (src/filter/keeper.syscalls).
 * What it still has to do after that is known: serve its socket, write its logs, read its cgroups,
 * end its box and delete the box's tree.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

/* ids: how the tree will be deleted. Fails only where the kernel has no seccomp: the note is then
 * in *e and the keeper goes on. */
int confine_keeper(const struct ids *ids, struct err *e);
