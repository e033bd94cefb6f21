/*
 * The keeper confines itself; see confine.h.
 *
 * As root three capabilities stay: to end processes of other ids (KILL), and to remove what other
 * ids own, in directories that are closed or sticky (DAC_OVERRIDE, FOWNER). An ordinary user's
 * keeper has none to begin with; it deletes from within the box's user namespace, which it holds
 * open (start.c), because no_new_privs leaves it no newuidmap. Where that namespace could not be
 * opened the tree stays until the next `cove` sweeps it up.
 */
#include "keeper/confine.h"

#include "base/control.h"
#include "filter/filter.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From the kernel's headers, which musl does not bring. */
enum {
	CAP_DAC_OVERRIDE = 1,
	CAP_FOWNER = 3,
	CAP_KILL = 5,
	CAP_COUNT_MAX = 64,
	CAPABILITY_VERSION_3 = 0x20080522,
};

#define KEPT_CAPS (1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_KILL)

static int drop_caps(bool is_root)
{
	struct {
		uint32_t version;
		int pid;
	} head = {.version = CAPABILITY_VERSION_3};
	struct {
		uint32_t effective, permitted, inheritable;
	} data[2] = {0};

	/* It runs no program any more; this makes sure that none would gain anything. A process
	 * that may not drop from the set has nothing to lose in it. */
	for (int cap = 0; is_root && cap < CAP_COUNT_MAX; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (is_root) {
		if (syscall(SYS_capget, &head, data) < 0)
			return -errno;
		/* Root in a container may lack one of them. */
		data[0].permitted &= KEPT_CAPS;
		data[0].effective = data[0].permitted;
		data[0].inheritable = 0;
		memset(&data[1], 0, sizeof(data[1]));
	}
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

int confine_keeper(const struct ids *ids, struct err *e)
{
	int r = 0;

	/* Leaks are looked for by a process that traces this one. */
	if ((!FILTER_IS_SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(e, errno, "confine the keeper");
	if (!control_is_off("keeper-caps"))
		r = drop_caps(ids->kind == IDS_RANGE);
	if (r < 0)
		return err_errno(e, -r, "drop the keeper's capabilities");
	if (!control_is_off("keeper-seccomp"))
		r = filter_load(FILTER_KEEPER, NULL);
	if (r == -EINVAL || r == -ENOSYS)
		return err_set(e, ERR_UNSUPPORTED, -r,
			       "the keeper has no system-call filter: this kernel has none "
			       "(CONFIG_SECCOMP_FILTER)");
	return r < 0 ? err_errno(e, -r, "load the keeper's system-call filter") : 0;
}
