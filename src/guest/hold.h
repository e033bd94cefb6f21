/*
 * What holds a box's processes on every wall: rlimits and capabilities. Called by a process on
 * itself before it is init, or by init before it starts anything; all that it starts inherits them,
 * and none can be undone. Each returns 0 or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Only ever lowered: not every root may raise a hard limit. That of core files is set by the wall's
 * own process (base/coredump.h), which may. files: RLIMIT_NOFILE, 0 for the usual. half: of what is
 * counted for the caller too, at most half of what he has. */
int guest_hold_rlimits(uint64_t files, bool half);

/* Leaves init its few capabilities. Programs that root runs get no more than those, and with strict
 * none; then setuid programs give nothing either. */
int guest_hold_caps(bool strict);

/* The same for init behind a kernel of its own, whose engine has bounded what programs can gain:
 * init alone may also look at other users' processes there. */
int guest_hold_engine_caps(bool strict);

/* The names of what in-box root may do, with blanks between. */
const char *guest_hold_caps_text(bool strict);
