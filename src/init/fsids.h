/*
 * Looking at files as another user for a moment: the ids that path look-ups are judged by.
 *
 * The kernel takes a change of these ids for a change of identity: it makes the process dumpable as
 * the system likes and forgets that it is to die with its parent. Leaving puts both right again, so
 * this is the only place that changes them.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* False if the ids are not mapped here; nothing has changed then. */
bool fs_ids_enter(uid_t uid, gid_t gid);

/* The same for files of /proc that only who may trace that user's processes can see. A kernel
 * without such ids asks for the right to trace, which init has behind a wall that brings one. */
bool fs_ids_enter_proc(uid_t uid, gid_t gid);

/* Back to init's own. Going on as the wrong user would be worse than ending the box: asserts. */
void fs_ids_leave(void);
