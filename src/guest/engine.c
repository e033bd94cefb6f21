/* What is left to init behind an engine; see engine.h. */
#include "guest/engine.h"

#include "base/fd.h"
#include "filter/filter.h"
#include "guest/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static int write_text(int dir, const char *name, const char *text)
{
	autoclose int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* Init is in the group too, and all that it starts. */
static int make_group(const char *at, uint64_t pids)
{
	autoclose int top = -1, group = -1;
	char text[24];
	int r;

	top = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || (mkdirat(top, "box", 0700) < 0 && errno != EEXIST))
		return -errno;
	group = openat(top, "box", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (group < 0)
		return -errno;
	snprintf(text, sizeof(text), "%" PRIu64, pids + 1);
	r = write_text(group, "pids.max", text);
	return r < 0 ? r : write_text(group, "cgroup.procs", "0");
}

/* The groups are out of sight again for the box: only who may mount could find them. */
static int bound_pids(const char *at, uint64_t pids)
{
	int r;

	if (mount("cgroup", at, "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "pids") < 0)
		return -errno;
	r = make_group(at, pids);
	if (umount2(at, MNT_DETACH) < 0 && r == 0)
		r = -errno;
	return r;
}

int guest_engine_run(const struct guest_engine *c, char *notes, size_t size, const char **ret_what)
{
	size_t n = strlen(notes);
	int r = c->pids ? bound_pids(c->at, c->pids) : 0;

	prctl(PR_SET_NAME, "cove-init"); /* else it has its descriptor's */
	*ret_what = "keep --pids: this gVisor has no groups (get a newer one, or --best-effort)";
	if (r < 0 && c->must_bound)
		return r;
	if (r < 0)
		snprintf(notes + n, size - n,
			 "pids: the engine's kernel has no groups that bound them (%s); the host's "
			 "own limit ends the whole box\n",
			 strerror(-r));
	*ret_what = "load the box's filter";
	r = filter_load_engine((c->shared ? FILTER_BOX_SHARED : FILTER_BOX) |
			       (c->ptrace ? FILTER_BOX_PTRACE : FILTER_BOX));
	if (r < 0)
		return r;
	*ret_what = "put down what the wall needed";
	return guest_hold_engine_caps(c->strict);
}
