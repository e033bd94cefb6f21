/*
 * What one box may take of what the kernel counts for its caller.
 *
 * As root a box's user namespace belongs to an id of its own (native.c). An ordinary user's belongs
 * to him: what the kernel counts per user is counted for each id inside, then for him, so a box
 * could take all that he has. The maxima that a user namespace can be given hold for each of its
 * ids, and root inside has 65,536 of them; for all together they hold one level up. So a box with
 * many ids ends up in a second user namespace, with the same ids, within the one that everything
 * was built in: its one owner there is charged for the whole box, and has a part of what the caller
 * has. The box's mounts and network belong to the outer one, in which no process inside has a say.
 *
 * Rlimits (pending signals and timers, message queues, locked memory) work the same way: what the
 * process that makes a user namespace has is what all inside have together.
 */
#pragma once

#include <stddef.h>

/* A box's part of a maximum that the host has in a file below /proc/sys, as text: a quarter, at
 * least 1. "" where the file cannot be read: this kernel counts no such thing. */
enum { NEST_TEXT = 24 };
void nest_share(const char *path, char *ret);

/* The caller, PID 1, moves into the inner user namespace, in which none is made again.
 * self and sys are its directory in /proc and /proc/sys. 0 or -errno. */
int nest_enter(int self, int sys);
