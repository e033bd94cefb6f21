/*
 * What holds a box's processes beside its namespaces: rlimits, processors, Landlock, the
 * system-call filter and capabilities. Called by the new process on itself, once nothing of the
 * host is in sight; all that it starts inherits them, and none can be undone. Each returns 0 or
 * -errno.
 */
#pragma once

#include "wall/wall.h"

#include <sched.h>
#include <stdint.h>

/* Only ever lowered: not every root may raise a hard limit. That of core files is set by the wall's
 * own process (base/coredump.h), which may. half: of what is counted for the caller too, at most
 * half of what he has. */
int hold_rlimits(const struct wall_limits *limits, bool half);

/* So many of the processors that it may use now, beginning at a random one, so that small boxes do
 * not all share the first. */
int hold_cpus(unsigned count);
/* The choice: count of those in have, which has more, beginning at a random number's turn. */
void hold_choose_cpus(const cpu_set_t *have, unsigned count, unsigned random, cpu_set_t *ret);

/* From here on files are only reached beneath "/" and beneath what init is given, mounts do not
 * change, and signals and abstract sockets stay among the processes that come from here. Needs
 * CAP_SYS_ADMIN. */
int hold_landlock(int abi, const int *dirs, size_t count);

/* Leaves init its few capabilities. Programs that root runs get no more than those, and with strict
 * none; then setuid programs give nothing either. */
int hold_caps(bool strict);

/* The names of what in-box root may do, with blanks between. */
const char *hold_caps_text(bool strict);
