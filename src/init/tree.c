/*
 * The tree of one command; see tree.h.
 *
 * With a cgroup, a group that tree_done cannot remove (a daemon lives in it) is marked by mode
 * 0700. The mark is in the kernel's own tree, so tree_sweep needs no list, and never takes a group
 * that was just made for somebody and is still empty.
 *
 * Without one, a kill is a walk: stop every member, look again, until a look finds nobody new; only
 * then kill. Stopped processes cannot fork, so a fork bomb does not outrun it. The first process is
 * killed last: as a subreaper it is what holds the tree together.
 */
#include "init/tree.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	WALK_ROUNDS = 16,
	GROUP_MODE = 0755,
	GROUP_MODE_LEFT = 0700,
	PROCS_BYTES_MAX = INIT_PROCS_MAX * 8,
};

struct proc {
	pid_t pid, parent;
	uint64_t start; /* clock ticks since boot */
	char state;
	bool inside;
};

struct procs {
	struct proc *list; /* owned, sorted by pid */
	size_t count, cap;
};

/* Without a cgroup: /proc. */

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

static int add_proc(struct procs *ps, const struct proc *p)
{
	if (ps->count == ps->cap) {
		size_t cap = ps->cap ? ps->cap * 2 : 64;
		struct proc *grown;

		if (cap > INIT_PROCS_MAX)
			return -ENOBUFS;
		grown = realloc(ps->list, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		ps->list = grown;
		ps->cap = cap;
	}
	ps->list[ps->count++] = *p;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct proc *)a)->pid, y = ((const struct proc *)b)->pid;

	return (x > y) - (x < y);
}

/* Every process there is, up to the maximum. What was found stays valid if it fails half way. */
static void scan(struct procs *ps)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	struct proc p;

	*ps = (struct procs){0};
	if (!dir)
		return;
	while ((d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' &&
		    read_proc(dirfd(dir), d->d_name, &p) && add_proc(ps, &p) < 0)
			break;
	closedir(dir);
	if (ps->count)
		qsort(ps->list, ps->count, sizeof(*ps->list), by_pid);
}

static struct proc *find_proc(const struct procs *ps, pid_t pid)
{
	struct proc key = {.pid = pid};

	return ps->count ? bsearch(&key, ps->list, ps->count, sizeof(key), by_pid) : NULL;
}

static bool is_kept(const struct tree *t, const struct proc *p)
{
	for (size_t i = 0; i < t->keep_count; i++)
		if (t->keep[i].pid == p->pid && t->keep[i].start == p->start)
			return true;
	return false;
}

/* Marks root and what is below it. A kept process is a border: what it started is its own. */
static void mark_inside(const struct tree *t, pid_t root, struct procs *ps)
{
	struct proc *r = find_proc(ps, root);
	bool changed = r != NULL;

	if (r)
		r->inside = true;
	while (changed) {
		changed = false;
		for (size_t i = 0; i < ps->count; i++) {
			struct proc *p = &ps->list[i];
			const struct proc *parent;

			if (p->inside)
				continue;
			parent = find_proc(ps, p->parent);
			if (!parent || !parent->inside || is_kept(t, p))
				continue;
			p->inside = true;
			changed = true;
		}
	}
}

static bool is_dead(const struct proc *p)
{
	return p->state == 'Z' || p->state == 'X';
}

static bool is_member(const struct proc *p, pid_t spare)
{
	return p->inside && p->pid != spare && !is_dead(p);
}

static void look(const struct tree *t, struct procs *ps)
{
	scan(ps);
	mark_inside(t, t->root, ps);
}

/* Stops whoever still runs. Returns how many that were. */
static int stop_members(const struct procs *ps, pid_t spare)
{
	int running = 0;

	for (size_t i = 0; i < ps->count; i++) {
		const struct proc *p = &ps->list[i];

		if (!is_member(p, spare) || p->state == 'T' || p->state == 't')
			continue;
		kill(p->pid, SIGSTOP);
		running++;
	}
	return running;
}

static int kill_members(const struct tree *t, const struct procs *ps, pid_t spare, bool and_root)
{
	int seen = 0;

	for (size_t i = 0; i < ps->count; i++) {
		const struct proc *p = &ps->list[i];

		if (!is_member(p, spare))
			continue;
		seen++;
		if (p->pid != t->root || and_root)
			kill(p->pid, SIGKILL);
	}
	return seen;
}

static int kill_by_walk(const struct tree *t, pid_t spare)
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
		still = stop_members(&ps, spare) == 0;
	}
	seen = kill_members(t, &ps, spare, still);
	free(ps.list);
	return seen;
}

/* sig 0 only counts. */
static int signal_by_walk(const struct tree *t, int sig, pid_t spare)
{
	struct procs ps;
	int seen = 0;

	if (t->root <= 0)
		return 0;
	look(t, &ps);
	for (size_t i = 0; i < ps.count; i++) {
		if (!is_member(&ps.list[i], spare))
			continue;
		seen++;
		if (sig)
			kill(ps.list[i].pid, sig);
	}
	free(ps.list);
	return seen;
}

static size_t list_by_walk(const struct tree *t, pid_t spare, pid_t *ret, size_t max)
{
	struct procs ps;
	size_t n = 0;

	if (t->root <= 0)
		return 0;
	look(t, &ps);
	for (size_t i = 0; i < ps.count && n < max; i++)
		if (is_member(&ps.list[i], spare))
			ret[n++] = ps.list[i].pid;
	free(ps.list);
	return n;
}

void tree_keep_current(struct tree *t, pid_t shell)
{
	struct procs ps;

	free(t->keep);
	t->keep = NULL;
	t->keep_count = 0;
	if (t->fd >= 0)
		return;
	scan(&ps);
	mark_inside(t, shell, &ps);
	t->keep = calloc(TREE_KEEP_MAX, sizeof(*t->keep));
	for (size_t i = 0; t->keep && i < ps.count && t->keep_count < TREE_KEEP_MAX; i++)
		if (is_member(&ps.list[i], shell))
			t->keep[t->keep_count++] =
				(struct tree_proc){ps.list[i].pid, ps.list[i].start};
	free(ps.list);
}

/* With a cgroup. */

static void group_name(char *ret, size_t size, uint32_t id)
{
	snprintf(ret, size, "e%u", (unsigned)id);
}

static int write_at(int dir_fd, const char *file, const char *text)
{
	autoclose int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

static int write_pid(int dir_fd, const char *file, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	return write_at(dir_fd, file, text);
}

/* Sends sig (0: none) to every member but spare; returns how many there are. */
static int signal_group(const struct tree *t, int sig, pid_t spare)
{
	autofree char *text = NULL;
	int seen = 0;

	if (fd_read_file(t->fd, "cgroup.procs", PROCS_BYTES_MAX, &text, NULL) < 0)
		return 0;
	for (char *at = text, *line; (line = strsep(&at, "\n"));) {
		pid_t pid = atoi(line);

		if (pid <= 0 || pid == spare)
			continue;
		seen++;
		if (sig)
			kill(pid, sig);
	}
	return seen;
}

static size_t list_group(const struct tree *t, pid_t spare, pid_t *ret, size_t max)
{
	autofree char *text = NULL;
	size_t n = 0;

	if (fd_read_file(t->fd, "cgroup.procs", PROCS_BYTES_MAX, &text, NULL) < 0)
		return 0;
	for (char *at = text, *line; n < max && (line = strsep(&at, "\n"));) {
		pid_t pid = atoi(line);

		if (pid > 0 && pid != spare)
			ret[n++] = pid;
	}
	return n;
}

/* Frozen members cannot fork, but they do die: so this ends, however fast they were forking. */
static int kill_group_but(const struct tree *t, pid_t spare)
{
	int seen = 0, left;

	write_at(t->fd, "cgroup.freeze", "1");
	for (int round = 0; round < WALK_ROUNDS; round++) {
		left = signal_group(t, SIGKILL, spare);
		if (left > seen)
			seen = left;
		if (left == 0)
			break;
	}
	write_at(t->fd, "cgroup.freeze", "0");
	return seen;
}

static int kill_group(const struct tree *t, pid_t spare)
{
	int seen;

	if (spare)
		return kill_group_but(t, spare);
	seen = signal_group(t, 0, 0);
	if (seen == 0)
		return 0;
	/* cgroup.kill came with Linux 5.14. */
	return write_at(t->fd, "cgroup.kill", "1") < 0 ? kill_group_but(t, 0) : seen;
}

int tree_init(struct tree *t, int box_group_fd, uint32_t id)
{
	char name[16];

	*t = (struct tree){.fd = -1, .parent_fd = box_group_fd, .id = id};
	if (box_group_fd < 0)
		return 0;
	group_name(name, sizeof(name), id);
	if (mkdirat(box_group_fd, name, GROUP_MODE) < 0 && errno != EEXIST)
		return -errno;
	t->fd = openat(box_group_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->fd < 0 ? -errno : 0;
}

void tree_done(struct tree *t)
{
	char name[16];

	free(take_ptr(t->keep));
	t->keep_count = 0;
	if (t->fd < 0)
		return;
	group_name(name, sizeof(name), t->id);
	if (unlinkat(t->parent_fd, name, AT_REMOVEDIR) < 0 && errno == EBUSY)
		fchmod(t->fd, GROUP_MODE_LEFT);
	fd_close(&t->fd);
}

int tree_enter(struct tree *t, pid_t pid)
{
	return t->fd < 0 ? 0 : write_pid(t->fd, "cgroup.procs", pid);
}

int tree_kill(struct tree *t, pid_t spare)
{
	return t->fd < 0 ? kill_by_walk(t, spare) : kill_group(t, spare);
}

int tree_signal(struct tree *t, int sig, pid_t spare)
{
	return t->fd < 0 ? signal_by_walk(t, sig, spare) : signal_group(t, sig, spare);
}

size_t tree_members(struct tree *t, pid_t spare, pid_t *ret, size_t max)
{
	return t->fd < 0 ? list_by_walk(t, spare, ret, max) : list_group(t, spare, ret, max);
}

void tree_sweep(int box_group_fd)
{
	int fd = box_group_fd < 0 ? -1
				  : openat(box_group_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	struct stat st;

	if (!dir) {
		fd_close(&fd);
		return;
	}
	while ((d = readdir(dir)))
		if (d->d_name[0] == 'e' && d->d_name[1] >= '0' && d->d_name[1] <= '9' &&
		    fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (st.st_mode & 0777) == GROUP_MODE_LEFT)
			unlinkat(fd, d->d_name, AT_REMOVEDIR); /* EBUSY: not yet */
	closedir(dir);
}
