/*
 * Ending all processes of a group and those below without a kill of the kernel's: all of v1, and v2
 * before Linux 5.14.
 *
 * Processes are held by pidfds: a number that was reused in between is never signalled, and the
 * wait for the end is a poll.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cgroup/parts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { KILL_BATCH = 128, KILL_PASSES = 1000, KILL_LOOK_MS = 200, LOOK_AGAIN_MS = 1 };

struct kill_batch {
	struct pollfd held[KILL_BATCH]; /* pidfds, owned */
	pid_t pids[KILL_BATCH];
	unsigned count;
	bool seen; /* somebody is there, held or not */
};

static void hold(struct kill_batch *b, const char *word)
{
	uint64_t pid;
	int fd;

	b->seen = true;
	if (b->count == KILL_BATCH || !str_parse_u64(word, INT32_MAX, &pid) || pid == 0 ||
	    (pid_t)pid == getpid())
		return;
	fd = sys_pidfd_open((pid_t)pid);
	if (fd < 0)
		return;
	b->pids[b->count] = (pid_t)pid;
	b->held[b->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* Only those that the group still lists once they are held can be meant. */
static void kill_group(int fd, void *arg)
{
	struct kill_batch *b = arg;
	autofree char *before = NULL, *after = NULL;
	unsigned first = b->count;
	char *at, *word, line[16];

	if (fd_read_file(fd, "cgroup.procs", CGROUP_PROCS_MAX, &before, NULL) < 0 || !before[0])
		return;
	at = before;
	while ((word = strsep(&at, "\n")))
		if (word[0])
			hold(b, word);
	if (fd_read_file(fd, "cgroup.procs", CGROUP_PROCS_MAX, &after, NULL) < 0)
		return;
	for (unsigned i = first; i < b->count; i++) {
		snprintf(line, sizeof(line), "%d", (int)b->pids[i]);
		if (knob_has_line(after, line))
			sys_pidfd_send_signal(b->held[i].fd, SIGKILL);
	}
}

int group_kill_members(int box_fd, const struct cgroup_kind *kind)
{
	uint64_t until = clock_mono_ms() + GROUP_WAIT_MS, look_until, now;

	for (int i = 0; i < KILL_PASSES && clock_mono_ms() < until; i++) {
		struct kill_batch b = {.count = 0};

		/* While frozen, none of them forks between the look and the signal. A signal is
		 * only acted on after the thaw. */
		(void)kind->freeze(box_fd, true, KILL_LOOK_MS);
		group_walk(box_fd, kill_group, &b);
		(void)kind->freeze(box_fd, false, 0);
		if (!b.seen)
			return 0;
		/* Waits for the end of those that are held, and lets go of them. */
		look_until = clock_mono_ms() + KILL_LOOK_MS;
		for (unsigned k = 0; k < b.count; k++) {
			now = clock_mono_ms();
			if (now < look_until)
				(void)poll(&b.held[k], 1, (int)(look_until - now));
			fd_close(&b.held[k].fd);
		}
		if (b.count == 0)
			(void)poll(NULL, 0, LOOK_AGAIN_MS);
	}
	return -ETIMEDOUT;
}
