/*
 * A box's cgroup; see cgroup.h.
 *
 * As root the groups are below <mount>/cove. An ordinary user can only have them where its own
 * group is delegated to it (a systemd user service, say); elsewhere there is none and the caller is
 * told. init gets the directory's descriptor and, through ownership, the right to make groups below
 * it and to move processes between them: the files of the box's own group, where limits will be,
 * stay ours.
 */
#include "cgroup/cgroup.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define CGROUP_COMMANDS_MAX "4096"

enum { CGROUP2_MAGIC = 0x63677270, EMPTY_WAIT_MS = 2000, EMPTY_TRIES = 50 };

/* Where the unified hierarchy is mounted, or NULL. */
static const char *find_mount(void)
{
	static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	struct statfs fs;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (statfs(places[i], &fs) == 0 && fs.f_type == CGROUP2_MAGIC)
			return places[i];
	return NULL;
}

/* This process's own group: "0::/path" in /proc/self/cgroup. */
static bool own_group(const char *mount, char *ret, size_t size)
{
	autofree char *text = NULL;
	char *line, *end;

	if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", 65536, &text, NULL) < 0)
		return false;
	line = str_starts(text, "0::") ? text : strstr(text, "\n0::");
	if (!line)
		return false;
	line = strchr(line, '/');
	end = line ? strchr(line, '\n') : NULL;
	if (!end)
		return false;
	*end = 0;
	return path_join(ret, size, mount, line);
}

/* The directory that holds all boxes' groups. */
static int open_base(bool make, char *why, size_t why_size)
{
	const char *mount = find_mount();
	char parent[1024], path[1100];
	int fd;

	if (!mount) {
		snprintf(why, why_size, "there is no cgroup v2 mount");
		return -ENOENT;
	}
	if (geteuid() == 0)
		str_copy(parent, sizeof(parent), mount);
	else if (!own_group(mount, parent, sizeof(parent)))
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/cove", parent);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT && make) {
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	}
	return fd < 0 ? -errno : fd;
}

/* To let its owner move processes between the groups it makes. */
static int give_to(int fd, uid_t uid, gid_t gid)
{
	if (fchown(fd, uid, gid) < 0 || fchownat(fd, "cgroup.procs", uid, gid, 0) < 0)
		return -errno;
	return 0;
}

/* What init may make below is bounded: commands' groups, below work/. */
static int bound(int fd)
{
	static const char *const files[][2] = {{"cgroup.max.depth", "2"},
					       {"cgroup.max.descendants", CGROUP_COMMANDS_MAX}};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		autoclose int file = openat(fd, files[i][0], O_WRONLY | O_CLOEXEC);
		int r = file < 0 ? -errno : fd_write_full(file, files[i][1], strlen(files[i][1]));

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_part(int fd, const char *name, uid_t uid, gid_t gid, int *ret_fd)
{
	autoclose int part = -1;
	int r;

	if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	part = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = part < 0 ? -errno : give_to(part, uid, gid);
	if (r == 0)
		*ret_fd = take_fd(part);
	return r;
}

static void cgroup_clear(struct cgroup *cg)
{
	memset(cg, 0, sizeof(*cg));
	cg->fd = cg->init_fd = cg->work_fd = -1;
	for (int i = 0; i < CGROUP_PART_COUNT; i++)
		cg->v1_fd[i] = cg->v1_work_fd[i] = -1;
	for (int i = 0; i < CGROUP_JOIN_MAX; i++)
		cg->join_fd[i] = -1;
}

int cgroup_make(const char *box, const struct cgroup_limits *limits, uid_t owner_uid,
		gid_t owner_gid, struct cgroup *ret, struct err *e)
{
	char *why = ret->why[CGROUP_TREE];
	autoclose int base = -1;
	int r;

	cgroup_clear(ret);
	snprintf(why, CGROUP_WHY_MAX, "cgroup v2 is not delegated to this user");
	base = open_base(true, why, CGROUP_WHY_MAX);
	if (base < 0)
		return 0;
	if (mkdirat(base, box, 0755) < 0 && errno != EEXIST) {
		/* Somebody else's groups, a read-only mount: the same as having none. */
		if (errno == EACCES || errno == EPERM || errno == EROFS)
			return 0;
		return err_errno(e, errno, "make cgroup '%s'", box);
	}
	ret->fd = openat(base, box, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (ret->fd < 0)
		return err_errno(e, errno, "open cgroup '%s'", box);
	r = bound(ret->fd);
	if (r == 0)
		r = give_to(ret->fd, owner_uid, owner_gid);
	if (r == 0)
		r = make_part(ret->fd, "init", owner_uid, owner_gid, &ret->init_fd);
	if (r == 0)
		r = make_part(ret->fd, "work", owner_uid, owner_gid, &ret->work_fd);
	if (r < 0) {
		cgroup_done(ret);
		cgroup_remove(box, NULL);
		return err_errno(e, -r, "delegate cgroup '%s'", box);
	}
	why[0] = 0;
	ret->can = 1u << CGROUP_TREE;
	return 0;
}

static int kill_at(int fd)
{
	autoclose int kill_fd = openat(fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);

	if (kill_fd < 0)
		return -errno;
	return fd_write_full(kill_fd, "1", 1);
}

void cgroup_done(struct cgroup *cg)
{
	fd_close(&cg->fd);
	fd_close(&cg->init_fd);
	fd_close(&cg->work_fd);
	for (int i = 0; i < CGROUP_PART_COUNT; i++) {
		fd_close(&cg->v1_fd[i]);
		fd_close(&cg->v1_work_fd[i]);
	}
	for (int i = 0; i < CGROUP_JOIN_MAX; i++)
		fd_close(&cg->join_fd[i]);
}

static bool is_populated(int events_fd)
{
	char text[128];
	ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = 0;
	return strstr(text, "populated 1") != NULL;
}

/* cgroup.events raises POLLPRI when the last process is gone. */
static void wait_empty(int fd)
{
	autoclose int events = openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	for (int i = 0; events >= 0 && i < EMPTY_TRIES && is_populated(events); i++) {
		struct pollfd p = {.fd = events, .events = POLLPRI};

		if (poll(&p, 1, EMPTY_WAIT_MS) <= 0)
			return;
	}
}

static void remove_children(int fd, int depth)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;

	if (!dir) {
		fd_close(&copy);
		return;
	}
	while ((d = readdir(dir)))
		if (d->d_type == DT_DIR && d->d_name[0] != '.') {
			autoclose int below = depth > 0 ? openat(fd, d->d_name,
								 O_RDONLY | O_DIRECTORY | O_CLOEXEC)
							: -1;

			if (below >= 0)
				remove_children(below, depth - 1);
			unlinkat(fd, d->d_name, AT_REMOVEDIR);
		}
	closedir(dir);
}

int cgroup_remove(const char *box, struct err *e)
{
	static const char *const parts[] = {"init", "work"};
	char why[128], path[NAME_MAX + 8];
	autoclose int base = open_base(false, why, sizeof(why));
	autoclose int fd = -1;

	if (base < 0)
		return 0;
	/* The usual case: everything has ended and no group is left but init's own. */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", box, parts[i]);
		unlinkat(base, path, AT_REMOVEDIR);
	}
	if (unlinkat(base, box, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	fd = openat(base, box, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "open cgroup '%s'", box);
	kill_at(fd);
	wait_empty(fd);
	remove_children(fd, 1);
	if (unlinkat(base, box, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_errno(e, errno, "remove cgroup '%s'", box);
	return 0;
}

int cgroup_each(void (*on_box)(const char *box, void *arg), void *arg)
{
	char why[128];
	int base = open_base(false, why, sizeof(why));
	DIR *dir = base < 0 ? NULL : fdopendir(base);
	struct dirent *d;

	if (!dir) {
		fd_close(&base);
		return 0;
	}
	while ((d = readdir(dir)))
		if (d->d_type == DT_DIR && d->d_name[0] != '.')
			on_box(d->d_name, arg);
	closedir(dir);
	return 0;
}
