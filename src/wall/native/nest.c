/* A user namespace within the box's; see nest.h. */
#include "wall/native/nest.h"

#include "base/fd.h"
#include "base/str.h"
#include "storage/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARE = 4 };

void nest_share(const char *path, char *ret)
{
	autofree char *text = NULL;
	uint64_t most;

	ret[0] = 0;
	if (fd_read_file(AT_FDCWD, path, NEST_TEXT, &text, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = 0;
	if (str_parse_u64(text, INT32_MAX, &most))
		snprintf(ret, NEST_TEXT, "%" PRIu64, most / SHARE ? most / SHARE : 1);
}

static int write_file(int dir, const char *path, const char *text)
{
	autoclose int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* From the outer namespace: only its root may write a map of many ids. */
static int map_parent(int self, int go)
{
	char text[96], word;
	int r;

	if (read(go, &word, 1) != 1)
		return -ECANCELED;
	/* In the pieces that the outer map has: no line may reach over two. */
	snprintf(text, sizeof(text), "0 0 %d\n%d %d 1\n%d %d %d", IDS_USER, IDS_USER, IDS_USER,
		 IDS_USER + 1, IDS_USER + 1, IDS_COUNT - IDS_USER - 1);
	r = write_file(self, "uid_map", text);
	return r < 0 ? r : write_file(self, "gid_map", text);
}

/* What all inside may lock, and how many processes they may be, is this process's soft limit as the
 * namespace is made. Of locked memory the kernel takes it for a number of pages. */
static int unshare_user(void)
{
	struct rlimit locked, pages, procs, half;

	if (getrlimit(RLIMIT_MEMLOCK, &locked) < 0 || getrlimit(RLIMIT_NPROC, &procs) < 0)
		return -errno;
	pages = locked;
	pages.rlim_cur /= (rlim_t)sysconf(_SC_PAGESIZE);
	half = procs;
	half.rlim_cur /= 2;
	if (setrlimit(RLIMIT_MEMLOCK, &pages) < 0 || setrlimit(RLIMIT_NPROC, &half) < 0 ||
	    unshare(CLONE_NEWUSER) < 0 || setrlimit(RLIMIT_MEMLOCK, &locked) < 0 ||
	    setrlimit(RLIMIT_NPROC, &procs) < 0)
		return -errno;
	return 0;
}

int nest_enter(int self, int sys)
{
	int go[2], r, status;
	pid_t pid;

	/* Or its map's files would be the host's root's. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		_exit(-map_parent(self, go[0]));
	}
	r = pid < 0 ? -errno : unshare_user();
	if (r == 0 && write(go[1], "g", 1) != 1)
		r = -errno;
	close(go[0]);
	close(go[1]); /* a child that was not let go ends here */
	if (pid < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return r < 0 ? r : -errno;
	if (r == 0)
		r = WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
	return r < 0 ? r : write_file(sys, "user/max_user_namespaces", "0");
}
