/* Capabilities; see caps.h. */
#include "base/caps.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	VERSION_3 = 0x20080522,
	COUNT_MAX = 64,
	LAST_EVERYWHERE = 37, /* kernels that can run boxes have more than this */
};

struct cap_head {
	uint32_t version;
	int pid;
};

struct cap_data {
	uint32_t effective, permitted, inheritable;
};

int caps_lower(uint32_t caps)
{
	struct cap_head head = {.version = VERSION_3};
	struct cap_data data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	data[0].effective &= ~caps;
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

int caps_raise(void)
{
	struct cap_head head = {.version = VERSION_3};
	struct cap_data data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	data[0].effective = data[0].permitted;
	data[1].effective = data[1].permitted;
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

int caps_keep(uint32_t keep, uint32_t inherit, uint32_t *ret_left)
{
	struct cap_head head = {.version = VERSION_3};
	struct cap_data data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	data[0].permitted &= keep;
	data[0].effective = data[0].permitted;
	data[0].inheritable = data[0].permitted & inherit;
	memset(&data[1], 0, sizeof(data[1]));
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, data) < 0)
		return -errno;
	if (ret_left)
		*ret_left = data[0].permitted;
	return 0;
}

int caps_lock(void)
{
	/* <linux/securebits.h>, each with the bit that locks it: root's programs get nothing for
	 * being root's, none becomes ambient; a change of ids takes away what it always does. */
	enum {
		NOROOT = 3 << 0,
		SETUID_FIXUP_LOCKED = 1 << 3,
		KEEP_CAPS_LOCKED = 1 << 5,
		NO_AMBIENT_RAISE = 3 << 6,
	};

	return prctl(PR_SET_SECUREBITS,
		     NOROOT | SETUID_FIXUP_LOCKED | KEEP_CAPS_LOCKED | NO_AMBIENT_RAISE, 0, 0,
		     0) < 0
		       ? -errno
		       : 0;
}

int caps_bound(uint32_t keep)
{
	for (int cap = 0; cap < COUNT_MAX; cap++) {
		if (cap < 32 && (keep >> cap & 1))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL && cap > LAST_EVERYWHERE)
			break;
		return -errno;
	}
	return 0;
}
