/* Looking at files as another user; see fsids.h. */
#include "init/fsids.h"

#include "base/err.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The raw calls: libc's would reach for other threads, and there are none. */
static bool set_ids(uid_t uid, gid_t gid)
{
	syscall(SYS_setfsgid, gid);
	syscall(SYS_setfsuid, uid);
	return (uid_t)syscall(SYS_setfsuid, -1) == uid && (gid_t)syscall(SYS_setfsgid, -1) == gid;
}

bool fs_ids_enter(uid_t uid, gid_t gid)
{
	if (set_ids(uid, gid)) {
		/* A change of ids sets the kernel's default, which the host may have changed. */
		ASSERT(prctl(PR_SET_DUMPABLE, 0) == 0);
		return true;
	}
	fs_ids_leave();
	return false;
}

void fs_ids_leave(void)
{
	ASSERT(set_ids(geteuid(), getegid()));
	ASSERT(prctl(PR_SET_DUMPABLE, 0) == 0);
	/* As PID 1 of a box init lives no longer than its keeper. */
	if (getpid() == 1)
		ASSERT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
}
