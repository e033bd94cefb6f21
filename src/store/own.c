/* Is a path of the host Cove's own state? See own.h. */
#include "store/own.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path without links, as the kernel sees it. */
static bool path_of(int fd, char *ret, size_t size)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = fd < 0 ? -1 : readlink(link, ret, size - 1);
	ret[n < 0 ? 0 : n] = 0;
	return n > 0;
}

static bool real_path(const char *path, char *ret, size_t size)
{
	autoclose int fd = open(path, O_PATH | O_CLOEXEC);

	return path_of(fd, ret, size);
}

/* Is inner the same as outer, or below it? Both are without links. A directory may be mounted in a
 * second place, so what stands on the way up is looked at, too. */
static bool is_within(const char *inner, const char *outer)
{
	char part[BOX_PATH_MAX];
	struct stat top, st;

	if (path_is_within(inner, outer))
		return true;
	if (stat(outer, &top) < 0 || !str_copy(part, sizeof(part), inner))
		return false;
	for (char *slash; (slash = strrchr(part, '/')); *slash = 0)
		if (stat(part, &st) == 0 && st.st_dev == top.st_dev && st.st_ino == top.st_ino)
			return true;
	return stat("/", &st) == 0 && st.st_dev == top.st_dev && st.st_ino == top.st_ino;
}

/* src is what the caller wrote, real what it is, own a directory of ours. */
static int refuse_one(const char *src, const char *real, const char *own, const char *remedy,
		      struct err *e)
{
	char state[BOX_PATH_MAX];

	if (!real_path(own, state, sizeof(state)))
		return errno == ENOENT ? 0 : err_errno(e, errno, "open '%.140s'", own);
	if (is_within(real, state))
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.80s' is inside Cove's own state at %.80s: a box cannot have it",
			       src, state);
	if (is_within(state, real))
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.60s' holds Cove's own state at %.60s: give a directory below it "
			       "that does not%s",
			       src, state, remedy);
	return 0;
}

static int refuse_own(const char *src, const char *real, const struct state *st, struct err *e)
{
	int r = refuse_one(src, real, st->home, ", or set COVE_HOME elsewhere", e);

	if (r == 0)
		r = refuse_one(src, real, st->run, ", or set COVE_HOME elsewhere", e);
	if (r == 0 && geteuid() == 0)
		r = refuse_one(src, real, state_machine_run_dir(), "", e);
	return r;
}

int own_refuse_fd(const struct state *st, const char *path, int fd, struct err *e)
{
	char real[BOX_PATH_MAX];

	if (!path_of(fd, real, sizeof(real)))
		return err_errno(e, errno, "find '%.140s'", path);
	return refuse_own(path, real, st, e);
}
