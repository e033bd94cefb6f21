/*
 * The broken file operations of host_files.h: open(2) on /proc/<init>/root/<path>. A link in the
 * box that leads to an absolute path is resolved here against the host's root, so whoever swaps one
 * in reads, writes, moves or removes a file of the host.
 *
 * The suite runs this on somebody's machine. Of what lies on the host's own mounts only a path with
 * "canary" in it is ever touched; anything else is an error, so a hit is seen and does no harm.
 */
#include "core/host_files.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 32, MOUNTS_MAX = 1 << 20, LISTED_MAX = 4096 };

/* The keeper is the peer of its socket, init its first child. */
static int find_init(struct cove_box *box, pid_t *ret, struct err *e)
{
	struct core_conn *conn = NULL;
	autofree char *text = NULL;
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);
	char path[64];
	int pid = 0, r = box_conn_get(box, &conn, e);

	if (r < 0)
		return r;
	getsockopt(core_conn_fd(conn), SOL_SOCKET, SO_PEERCRED, &cred, &len);
	box_conn_put(box, conn);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)cred.pid, (int)cred.pid);
	if (fd_read_file(AT_FDCWD, path, 4096, &text, NULL) < 0 || sscanf(text, "%d", &pid) != 1)
		return err_set(e, ERR_UNSUPPORTED, ESRCH, "host-files: init was not found");
	*ret = pid;
	return 0;
}

static int box_side(struct cove_box *box, const char *box_path, char ret[BOX_PATH_MAX],
		    struct err *e)
{
	pid_t pid = 0;
	int r;

	if (box_path[0] != '/')
		return -ENOSYS;
	r = find_init(box, &pid, e);
	if (r < 0)
		return r;
	if (snprintf(ret, BOX_PATH_MAX, "/proc/%d/root%s", (int)pid, box_path) >= (int)BOX_PATH_MAX)
		return err_errno(e, ENAMETOOLONG, "host-files");
	return 0;
}

/* Does fd lie on a mount of this process, that is of the host, at no canary? */
static bool is_precious(int fd)
{
	char link[40], path[BOX_PATH_MAX], id[32], *at;
	autofree char *info = NULL, *mounts = NULL;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n > 0 && (path[n] = 0, strstr(path, "canary")))
		return false;
	snprintf(link, sizeof(link), "/proc/self/fdinfo/%d", fd);
	if (fd_read_file(AT_FDCWD, link, 4096, &info, NULL) < 0 || !(at = strstr(info, "mnt_id:")))
		return true;
	snprintf(id, sizeof(id), "\n%ld ", strtol(at + strlen("mnt_id:"), NULL, 10));
	if (fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_MAX, &mounts, NULL) < 0)
		return true;
	return strncmp(mounts, id + 1, strlen(id + 1)) == 0 || strstr(mounts, id);
}

/* A new file belongs to whoever owns its directory: root's ids cannot be stored in a box. */
static int create(const char *path)
{
	char parent[BOX_PATH_MAX];
	struct stat st;
	int fd, code;

	snprintf(parent, sizeof(parent), "%.*s", (int)(path_base(path) - path), path);
	if (stat(parent, &st) < 0)
		return -1;
	setfsgid(st.st_gid);
	setfsuid(st.st_uid);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
	code = errno;
	setfsuid(geteuid());
	setfsgid(getegid());
	errno = code;
	return fd;
}

static int open_walked(const char *path, int flags, struct err *e)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 && errno == ENOENT && flags == O_WRONLY)
		fd = create(path);
	if (fd < 0)
		return err_errno(e, errno, "host-files: open '%.150s'", path);
	if (is_precious(fd)) {
		close(fd);
		return err_set(e, ERR_DENIED, EPERM, "host-files: '%.150s' led to the host", path);
	}
	return fd;
}

static int copy(int from, int to, struct err *e)
{
	char bytes[16384];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0) {
		int r = fd_write_full(to, bytes, (size_t)n);

		if (r < 0)
			return err_errno(e, -r, "host-files: write");
	}
	return n < 0 ? err_errno(e, errno, "host-files: read") : 0;
}

int host_put_fd(struct cove_box *box, int fd, const char *box_path, struct err *e)
{
	autoclose int to = -1;
	char path[BOX_PATH_MAX];
	int r = box_side(box, box_path, path, e);

	if (r < 0)
		return r;
	to = open_walked(path, O_WRONLY, e);
	if (to < 0)
		return to;
	return ftruncate(to, 0) < 0 ? err_errno(e, errno, "host-files: cut") : copy(fd, to, e);
}

int host_put(struct cove_box *box, const char *host_path, const char *box_path, struct err *e)
{
	autoclose int from = open(host_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char path[BOX_PATH_MAX], target[BOX_PATH_MAX];
	struct stat st;
	int r;

	if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOSYS;
	r = box_side(box, box_path, path, e);
	if (r < 0)
		return r;
	str_copy(target, sizeof(target), box_path);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    !path_join(target, sizeof(target), box_path, path_base(host_path)))
		return err_errno(e, ENAMETOOLONG, "host-files");
	return host_put_fd(box, from, target, e);
}

int host_get_fd(struct cove_box *box, const char *box_path, int fd, struct err *e)
{
	autoclose int from = -1;
	char path[BOX_PATH_MAX];
	struct stat st;
	int r = box_side(box, box_path, path, e);

	if (r < 0)
		return r;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return -ENOSYS;
	from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return from < 0 ? err_errno(e, errno, "host-files: read '%.150s'", path)
			: copy(from, fd, e);
}

int host_get(struct cove_box *box, const char *box_path, const char *host_path, struct err *e)
{
	autoclose int to = -1;
	char path[BOX_PATH_MAX], target[BOX_PATH_MAX];
	struct stat st;
	int r = box_side(box, box_path, path, e);

	if (r < 0)
		return r;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return -ENOSYS;
	str_copy(target, sizeof(target), host_path);
	if (stat(host_path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    !path_join(target, sizeof(target), host_path, path_base(box_path)))
		return err_errno(e, ENAMETOOLONG, "host-files");
	to = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return to < 0 ? err_errno(e, errno, "host-files: write '%.150s'", target)
		      : host_get_fd(box, box_path, to, e);
}

/* Unlinks a name of a directory that was walked to, through whatever links led there. */
static int unlink_walked(const char *path, struct err *e)
{
	char parent[BOX_PATH_MAX];
	const char *base = path_base(path);
	autoclose int fd = -1;

	snprintf(parent, sizeof(parent), "%.*s", (int)(base - path), path);
	fd = open_walked(parent, O_PATH | O_DIRECTORY, e);
	if (fd < 0)
		return fd;
	if (unlinkat(fd, base, 0) == 0 || errno == ENOENT)
		return 0;
	if (unlinkat(fd, base, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return errno == ENOTEMPTY || errno == ENOTDIR ? 1 : err_errno(e, errno, "host-files");
}

/* Follows links to directories, which is what makes it broken. */
static int remove_walked(const char *path, bool recursive, unsigned depth, struct err *e)
{
	char below[BOX_PATH_MAX];
	struct dirent *d;
	DIR *dir;
	int r = 0;

	dir = opendir(path);
	if (dir && recursive && depth > DEPTH_MAX)
		r = err_errno(e, ELOOP, "host-files: remove '%.150s'", path);
	while (dir && recursive && r == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (!path_join(below, sizeof(below), path, d->d_name))
			r = err_errno(e, ENAMETOOLONG, "host-files");
		else
			r = remove_walked(below, true, depth + 1, e);
	}
	if (dir)
		closedir(dir);
	if (r == 0)
		r = unlink_walked(path, e);
	return r > 0 ? err_errno(e, ENOTEMPTY, "host-files: remove '%.150s'", path) : r;
}

static int unlink_file(struct cove_box *box, const char *box_path, bool recursive, struct err *e)
{
	char path[BOX_PATH_MAX];
	int r = box_side(box, box_path, path, e);

	return r < 0 ? r : remove_walked(path, recursive, 0, e);
}

/* The directory that a path's last name is in, through whatever links lead there. */
static int open_parent(struct cove_box *box, const char *box_path, struct err *e)
{
	char path[BOX_PATH_MAX], parent[BOX_PATH_MAX];
	int r = box_side(box, box_path, path, e);

	if (r < 0)
		return r;
	snprintf(parent, sizeof(parent), "%.*s", (int)(path_base(path) - path), path);
	return open_walked(parent, O_PATH | O_DIRECTORY, e);
}

static int make_dir(struct cove_box *box, const char *box_path, unsigned mode, struct err *e)
{
	autoclose int parent = open_parent(box, box_path, e);
	struct stat st;
	int r, code;

	if (parent < 0)
		return parent;
	if (fstat(parent, &st) < 0)
		return err_errno(e, errno, "host-files: stat");
	setfsgid(st.st_gid);
	setfsuid(st.st_uid);
	r = mkdirat(parent, path_base(box_path), mode);
	code = errno;
	setfsuid(geteuid());
	setfsgid(getegid());
	return r < 0 ? err_errno(e, code, "host-files: mkdir '%.150s'", box_path) : 0;
}

static int move_file(struct cove_box *box, const char *from, const char *to, struct err *e)
{
	autoclose int a = open_parent(box, from, e), b = -1;

	if (a < 0)
		return a;
	b = open_parent(box, to, e);
	if (b < 0)
		return b;
	return renameat(a, path_base(from), b, path_base(to)) < 0
		       ? err_errno(e, errno, "host-files: move '%.150s'", from)
		       : 0;
}

static int change_mode(struct cove_box *box, const char *box_path, unsigned mode, struct err *e)
{
	char path[BOX_PATH_MAX], link[40];
	autoclose int fd = -1;
	int r = box_side(box, box_path, path, e);

	if (r < 0)
		return r;
	fd = open_walked(path, O_PATH, e);
	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return chmod(link, mode) < 0 ? err_errno(e, errno, "host-files: chmod '%.150s'", box_path)
				     : 0;
}

int host_change(struct cove_box *box, const struct wire_file *m, struct err *e)
{
	if (m->op == FILE_MKDIR)
		return make_dir(box, m->path, (unsigned)m->mode, e);
	if (m->op == FILE_MOVE)
		return move_file(box, m->path, m->to, e);
	if (m->op == FILE_CHMOD)
		return change_mode(box, m->path, (unsigned)m->mode, e);
	return m->op == FILE_REMOVE ? unlink_file(box, m->path, m->recursive, e) : -ENOSYS;
}

int host_stat(struct cove_box *box, const char *box_path, struct cove_file_info *ret, struct err *e)
{
	char path[BOX_PATH_MAX];
	struct stat st;
	int r = box_side(box, box_path, path, e);

	if (r < 0)
		return r;
	if (lstat(path, &st) < 0)
		return err_errno(e, errno, "host-files: stat '%.150s'", path);
	*ret = (struct cove_file_info){
		.type = S_ISDIR(st.st_mode)   ? 'd'
			: S_ISREG(st.st_mode) ? 'f'
					      : 'o',
		.name = strdup(path_base(box_path)),
		.mode = st.st_mode & 07777,
		.uid = st.st_uid,
		.gid = st.st_gid,
		.size = (uint64_t)st.st_size,
	};
	return ret->name ? 0 : err_errno(e, ENOMEM, "host-files: stat");
}

int host_list(struct cove_box *box, const char *box_path, struct cove_file_info **ret,
	      struct err *e)
{
	char path[BOX_PATH_MAX];
	struct cove_file_info *list;
	struct dirent *d;
	int count = 0, fd, r = box_side(box, box_path, path, e);
	DIR *dir;

	if (r < 0)
		return r;
	fd = open_walked(path, O_RDONLY | O_DIRECTORY, e);
	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	list = calloc(LISTED_MAX, sizeof(*list));
	while (dir && list && count < LISTED_MAX && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
		    (list[count].name = strdup(d->d_name)))
			list[count++].type = d->d_type == DT_DIR ? 'd' : 'f';
	if (dir)
		closedir(dir);
	*ret = list;
	return dir && list ? count : err_errno(e, ENOMEM, "host-files: list");
}

int host_put_data(struct cove_box *box, const void *data, size_t len, const char *box_path,
		  struct err *e)
{
	autoclose int fd = memfd_create("put", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : fd_write_full(fd, data, len);

	if (r < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(e, r < 0 ? -r : errno, "host-files: keep the bytes");
	return host_put_fd(box, fd, box_path, e);
}

int host_get_data(struct cove_box *box, const char *box_path, size_t max, void **ret,
		  size_t *ret_len, struct err *e)
{
	autoclose int fd = memfd_create("get", MFD_CLOEXEC);
	autofree char *bytes = NULL;
	struct stat st;
	int r = fd < 0 ? err_errno(e, errno, "host-files") : host_get_fd(box, box_path, fd, e);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0 || (size_t)st.st_size > max)
		return err_errno(e, EFBIG, "host-files: '%.150s'", box_path);
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes || pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size)
		return err_errno(e, ENOMEM, "host-files: keep the bytes");
	bytes[st.st_size] = 0;
	*ret_len = (size_t)st.st_size;
	*ret = take_ptr(bytes);
	return 0;
}
