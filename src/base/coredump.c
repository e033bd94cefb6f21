/* Core dumps of processes that must not start one; see coredump.h. */
#include "base/coredump.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

int coredump_off(void)
{
	const struct rlimit one = {.rlim_cur = 1, .rlim_max = 1};

	return setrlimit(RLIMIT_CORE, &one) < 0 ? -errno : 0;
}

int coredump_target(void)
{
	autofree char *text = NULL;
	int r = fd_read_file(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096, &text, NULL);

	if (r < 0)
		return r;
	return text[0] == '|' ? COREDUMP_PROGRAM : text[0] == '@' ? COREDUMP_SOCKET : COREDUMP_FILE;
}
