/* See children.h. */
#include "keeper/children.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

int children_watch(void)
{
	sigset_t child;
	int fd;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || sigprocmask(SIG_BLOCK, &child, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

void children_reap(int watch_fd, pid_t except)
{
	struct signalfd_siginfo seen;
	siginfo_t one = {0};

	while (read(watch_fd, &seen, sizeof(seen)) > 0)
		;
	while (waitid(P_ALL, 0, &one, WEXITED | WNOHANG | WNOWAIT) == 0 && one.si_pid > 0 &&
	       one.si_pid != except) {
		(void)waitpid(one.si_pid, NULL, 0);
		one.si_pid = 0;
	}
}

static bool has_children(void)
{
	siginfo_t one;

	return waitid(P_ALL, 0, &one, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void kill_children(void)
{
	char path[48], text[1024], *at = text;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = fd_open(path, O_RDONLY);
	n = fd < 0 ? 0 : fd_read_full(fd, text, sizeof(text) - 1);
	fd_close(&fd);
	text[n > 0 ? n : 0] = 0;
	/* More than fit come with the next look. A child is ours until it is waited for, so its
	 * number is no other process's; a number that was cut off is no child's to be sure of. */
	for (char *end; (end = strchr(at, ' ')); at = end + 1) {
		pid_t pid = (pid_t)strtol(at, NULL, 10);

		if (pid > 0)
			kill(pid, SIGKILL);
	}
}

bool children_await(int watch_fd, bool kills)
{
	struct pollfd p = {.fd = watch_fd, .events = POLLIN};
	uint64_t end = clock_mono_ms() + CHILDREN_GRACE_MS, now;

	for (;;) {
		children_reap(watch_fd, 0);
		if (!has_children())
			return true;
		now = clock_mono_ms();
		if (now >= end)
			return false;
		if (kills)
			kill_children();
		(void)poll(&p, 1, (int)(end - now));
	}
}
