/*
 * The members of a tree without a cgroup: a walk through /proc.
 *
 * A kill stops every member, looks again, until a look finds no new one; only then it kills.
 * Stopped processes cannot fork, so a fork bomb does not outrun it. The first process is killed
 * last, once all others are gone: as a subreaper it is what holds the tree together.
 */
#include "init/tree_parts.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WALK_ROUNDS = 16 };

enum verdict { UNKNOWN, INSIDE, OUTSIDE };

struct proc {
	pid_t pid, parent;
	uint64_t start; /* clock ticks since boot */
	char state;
	enum verdict verdict; /* of the tree? */
};

struct procs {
	struct proc *list; /* owned, sorted by pid */
	size_t count;
};

/* "PID (any bytes) S PPID ... START ...": the name may hold anything, so parsing starts at its end.
 * Fields are counted from the state, which is 0. */
static bool parse_stat(char *text, struct proc *ret)
{
	enum { FIELD_STATE = 0, FIELD_PARENT = 1, FIELD_START = 19 };
	char *at = strrchr(text, ')'), *field;

	if (!at || at[1] != ' ')
		return false;
	at += 2;
	for (int i = 0; (field = strsep(&at, " ")); i++) {
		if (i == FIELD_STATE)
			ret->state = field[0];
		if (i == FIELD_PARENT)
			ret->parent = atoi(field);
		if (i == FIELD_START) {
			ret->start = strtoull(field, NULL, 10);
			return true;
		}
	}
	return false;
}

/* False if the process is gone. */
static bool read_proc(int proc_fd, const char *name, struct proc *ret)
{
	char path[32], text[512];
	ssize_t n;

	snprintf(path, sizeof(path), "%.16s/stat", name);
	autoclose int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*ret = (struct proc){.pid = atoi(name)};
	return parse_stat(text, ret);
}

/* Of struct proc and of struct tree_proc: both begin with it. */
static int by_pid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

/* Every process there is, up to the maximum. What was found stays valid if it fails half way. */
static void scan(struct procs *ps)
{
	DIR *dir = opendir("/proc");
	struct proc p, *grown;
	struct dirent *d;
	size_t cap = 0;

	*ps = (struct procs){0};
	if (!dir)
		return;
	while ((d = readdir(dir))) {
		if (d->d_name[0] < '1' || d->d_name[0] > '9' ||
		    !read_proc(dirfd(dir), d->d_name, &p))
			continue;
		if (ps->count == cap) {
			cap = cap ? cap * 2 : 64;
			grown = cap > INIT_PROCS_MAX ? NULL
						     : realloc(ps->list, cap * sizeof(*grown));
			if (!grown)
				break;
			ps->list = grown;
		}
		ps->list[ps->count++] = p;
	}
	closedir(dir);
	if (ps->count)
		qsort(ps->list, ps->count, sizeof(*ps->list), by_pid);
}

static struct proc *find_proc(const struct procs *ps, pid_t pid)
{
	struct proc key = {.pid = pid};

	return ps->count ? bsearch(&key, ps->list, ps->count, sizeof(key), by_pid) : NULL;
}

/* Up to the first who has a verdict, and down again with it: so everybody is passed twice, whatever
 * shape the tree was given. A list that was read while pids were reused may hold a circle. */
static void judge(const struct procs *ps, struct proc *p)
{
	struct proc *at = p;
	enum verdict v;

	for (size_t steps = 0; at && at->verdict == UNKNOWN && steps <= ps->count; steps++)
		at = find_proc(ps, at->parent);
	v = at && at->verdict == INSIDE ? INSIDE : OUTSIDE;
	for (at = p; at && at->verdict == UNKNOWN; at = find_proc(ps, at->parent))
		at->verdict = v;
}

/* Finds root and what is below it. A kept process is a border: what it started is its own. */
static void mark_inside(const struct init_tree *t, pid_t root, struct procs *ps)
{
	for (size_t i = 0; i < ps->count; i++) {
		struct proc *p = &ps->list[i];
		const struct tree_proc key = {.pid = p->pid}, *kept = NULL;

		/* The list of those was made of a sorted one. */
		if (t->keep_count > 0)
			kept = bsearch(&key, t->keep, t->keep_count, sizeof(key), by_pid);
		if (p->pid == root)
			p->verdict = INSIDE;
		else if (kept && kept->start == p->start)
			p->verdict = OUTSIDE;
	}
	for (size_t i = 0; i < ps->count; i++)
		judge(ps, &ps->list[i]);
}

static bool is_member(const struct proc *p, pid_t except_pid)
{
	return p->verdict == INSIDE && p->pid != except_pid && p->state != 'Z' && p->state != 'X';
}

static void look(const struct init_tree *t, struct procs *ps)
{
	scan(ps);
	mark_inside(t, t->root, ps);
}

/* The first process only once it is alone: until then it is whom orphans come to. */
static int kill_members(const struct init_tree *t, const struct procs *ps, pid_t except_pid)
{
	const struct proc *root = find_proc(ps, t->root);
	int seen = 0;

	for (size_t i = 0; i < ps->count; i++) {
		const struct proc *p = &ps->list[i];

		if (!is_member(p, except_pid) || p == root)
			continue;
		seen++;
		kill(p->pid, SIGKILL);
	}
	if (!root || !is_member(root, except_pid))
		return seen;
	if (seen == 0)
		kill(root->pid, SIGKILL);
	return seen + 1;
}

int init_walk_kill(const struct init_tree *t, pid_t except_pid)
{
	struct procs ps;
	bool still = false;
	int seen;

	if (t->root <= 0)
		return 0;
	for (int round = 0; round < WALK_ROUNDS && !still; round++) {
		if (round > 0)
			free(ps.list);
		look(t, &ps);
		still = true; /* unless one of them still runs */
		for (size_t i = 0; i < ps.count; i++) {
			const struct proc *p = &ps.list[i];

			if (!is_member(p, except_pid) || p->state == 'T' || p->state == 't')
				continue;
			kill(p->pid, SIGSTOP);
			still = false;
		}
	}
	seen = kill_members(t, &ps, except_pid);
	free(ps.list);
	return seen;
}

int init_walk_visit(const struct init_tree *t, int sig, pid_t except_pid, pid_t *ret, int max)
{
	struct procs ps;
	int seen = 0;

	if (t->root <= 0)
		return 0;
	look(t, &ps);
	for (size_t i = 0; i < ps.count; i++) {
		if (!is_member(&ps.list[i], except_pid))
			continue;
		if (seen < max)
			ret[seen] = ps.list[i].pid;
		seen++;
		if (sig)
			kill(ps.list[i].pid, sig);
	}
	free(ps.list);
	return seen;
}

void init_walk_keep_current(struct init_tree *t, pid_t shell)
{
	struct procs ps;

	scan(&ps);
	mark_inside(t, shell, &ps);
	t->keep = calloc(TREE_KEEP_MAX, sizeof(*t->keep));
	for (size_t i = 0; t->keep && i < ps.count && t->keep_count < TREE_KEEP_MAX; i++)
		if (is_member(&ps.list[i], shell))
			t->keep[t->keep_count++] =
				(struct tree_proc){ps.list[i].pid, ps.list[i].start};
	free(ps.list);
}
