/*
 * Watching a file being read; see watch.h.
 *
 * An import reads in a process of libcove's and returns when it is done. The file's position is
 * shared by all who have it open, so a small process of ours can look at it meanwhile. It ends when
 * the other end of its pipe is closed, however that comes about.
 */
#include "cli/watch.h"

#include "base/fd.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_MS = 1000, EVERY_MS = 200 };

/* The line is gone again at the end, also when who started us was killed. */
static void show_until_closed(int end_fd, int fd, uint64_t size)
{
	struct pollfd p = {.fd = end_fd, .events = POLLIN};
	int timeout_ms = FIRST_MS;
	bool shown = false;
	char line[48];

	while (poll(&p, 1, timeout_ms) <= 0) {
		off_t at = lseek(fd, 0, SEEK_CUR);
		uint64_t read = at < 0 ? 0 : (uint64_t)at;
		int n = snprintf(line, sizeof(line),
				 read < size ? "\r  unpacking  %3u %%\033[K"
					     : "\r  waiting for the disk\033[K",
				 (unsigned)(read * 100 / size));

		timeout_ms = EVERY_MS;
		shown = true;
		if (fd_write_full(STDERR_FILENO, line, (size_t)n) < 0)
			return;
	}
	if (shown)
		(void)fd_write_full(STDERR_FILENO, "\r\033[K", 4);
}

void watch_start(struct watch *w, int fd, const char *name)
{
	struct stat st;
	int fds[2];

	*w = (struct watch){.fd = -1};
	if (!isatty(STDERR_FILENO))
		return;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		cli_note("unpacking from %.80s ...", name);
		return;
	}
	/* What cannot be watched is imported all the same. */
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	w->pid = fork();
	if (w->pid == 0) {
		close(fds[1]);
		show_until_closed(fds[0], fd, (uint64_t)st.st_size);
		_exit(0);
	}
	close(fds[0]);
	w->fd = fds[1];
}

void watch_stop(struct watch *w)
{
	fd_close(&w->fd);
	while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
}
