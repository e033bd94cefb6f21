/*
 * The keeper confines itself; see confine.h.
 *
 * Files: everything beneath the box's own directory; among the boxes, and among its groups, only
 * directories come and go (the box's is renamed and removed); its socket and its lock on a range of
 * ids are removed; of /proc it reads what is about itself, and how much memory there is. It cannot
 * reach the authority of its door, nor those of others. No TCP, no abstract socket of others.
 * Signals stay free: it ends init, which is older than these rules.
 *
 * As root three capabilities stay: to end processes of other ids (KILL), and to remove what other
 * ids own, in directories that are closed or sticky (DAC_OVERRIDE, FOWNER). An ordinary user's
 * keeper has none to begin with; it deletes from within the box's user namespace, which it holds
 * open (start.c), because no_new_privs leaves it no newuidmap. Where that namespace could not be
 * opened the tree stays until the next `cove` sweeps it up.
 */
#include "keeper/confine.h"

#include "base/caps.h"
#include "base/fd.h"
#include "filter/filter.h"
#include "filter/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT_CAPS (CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_KILL))

/* *ret_can_look: there is no directory that it cannot list. */
static int drop_caps(bool is_root, bool *ret_can_look)
{
	uint32_t left = 0;
	int r;

	/* It runs no program any more: the filter refuses execve, the only call that looks at the
	 * bounding set. no_new_privs, which is on, gives a program no capability that its caller
	 * lacks, and so does this for one that root runs: two locks, and what the set still has
	 * cannot be had from behind either. Who may not set them has nothing to gain. */
	r = is_root ? caps_lock() : 0;
	if (r < 0 && r != -EPERM)
		return r;
	r = caps_keep(is_root ? KEPT_CAPS : 0, 0, &left);
	*ret_can_look = left & CAP_BIT(CAP_DAC_OVERRIDE);
	return r;
}

/* ---- files ---- */

enum {
	READ = LANDLOCK_READ_FILE | LANDLOCK_READ_DIR,
	/* Also to move directories within it, which removing a deep tree does. */
	OWN_TREE = READ | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_MAKE_REG |
		   LANDLOCK_MAKE_DIR | LANDLOCK_REMOVE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REFER,
	GROUP = READ | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_REMOVE_DIR,
	LEAST_ABI = 2, /* before, nothing can be moved to another directory */
};

struct rules {
	int set, abi;
	int r; /* the first failure; what comes after it does nothing */
};

static void allow(struct rules *l, int fd, uint64_t fs)
{
	if (fd >= 0 && l->r == 0)
		l->r = landlock_allow(l->set, l->abi, fd, fs);
}

/* Returns the descriptor, -1 where there is no such file: then there is nothing to allow. */
static int allow_path(struct rules *l, int dir_fd, const char *path, uint64_t fs)
{
	int fd = openat(dir_fd, path, O_PATH | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT && l->r == 0)
		l->r = -errno;
	allow(l, fd, fs);
	return fd;
}

static void allow_below(struct rules *l, int dir_fd, const char *path, uint64_t fs)
{
	int fd = allow_path(l, dir_fd, path, fs);

	fd_close(&fd);
}

/* A box's group, and the directory that it is removed from, which may be open. */
static void allow_group(struct rules *l, int fd, int parent_fd)
{
	enum { PARENT = LANDLOCK_READ_DIR | LANDLOCK_REMOVE_DIR };

	if (fd < 0)
		return;
	allow(l, fd, GROUP);
	if (parent_fd >= 0)
		allow(l, parent_fd, PARENT);
	else
		allow_below(l, fd, "..", PARENT);
}

static int parent_of(const struct cgroup_helper *own, enum cgroup_part part)
{
	return own ? cgroup_helper_parent(own, part) : -1;
}

static void allow_groups(struct rules *l, const struct cgroup *cg, const struct cgroup_helper *own)
{
	allow_group(l, cg->fd, parent_of(own, CGROUP_TREE));
	allow_group(l, cg->v1_acct_fd, -1);
	for (enum cgroup_part i = 0; i < CGROUP_PART_COUNT; i++)
		allow_group(l, cg->v1_fd[i], i == CGROUP_TREE ? -1 : parent_of(own, i));
	/* One that the box has only for init to make others in. */
	if (cg->v1_fd[CGROUP_IO] < 0)
		allow_group(l, cg->v1_work_fd[CGROUP_IO], -1);
}

static int hold_files(const struct confine *c)
{
	/* What a sanitizer's report is made from. */
	static const char *const reports[] = {"/proc", "/usr", "/lib", "/lib64"};
	const struct cgroup *cg = c->cgroup;
	struct rules l = {.abi = landlock_abi()};

	if (l.abi < 0)
		return l.abi;
	if (l.abi < LEAST_ABI)
		return -EOPNOTSUPP;
	l.set = landlock_new(l.abi, LANDLOCK_BIND_TCP | LANDLOCK_CONNECT_TCP,
			     LANDLOCK_ABSTRACT_SOCKETS);
	if (l.set < 0)
		return l.set;
	allow(&l, c->box_fd, OWN_TREE);
	allow(&l, c->volume_fd, OWN_TREE);
	allow(&l, c->volumes_fd, LANDLOCK_REMOVE_DIR);
	allow(&l, c->workspace_fd, LANDLOCK_MAKE_REG | LANDLOCK_WRITE_FILE | LANDLOCK_READ_DIR);
	allow(&l, c->boxes_fd, LANDLOCK_MAKE_DIR | LANDLOCK_REMOVE_DIR);
	allow(&l, c->run_fd, LANDLOCK_REMOVE_DIR);
	allow_below(&l, c->run_fd, c->name, LANDLOCK_REMOVE_FILE);
	if (cg)
		allow_groups(&l, cg, c->own_group);
	/* A rule is about an inode, and /proc makes a new one when it has forgotten a name. A name
	 * that is open is not forgotten, so these descriptors stay until the keeper ends. */
	(void)allow_path(&l, AT_FDCWD, "/proc/self", READ);
	(void)allow_path(&l, AT_FDCWD, "/proc/meminfo", LANDLOCK_READ_FILE);
	if (FILTER_IS_SANITIZED) {
		for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++)
			allow_below(&l, AT_FDCWD, reports[i], READ);
		allow_below(&l, AT_FDCWD, "/proc/self/exe", LANDLOCK_READ_FILE);
	}
	if (l.r == 0)
		l.r = landlock_enter(l.set);
	fd_close(&l.set);
	return l.r;
}

/* ---- the whole ---- */

/* 1: the kernel has none, which is a note. */
static int landlock_error(int r, struct err *e)
{
	if (r != -EOPNOTSUPP)
		return err_set(e, err_kind_of(-r), -r,
			       "hold the keeper to its own files (Landlock): %s: allow "
			       "landlock_create_ruleset, landlock_add_rule and "
			       "landlock_restrict_self where Cove runs",
			       strerror(-r));
	err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
		"landlock: this kernel has none of version %d, or it is not switched on "
		"(lsm=...,landlock on the kernel's command line): the keeper's files are held by "
		"its ids alone",
		LEAST_ABI);
	return 1;
}

static int load_filter(enum filter_kind kind, struct err *e)
{
	int r = filter_load(kind, NULL);

	if (r == -EINVAL || r == -ENOSYS)
		return err_set(e, ERR_UNSUPPORTED, -r,
			       "the keeper has no system-call filter: this kernel has none, use "
			       "one with CONFIG_SECCOMP_FILTER");
	return r < 0 ? err_errno(e, -r, "load the keeper's system-call filter") : 0;
}

int confine_keeper(const struct confine *c, struct err *e)
{
	bool is_root = c->ids->kind == IDS_RANGE, can_look = is_root;
	int files = 0, r = 0;

	/* Leaks are looked for by a process that traces this one. */
	if ((!FILTER_IS_SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(e, ERR_UNSUPPORTED, errno,
			       "confine the keeper: prctl: %s: allow it where Cove runs (the "
			       "filter of a container or service)",
			       strerror(errno));
	r = drop_caps(is_root, &can_look);
	if (r < 0)
		return err_errno(e, -r, "drop the keeper's capabilities");
	files = hold_files(c);
	if (files < 0 && files != -EOPNOTSUPP)
		return landlock_error(files, e);
	r = load_filter(is_root && can_look ? FILTER_KEEPER_ROOT : FILTER_KEEPER, e);
	return r < 0 || files == 0 ? r : landlock_error(files, e);
}
