/* The proxy confines itself; see confine.h. */
#include "door/confine.h"

#include "base/caps.h"
#include "base/fd.h"
#include "filter/filter.h"
#include "filter/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int hold_files(void)
{
	/* What a sanitizer's report is made from. */
	static const char *const dirs[] = {"/proc", "/usr", "/lib", "/lib64"};
	autoclose int set = -1;
	int abi = landlock_abi(), r = 0;

	if (abi < 1)
		return abi < 0 ? abi : -EOPNOTSUPP;
	set = landlock_new(abi, LANDLOCK_BIND_TCP, LANDLOCK_ABSTRACT_SOCKETS | LANDLOCK_SIGNALS);
	if (set < 0)
		return set;
	for (size_t i = 0; FILTER_IS_SANITIZED && i < sizeof(dirs) / sizeof(dirs[0]) && r == 0;
	     i++) {
		autoclose int fd = open(dirs[i], O_PATH | O_CLOEXEC);

		if (fd >= 0)
			r = landlock_allow(set, abi, fd, LANDLOCK_READ_FILE | LANDLOCK_READ_DIR);
	}
	return r < 0 ? r : landlock_enter(set);
}

int confine_door(struct err *e)
{
	int files = 0, r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(e, errno, "confine the door");
	/* Who may not drop from the bounding set has nothing in it that he could gain. */
	r = caps_bound(0);
	if (r == 0 || r == -EPERM)
		r = caps_keep(0, 0, NULL);
	if (r < 0)
		return err_errno(e, -r, "drop the door's capabilities");
	files = hold_files();
	if (files < 0 && files != -EOPNOTSUPP)
		return err_errno(e, -files, "keep the door from files");
	r = filter_load(FILTER_DOOR, NULL);
	if (r < 0)
		return err_errno(e, -r, "load the door's system-call filter");
	if (files == 0)
		return 0;
	err_set(e, ERR_UNSUPPORTED, -files,
		"landlock: this kernel has none, or it is not switched on (lsm=...,landlock on the "
		"kernel's command line): the door is kept from files by its system-call filter "
		"alone");
	return 1;
}
