/*
 * The tree of one command; see tree.h.
 *
 * A group that init_tree_done cannot remove (a daemon lives in it) is marked by mode 0700. The mark
 * is in the kernel's own tree, so init_tree_sweep needs no list, and never removes a group that was
 * just made and is still empty.
 */
#include "init/tree.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/limits.h"
#include "init/fsids.h"
#include "init/tree_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
	GROUP_MODE = 0755,
	GROUP_MODE_LEFT = 0700,
	PROCS_MODE = 0644,
	PROCS_MODE_OPEN = 0666,
};

/* --- the box's groups --- */

/* What a group takes new members through. */
static const char *entry_of(int kind)
{
	return kind == TREE_V2 ? "cgroup.procs" : "tasks";
}

void init_tree_groups_check(struct init_tree_groups *g, char *notes, size_t size)
{
	static const char *const what[TREE_KINDS] = {
		"the box's cgroup",
		"the box's memory cgroup",
		"the box's block I/O cgroup",
	};
	static const char *const so[TREE_KINDS] = {
		"the processes of a command are found by a walk, which is not exact",
		"peak memory and out-of-memory kills are not known per command",
		"I/O is not known per command",
	};

	size_t at;

	notes[0] = '\0';
	for (int i = 0; i < TREE_KINDS; i++) {
		if (g->fd[i] < 0 || faccessat(g->fd[i], entry_of(i), W_OK, 0) == 0)
			continue;
		at = strlen(notes);
		snprintf(notes + at, size - at, "%s cannot be used (%s): %s\n", what[i],
			 strerror(errno), so[i]);
		fd_close(&g->fd[i]);
	}
	/* The members of a v1 group are exactly known, too. */
	if (g->fd[TREE_V2] < 0 && g->fd[TREE_MEMORY] < 0 && g->fd[TREE_IO] < 0 && !notes[0])
		snprintf(notes, size, "no cgroup: %s\n", so[TREE_V2]);
}

/* --- one tree --- */

static void group_name(char *ret, size_t size, uint32_t id)
{
	snprintf(ret, size, "e%u", (unsigned)id);
}

static bool is_whole(const struct init_tree_groups *g, int kind)
{
	return g->once && kind == TREE_MEMORY && g->fd[TREE_V2] >= 0;
}

static int put_text(int dir_fd, const char *file, const char *text)
{
	autoclose int fd = text ? openat(dir_fd, file, O_WRONLY | O_CLOEXEC) : -1;

	if (!text)
		return 0;
	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

static int make_group(struct init_tree *t, int kind, const char *name)
{
	int parent = t->groups->fd[kind], r;

	if (is_whole(t->groups, kind)) {
		t->fd[kind] = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return t->fd[kind] < 0 ? -errno : 0;
	}
	if (mkdirat(parent, name, GROUP_MODE) < 0 && errno != EEXIST)
		return -errno;
	t->fd[kind] = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->fd[kind] < 0)
		return -errno;
	if (kind == TREE_V2) {
		r = put_text(t->fd[kind], "memory.max", t->groups->memory_max);
		return r < 0 ? r : put_text(t->fd[kind], "cpu.max", t->groups->cpu_max);
	}
	if (kind != TREE_MEMORY)
		return 0;
	/* v1 counts a socket's buffers only where the group of its maker counts them, which is not
	 * inherited; the limit is the box's. A kernel that cannot count them has no such file. */
	r = put_text(t->fd[kind], CGROUP_TCP_LIMIT, CGROUP_TCP_COUNTED);
	return r == -ENOENT ? 0 : r;
}

void init_tree_drop_premade(struct init_tree_groups *g)
{
	struct init_tree *t = take_ptr(g->premade);

	if (t)
		init_tree_done(t);
	free(t);
}

void init_tree_premake(struct init_tree_groups *g, uint32_t id)
{
	struct init_tree *t;

	init_tree_drop_premade(g);
	t = calloc(1, sizeof(*t));
	if (!t)
		return;
	if (init_tree_init(t, g, id) < 0 || !init_tree_has_group(t)) {
		init_tree_done(t);
		free(t);
		return;
	}
	for (int i = TREE_V2 + 1; i < TREE_KINDS; i++)
		if (t->fd[i] >= 0)
			t->join_fd[i] = openat(t->fd[i], entry_of(i), O_WRONLY | O_CLOEXEC);
	g->premade = t;
}

int init_tree_init(struct init_tree *t, struct init_tree_groups *g, uint32_t id)
{
	char name[16];
	int r = 0;

	if (g && g->premade && g->premade->id == id) {
		*t = *g->premade;
		free(take_ptr(g->premade));
		return 0;
	}
	*t = TREE_NONE;
	t->groups = g;
	t->id = id;
	group_name(name, sizeof(name), id);
	for (int i = 0; g && r == 0 && i < TREE_KINDS; i++)
		if (g->fd[i] >= 0)
			r = make_group(t, i, name);
	return r;
}

/* Also for a group that the tree has let go of. */
static void remove_group(struct init_tree *t, int kind)
{
	char name[16];

	group_name(name, sizeof(name), t->id);
	if (!(t->groups->once && t->id == 1) && !is_whole(t->groups, kind) &&
	    unlinkat(t->groups->fd[kind], name, AT_REMOVEDIR) < 0 && errno == EBUSY &&
	    fchmodat(t->groups->fd[kind], name, GROUP_MODE_LEFT, 0) == 0)
		t->groups->left = true;
}

void init_tree_done(struct init_tree *t)
{
	int *all[TREE_STATS + 2 * TREE_KINDS];
	size_t n = 0;

	free(take_ptr(t->keep));
	t->keep_count = 0;
	for (int i = 0; i < TREE_KINDS; i++)
		if (t->fd[i] >= 0)
			remove_group(t, i);
	for (int i = 0; i < TREE_STATS; i++)
		all[n++] = &t->stat_fd[i];
	for (int i = 0; i < TREE_KINDS; i++) {
		all[n++] = &t->join_fd[i];
		all[n++] = &t->fd[i];
	}
	fd_close_all(all, n);
}

bool init_tree_has_group(const struct init_tree *t)
{
	for (int i = 0; i < TREE_KINDS; i++)
		if (t->fd[i] >= 0)
			return true;
	return false;
}

/* `tasks` and a 0: of all moves in v1 the one that takes no lock of the whole machine. */
int init_tree_join(const struct init_tree *t, bool v2_too)
{
	int r = 0;

	for (int i = v2_too ? TREE_V2 : TREE_V2 + 1; r == 0 && i < TREE_KINDS; i++) {
		autoclose int fd = t->fd[i] < 0 || t->join_fd[i] >= 0
					   ? -1
					   : openat(t->fd[i], entry_of(i), O_WRONLY | O_CLOEXEC);

		if (t->fd[i] < 0)
			continue;
		if (fd < 0 && t->join_fd[i] < 0)
			return -errno;
		r = fd_write_full(fd < 0 ? t->join_fd[i] : fd, "0", 1);
	}
	return r;
}

static int write_pid(int dir_fd, pid_t pid)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);
	autoclose int fd = openat(dir_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, (size_t)n);
}

/* v1 wants whoever opened the file to be the host's root or to have the process's own uid; the
 * box's root is neither. The box itself sees the file on a read-only mount. */
static int write_pid_as(int dir_fd, pid_t pid, uid_t uid)
{
	uid_t mine = geteuid();
	int r;

	if (fchmodat(dir_fd, "cgroup.procs", PROCS_MODE_OPEN, 0) < 0)
		return -errno;
	if (syscall(SYS_setresuid, -1, uid, -1) < 0) {
		r = -errno;
	} else {
		r = write_pid(dir_fd, pid);
		ASSERT(syscall(SYS_setresuid, -1, mine, -1) == 0);
		fs_ids_leave(); /* what a change of ids took away */
	}
	if (fchmodat(dir_fd, "cgroup.procs", PROCS_MODE, 0) < 0 && r == 0)
		r = -errno;
	return r;
}

int init_tree_enter(struct init_tree *t, pid_t pid, uid_t uid)
{
	int r = t->fd[TREE_V2] < 0 ? 0 : write_pid(t->fd[TREE_V2], pid);

	for (int i = TREE_V2 + 1; r == 0 && i < TREE_KINDS; i++) {
		if (t->fd[i] < 0 || write_pid(t->fd[i], pid) == 0 ||
		    write_pid_as(t->fd[i], pid, uid) == 0)
			continue;
		remove_group(t, i);
		fd_close(&t->fd[i]);
	}
	return r;
}

void init_tree_keep_current(struct init_tree *t, pid_t shell)
{
	free(take_ptr(t->keep));
	t->keep_count = 0;
	if (!init_tree_has_group(t))
		init_walk_keep_current(t, shell);
}

int init_tree_kill(struct init_tree *t, pid_t except_pid)
{
	return init_tree_has_group(t) ? init_group_kill(t, except_pid)
				      : init_walk_kill(t, except_pid);
}

int init_tree_visit(struct init_tree *t, int sig, pid_t except_pid, pid_t *ret, int max)
{
	return init_tree_has_group(t) ? init_group_visit(t, sig, except_pid, ret, max)
				      : init_walk_visit(t, sig, except_pid, ret, max);
}

int init_tree_signal(struct init_tree *t, int sig, pid_t except_pid)
{
	return init_tree_visit(t, sig, except_pid, NULL, 0);
}

/* --- groups that were left --- */

/* True if some stay. */
static bool sweep(int work_fd)
{
	int fd = openat(work_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool left = false;
	struct dirent *d;
	struct stat st;

	if (!dir) {
		fd_close(&fd);
		return true;
	}
	while ((d = readdir(dir)))
		if (d->d_name[0] == 'e' && d->d_name[1] >= '0' && d->d_name[1] <= '9' &&
		    fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (st.st_mode & 0777) == GROUP_MODE_LEFT &&
		    unlinkat(fd, d->d_name, AT_REMOVEDIR) < 0)
			left = true; /* EBUSY: not yet */
	closedir(dir);
	return left;
}

void init_tree_sweep(struct init_tree_groups *g)
{
	bool left = false;

	if (!g->left)
		return;
	for (int i = 0; i < TREE_KINDS; i++)
		if (g->fd[i] >= 0)
			left = sweep(g->fd[i]) || left;
	g->left = left;
}
