/* What holds a native box's processes; see hold.h. */
#include "wall/native/hold.h"

#include "base/fd.h"
#include "base/rand.h"
#include "filter/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>

/* ---- processors ---- */

void hold_choose_cpus(const cpu_set_t *have, unsigned count, unsigned random, cpu_set_t *ret)
{
	unsigned there = (unsigned)CPU_COUNT(have), skip = there ? random % there : 0, chosen = 0;

	CPU_ZERO(ret);
	/* Twice around: those that were skipped come after the last. */
	for (unsigned i = 0; i < 2 * CPU_SETSIZE && chosen < count && chosen < there; i++) {
		if (!CPU_ISSET(i % CPU_SETSIZE, have))
			continue;
		if (skip > 0) {
			skip--;
			continue;
		}
		CPU_SET(i % CPU_SETSIZE, ret);
		chosen++;
	}
}

int hold_cpus(unsigned count)
{
	cpu_set_t have, take;
	unsigned random;

	if (sched_getaffinity(0, sizeof(have), &have) < 0)
		return -errno;
	if (count == 0 || count >= (unsigned)CPU_COUNT(&have))
		return 0;
	rand_bytes(&random, sizeof(random));
	hold_choose_cpus(&have, count, random, &take);
	return sched_setaffinity(0, sizeof(take), &take) < 0 ? -errno : 0;
}

/* ---- Landlock ---- */

int hold_landlock(int abi, const int *dirs, size_t count)
{
	autoclose int set = landlock_new(abi, 0, LANDLOCK_ABSTRACT_SOCKETS | LANDLOCK_SIGNALS);
	int r = set < 0 ? set : 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = landlock_allow_all(set, abi, dirs[i]);
	return r == 0 ? landlock_enter(set) : r;
}
