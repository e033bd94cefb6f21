/*
 * Removals that go on behind the caller's back.
 *
 * Whoever ran a one-shot box goes on as soon as nothing of it runs and its name is free. Its keeper
 * removes the rest (groups, ids, disk, directories) afterwards, but only while it holds one of
 * REMOVALS_MAX places: one byte each of the file run/.removals, locked (F_OFD_SETLK) until the
 * keeper ends, however it ends. Which place is a box's depends on its name alone. Where somebody
 * else has it, the box is removed before its caller goes on: there are never more removals behind
 * than places, and who makes boxes in a loop waits for his own. What a killed keeper left is for a
 * sweep.
 *
 * Who makes a box with a name that was used before waits for the place of that name, because its
 * groups have the same names: a named box's keeper takes its place, too, before it frees the name.
 */
#pragma once

#include <stdbool.h>

enum { REMOVALS_MAX = 64 };

/* For removal_begin, before the keeper confines itself. -errno. */
int removal_open(const char *run_dir);

/* Is there a place for this box? It is kept until fd is closed. A negative fd has none. */
bool removal_begin(int fd, const char *name);

/* Has a removal the place of that name? */
bool removal_is_behind(int run_fd, const char *name);
