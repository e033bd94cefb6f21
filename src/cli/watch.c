/*
 * Watching; see watch.h.
 *
 * What is under way blocks in a call of libcove's, so a small process of ours says so meanwhile. An
 * import reads in a process of libcove's and returns when it is done. The file's position is
 * shared by all who have it open, so that process can look at it. It ends when the other end of its
 * pipe is closed, however that comes about.
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

/* What is shown: how much of a file was read, or words. */
struct sight {
	int fd;
	uint64_t size;
	const char *verb, *name;
};

static int put_line(const struct sight *s, char *line, size_t max)
{
	off_t at = s->verb ? 0 : lseek(s->fd, 0, SEEK_CUR);
	uint64_t read = at < 0 ? 0 : (uint64_t)at;

	if (s->verb)
		return snprintf(line, max, "\r  %s %.63s ...\033[K", s->verb, s->name);
	return snprintf(line, max,
			read < s->size ? "\r  unpacking  %3u %%\033[K"
				       : "\r  waiting for the disk\033[K",
			(unsigned)(read * 100 / s->size));
}

/* The line is gone again at the end, also when who started us was killed. */
static void show_until_closed(int end_fd, const struct sight *s)
{
	struct pollfd p = {.fd = end_fd, .events = POLLIN};
	int timeout_ms = FIRST_MS;
	bool shown = false;
	char line[128];

	while (poll(&p, 1, timeout_ms) <= 0) {
		int n = put_line(s, line, sizeof(line));

		timeout_ms = EVERY_MS;
		shown = true;
		if (fd_write_full(STDERR_FILENO, line, (size_t)n) < 0)
			return;
	}
	if (shown)
		(void)fd_write_full(STDERR_FILENO, "\r\033[K", 4);
}

static void start(struct watch *w, const struct sight *s)
{
	int fds[2];

	/* What cannot be watched is done all the same. */
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	w->pid = fork();
	if (w->pid == 0) {
		close(fds[1]);
		show_until_closed(fds[0], s);
		_exit(0);
	}
	close(fds[0]);
	w->fd = fds[1];
}

void watch_start(struct watch *w, int fd, const char *name)
{
	struct stat st;

	*w = (struct watch){.fd = -1};
	if (!isatty(STDERR_FILENO))
		return;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		cli_note("unpacking from %.80s ...", name);
		return;
	}
	start(w, &(struct sight){.fd = fd, .size = (uint64_t)st.st_size});
}

/* A name that a box or a person chose may hold anything. */
static bool is_plain(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || (unsigned char)*name >= 0x7f)
			return false;
	return true;
}

void watch_start_words(struct watch *w, const char *verb, const char *name, bool json)
{
	*w = (struct watch){.fd = -1};
	if (!json && isatty(STDERR_FILENO) && is_plain(name))
		start(w, &(struct sight){.verb = verb, .name = name});
}

void watch_stop(struct watch *w)
{
	fd_close(&w->fd);
	while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
}
