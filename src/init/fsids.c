/* Looking at files as another user; see fsids.h. */
#include "init/fsids.h"

#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A kernel without these calls (gVisor) judges look-ups by the effective ids. The real and saved
 * ones stay init's own: it comes back by them, with its capabilities, and they say who may signal
 * it.
 */
static bool set_effective(uid_t uid, gid_t gid)
{
	uid_t real, now, saved;
	gid_t group;

	/* Whoever is not root could not change the group. */
	if (syscall(SYS_getresuid, &real, &now, &saved) < 0 ||
	    (now != saved && syscall(SYS_setresuid, -1, saved, -1) < 0) ||
	    syscall(SYS_setresgid, -1, gid, -1) < 0 ||
	    (uid != saved && syscall(SYS_setresuid, -1, uid, -1) < 0))
		return false;
	group = (gid_t)syscall(SYS_getegid);
	return (uid_t)syscall(SYS_geteuid) == uid && group == gid;
}

/* The raw calls: libc's would reach for other threads, and there are none. */
static bool set_ids(uid_t uid, gid_t gid)
{
	if (syscall(SYS_setfsgid, gid) < 0 && errno == ENOSYS)
		return set_effective(uid, gid);
	syscall(SYS_setfsuid, uid);
	return (uid_t)syscall(SYS_setfsuid, -1) == uid && (gid_t)syscall(SYS_setfsgid, -1) == gid;
}

/* Init's own: the saved ones, whichever of the two ways is gone. */
static bool set_own_ids(void)
{
	uid_t uid[3];
	gid_t gid[3];

	return syscall(SYS_getresuid, &uid[0], &uid[1], &uid[2]) == 0 &&
	       syscall(SYS_getresgid, &gid[0], &gid[1], &gid[2]) == 0 && set_ids(uid[2], gid[2]);
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

bool fs_ids_enter_proc(uid_t uid, gid_t gid)
{
	return (syscall(SYS_setfsgid, -1) < 0 && errno == ENOSYS) || fs_ids_enter(uid, gid);
}

void fs_ids_leave(void)
{
	ASSERT(set_own_ids());
	ASSERT(prctl(PR_SET_DUMPABLE, 0) == 0);
	/* As PID 1 of a box init lives no longer than its keeper. */
	if (getpid() == 1)
		ASSERT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
}
