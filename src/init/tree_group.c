/*
 * The members of a tree in a cgroup.
 *
 * On v2 cgroup.kill ends them all at once. Where one is to live on the group is frozen first:
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

/* The text of cgroup.procs with the members; owned, NULL where there is none. */
static char *read_procs(const struct init_tree *t)
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
static pid_t next_pid(char **at, pid_t except_pid)
{
	char *line;

	while ((line = strsep(at, "\n"))) {
		pid_t pid = atoi(line);

		if (pid > 0 && pid != except_pid)
			return pid;
	}
	return 0;
}

int init_group_visit(const struct init_tree *t, int sig, pid_t except_pid, pid_t *ret, int max)
{
	autofree char *text = read_procs(t);
	char *at = text;
	int seen = 0;
	pid_t pid;

	while (at && (pid = next_pid(&at, except_pid)) > 0) {
		if (seen < max)
			ret[seen] = pid;
		seen++;
		if (sig)
			kill(pid, sig);
	}
	return seen;
}

static int kill_frozen(const struct init_tree *t, pid_t except_pid)
{
	int seen = 0;

	write_at(t->fd[TREE_V2], "cgroup.freeze", "1");
	for (int round = 0; round < FROZEN_ROUNDS; round++) {
		int left = init_group_visit(t, SIGKILL, except_pid, NULL, 0);

		if (left > seen)
			seen = left;
		if (left == 0)
			break;
	}
	write_at(t->fd[TREE_V2], "cgroup.freeze", "0");
	return seen;
}

static int kill_stopped(const struct init_tree *t, pid_t except_pid)
{
	char *before = NULL, *now;
	bool same = false;

	for (int round = 0; round < STOP_ROUNDS && !same; round++) {
		now = read_procs(t);
		same = before && now && strcmp(before, now) == 0;
		free(before);
		before = now;
		if (!same)
			init_group_visit(t, SIGSTOP, except_pid, NULL, 0);
	}
	free(before);
	return init_group_visit(t, SIGKILL, except_pid, NULL, 0);
}

int init_group_kill(const struct init_tree *t, pid_t except_pid)
{
	int seen;

	if (t->fd[TREE_V2] < 0)
		return kill_stopped(t, except_pid);
	if (except_pid)
		return kill_frozen(t, except_pid);
	seen = init_group_visit(t, 0, 0, NULL, 0);
	if (seen == 0)
		return 0;
	/* cgroup.kill came with Linux 5.14. */
	return write_at(t->fd[TREE_V2], "cgroup.kill", "1") < 0 ? kill_frozen(t, 0) : seen;
}
