/*
 * The members of a tree in a cgroup.
 *
 * On v2 cgroup.kill ends them all at once. Where one is to be spared the group is frozen first:
 * frozen members cannot fork, but they do die. A fork that was under way when it froze gives one
 * more member, which is born frozen; so a few looks find everybody, however fast they were forking.
 *
 * A v1 hierarchy has neither. There the members are stopped until a look finds the same ones again,
 * and then killed: as tree_walk.c does, but no `setsid` leads out of the group.
 */
#include "init/tree_parts.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
	FROZEN_ROUNDS = 3,
	STOP_ROUNDS = 16,
	PROCS_BYTES_MAX = INIT_PROCS_MAX * 8,
};

static int write_at(int dir_fd, const char *file, const char *text)
{
	autoclose int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* The text of cgroup.procs from where members are told; owned, NULL where nobody can tell. */
static char *read_procs(const struct tree *t)
{
	char *text;
	int kind = 0;

	while (kind < TREE_KINDS && t->fd[kind] < 0)
		kind++;
	if (kind == TREE_KINDS ||
	    fd_read_file(t->fd[kind], "cgroup.procs", PROCS_BYTES_MAX, &text, NULL) < 0)
		return NULL;
	return text;
}

/* Cuts the next pid off; 0 after the last one. One of another pid namespace is a 0 in the list. */
static pid_t next_pid(char **at, pid_t spare)
{
	char *line;

	while ((line = strsep(at, "\n"))) {
		pid_t pid = atoi(line);

		if (pid > 0 && pid != spare)
			return pid;
	}
	return 0;
}

int group_signal(const struct tree *t, int sig, pid_t spare)
{
	autofree char *text = read_procs(t);
	char *at = text;
	int seen = 0;
	pid_t pid;

	while (at && (pid = next_pid(&at, spare)) > 0) {
		seen++;
		if (sig)
			kill(pid, sig);
	}
	return seen;
}

size_t group_members(const struct tree *t, pid_t spare, pid_t *ret, size_t max)
{
	autofree char *text = read_procs(t);
	char *at = text;
	size_t n = 0;
	pid_t pid;

	while (at && n < max && (pid = next_pid(&at, spare)) > 0)
		ret[n++] = pid;
	return n;
}

static int kill_frozen(const struct tree *t, pid_t spare)
{
	int seen = 0;

	write_at(t->fd[TREE_V2], "cgroup.freeze", "1");
	for (int round = 0; round < FROZEN_ROUNDS; round++) {
		int left = group_signal(t, SIGKILL, spare);

		if (left > seen)
			seen = left;
		if (left == 0)
			break;
	}
	write_at(t->fd[TREE_V2], "cgroup.freeze", "0");
	return seen;
}

/* True if those are the members that were there before, too. Takes both texts. */
static bool is_same(char **before, char *now)
{
	bool same = *before && now && strcmp(*before, now) == 0;

	free(*before);
	*before = now;
	return same;
}

static int kill_stopped(const struct tree *t, pid_t spare)
{
	char *before = NULL;

	for (int round = 0; round < STOP_ROUNDS && !is_same(&before, read_procs(t)); round++)
		group_signal(t, SIGSTOP, spare);
	free(before);
	return group_signal(t, SIGKILL, spare);
}

int group_kill(const struct tree *t, pid_t spare)
{
	int seen;

	if (t->fd[TREE_V2] < 0)
		return kill_stopped(t, spare);
	if (spare)
		return kill_frozen(t, spare);
	seen = group_signal(t, 0, 0);
	if (seen == 0)
		return 0;
	/* cgroup.kill came with Linux 5.14. */
	return write_at(t->fd[TREE_V2], "cgroup.kill", "1") < 0 ? kill_frozen(t, 0) : seen;
}
