/* A process that unpacks confines itself; see confine.h. */
#include "oci/confine.h"

#include "base/caps.h"
#include "base/fd.h"
#include "filter/filter.h"
#include "filter/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>

enum { LINKS_ABI = 2 };

static int hold_files(int root_fd)
{
	/* What a sanitizer's report is made from. */
	static const char *const dirs[] = {"/proc", "/usr", "/lib", "/lib64"};
	autoclose int set = -1;
	int abi = landlock_abi(), r;

	if (abi < LINKS_ABI)
		return abi < 0 ? abi : 0;
	set = landlock_new(abi, LANDLOCK_BIND_TCP | LANDLOCK_CONNECT_TCP,
			   LANDLOCK_ABSTRACT_SOCKETS | LANDLOCK_SIGNALS);
	if (set < 0)
		return set;
	r = landlock_allow_all(set, abi, root_fd);
	for (size_t i = 0; FILTER_IS_SANITIZED && i < sizeof(dirs) / sizeof(dirs[0]) && r == 0;
	     i++) {
		autoclose int fd = open(dirs[i], O_PATH | O_CLOEXEC);

		if (fd >= 0)
			r = landlock_allow(set, abi, fd, LANDLOCK_READ_FILE | LANDLOCK_READ_DIR);
	}
	return r < 0 ? r : landlock_enter(set);
}

int oci_confine_unpack(int root_fd, struct err *e)
{
	const uint32_t keep = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) |
			      CAP_BIT(CAP_FSETID);
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(e, errno, "confine the process that unpacks");
	r = caps_bound(keep);
	if (r == 0 || r == -EPERM)
		r = caps_keep(keep, 0, NULL);
	if (r == 0)
		r = hold_files(root_fd);
	return r < 0 ? err_errno(e, -r, "confine the process that unpacks") : 0;
}
