/*
 * What holds a native box's processes beside its namespaces and guest/hold.h: processors and
 * Landlock. Called by the new process on itself, once nothing of the
 * host is in sight; all that it starts inherits them, and none can be undone. Each returns 0 or
 * -errno.
 */
#pragma once

#include <sched.h>
#include <stddef.h>

/* So many of the processors that it may use now, beginning at a random one, so that small boxes do
 * not all share the first. */
int hold_cpus(unsigned count);
/* The choice: count of those in have, which has more, beginning at a random number's turn. */
void hold_choose_cpus(const cpu_set_t *have, unsigned count, unsigned random, cpu_set_t *ret);

/* From here on files are only reached beneath these: "/" and what init is given. Mounts do not
 * change, and signals and abstract sockets stay among the processes that come from here. Needs
 * CAP_SYS_ADMIN. */
int hold_landlock(int abi, const int *dirs, size_t count);
