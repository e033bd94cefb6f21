/* What comes out of a box, onto this host; see onto_host.h. */
#include "core/onto_host.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int onto_host_write(int fd, const void *p, size_t n)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	size_t done = 0;

	while (done < n) {
		ssize_t r = write(fd, (const char *)p + done, n - done);

		if (r >= 0)
			done += (size_t)r;
		else if (errno == EAGAIN)
			poll(&wait, 1, -1);
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int fail_write(int code, const char *what, uint64_t bytes, struct err *e)
{
	if (code == ENOSPC || code == EDQUOT)
		return err_set(e, ERR_FULL, code,
			       "the disk is full: '%.120s' was not copied (%llu bytes "
			       "had come); free some space or choose another place",
			       what, (unsigned long long)bytes);
	return err_errno(e, code, "write '%.150s'", what);
}

/* ---- the destination ---- */

static int open_dir(const char *path, int *ret_fd, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no directory '%.80s' to copy to; make it (mkdir -p), or "
			       "choose another place",
			       path);
	if (fd < 0)
		return err_errno(e, errno, "open the directory '%.150s'", path);
	*ret_fd = fd;
	return 0;
}

/* An existing directory: what comes goes inside it, under its own name. */
static int into_dir(struct onto_host *g, const char *host_path, const char *box_path, struct err *e)
{
	char path[BOX_PATH_MAX];
	const char *base;

	if (!str_copy(path, sizeof(path), box_path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "a path is too long");
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	base = path_base(path);
	/* The home's own name is not known here: its content comes, as with ".". */
	if (strcmp(path, "~") != 0 && path_is_safe_relative(base) &&
	    !str_copy(g->name, sizeof(g->name), base))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "'%.100s' is too long a name", base);
	return open_dir(host_path, &g->parent_fd, e);
}

/* A name of its own, new or to be replaced. */
static int as_name(struct onto_host *g, const char *host_path, struct err *e)
{
	char path[BOX_PATH_MAX], *slash;
	size_t n = strlen(host_path);

	if (!str_copy(path, sizeof(path), host_path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "a path is too long");
	g->must_be_dir = n > 0 && host_path[n - 1] == '/';
	for (; n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	if (!path_is_safe_relative(path_base(path)) ||
	    !str_copy(g->name, sizeof(g->name), path_base(path)))
		return err_set(e, ERR_INVALID, EINVAL, "'%.150s' is no name for a file", host_path);
	slash = strrchr(path, '/');
	if (!slash)
		return open_dir(".", &g->parent_fd, e);
	slash[slash == path ? 1 : 0] = 0;
	return open_dir(path, &g->parent_fd, e);
}

static int find_parent(struct onto_host *g, const char *host_path, const char *box_path,
		       struct err *e)
{
	struct stat st, link;

	if (!*host_path)
		return err_set(e, ERR_INVALID, EINVAL, "the destination is empty");
	if (stat(host_path, &st) < 0)
		return errno == ENOENT ? as_name(g, host_path, e)
				       : err_errno(e, errno, "look at '%.150s'", host_path);
	if (S_ISDIR(st.st_mode))
		return into_dir(g, host_path, box_path, e);
	/* A pipe or device that was named is a place to write to, and so is what /dev/stdout and
	 * its like lead to. Any other link is replaced: an earlier copy may have brought it from a
	 * box. */
	if (lstat(host_path, &link) < 0)
		return err_errno(e, errno, "look at '%.150s'", host_path);
	if (S_ISLNK(link.st_mode))
		g->in_place = str_starts(host_path, "/dev/") || str_starts(host_path, "/proc/");
	else
		g->in_place = !S_ISREG(st.st_mode);
	return g->in_place ? 0 : as_name(g, host_path, e);
}

int onto_host_find(struct onto_host *g, const char *host_path, const char *box_path, struct err *e)
{
	int r = find_parent(g, host_path, box_path, e);

	if (r < 0 || !g->in_place)
		return r;
	g->file_fd = open(host_path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
	return g->file_fd < 0 ? err_errno(e, errno, "open '%.150s'", host_path) : 0;
}

/* ---- entries ---- */

/* The directory an entry lies in (borrowed) and its name there. */
static int locate(struct onto_host *g, const char *path, int *ret_dir, const char **ret_name,
		  struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	char dir[BOX_PATH_MAX];

	if (!*path) {
		*ret_dir = g->parent_fd;
		*ret_name = g->name;
		return 0;
	}
	if (!path_is_safe_relative(path) || len >= sizeof(dir))
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the box sent a path that is not allowed: '%.150s'", g->shown);
	if (g->root_fd < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the box sent '%.150s' without its directory", g->shown);
	memcpy(dir, path, len);
	dir[len] = 0;
	*ret_name = slash ? slash + 1 : path;
	*ret_dir = g->root_fd;
	if (len == 0)
		return 0;
	if (g->dir_fd < 0 || strcmp(dir, g->dir_path) != 0) {
		fd_close(&g->dir_fd);
		g->dir_fd = fd_openat2(g->root_fd, dir, O_PATH | O_DIRECTORY, 0,
				       FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
		if (g->dir_fd == -ELOOP || g->dir_fd == -EXDEV || g->dir_fd == -ENOTDIR)
			return err_set(e, ERR_DENIED, EPERM,
				       "'%.150s' would go through a link or a file; it "
				       "was not copied",
				       g->shown);
		if (g->dir_fd < 0)
			return err_errno(e, -g->dir_fd, "open the directory of '%.150s'", g->shown);
		memcpy(g->dir_path, dir, len + 1);
	}
	*ret_dir = g->dir_fd;
	return 0;
}

/* Its permissions as they came; for group and others to write only where the umask let them when it
 * was made. */
static int finish_mode(int fd, unsigned mode, uint64_t mtime_ns)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(mtime_ns / 1000000000u),
		 .tv_nsec = (long)(mtime_ns % 1000000000u)},
	};
	struct stat st;

	if (fstat(fd, &st) < 0 || fchmod(fd, (st.st_mode & mode & 0022) | (mode & 0755)) < 0)
		return -errno;
	return mtime_ns && futimens(fd, times) < 0 ? -errno : 0;
}

/* Finishes the directories that an entry at path is not below; all of them for NULL. */
static int leave_dirs(struct onto_host *g, const char *path, struct err *e)
{
	while (g->dir_count > 0) {
		const struct onto_dir *d = &g->dirs[g->dir_count - 1];
		size_t n = d->path_len;
		int fd, r;

		if (path && (n == 0 || (strncmp(path, g->made_path, n) == 0 && path[n] == '/')))
			break;
		g->made_path[n] = 0;
		fd = fd_openat2(g->root_fd, n ? g->made_path : ".", O_RDONLY | O_DIRECTORY, 0,
				FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
		r = fd < 0 ? fd : finish_mode(fd, d->mode, d->mtime_ns);
		fd_close(&fd);
		g->dir_count--;
		if (r < 0)
			return err_errno(e, -r, "finish the directory '%.150s'", g->made_path);
	}
	return 0;
}

static void set_temp(struct onto_host *g)
{
	char token[17];

	rand_hex(token, 8);
	snprintf(g->temp, sizeof(g->temp), ".cove-%s", token);
}

static int begin_file(struct onto_host *g, int dir_fd, const char *name, const struct wire_entry *m,
		      struct err *e)
{
	if (!*name || g->must_be_dir)
		return err_set(e, ERR_INVALID, ENOTDIR,
			       "the destination is a directory, '%.150s' a file", g->shown);
	set_temp(g);
	if (!str_copy(g->file_name, sizeof(g->file_name), name))
		return err_errno(e, ENAMETOOLONG, "write '%.150s'", g->shown);
	g->file_fd = openat(dir_fd, g->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    (mode_t)(m->mode & 0777));
	if (g->file_fd < 0)
		return fail_write(errno, g->shown, g->bytes, e);
	/* The entry's directory stays what it is until the next entry. */
	g->file_dir_fd = dir_fd;
	g->file = *m;
	g->has_holes = false;
	return 0;
}

static int end_file(struct onto_host *g, struct err *e)
{
	struct stat st = {0};
	int r = 0;

	/* The last hole may be its end. */
	if (g->has_holes && ftruncate(g->file_fd, lseek(g->file_fd, 0, SEEK_CUR)) < 0)
		r = errno;
	if (r == 0 && !g->in_place)
		r = -finish_mode(g->file_fd, (unsigned)g->file.mode, g->file.mtime_ns);
	if (r == 0 && g->file.links > 1 && fstat(g->file_fd, &st) == 0)
		(void)inodes_add(&g->linked, st.st_dev, st.st_ino, "");
	if (close(take_fd(g->file_fd)) < 0 && r == 0)
		r = errno;
	g->files++;
	if (r == 0 && g->temp[0] &&
	    renameat(g->file_dir_fd, g->temp, g->file_dir_fd, g->file_name) < 0)
		r = errno;
	if (r != 0 && g->temp[0])
		unlinkat(g->file_dir_fd, g->temp, 0);
	g->temp[0] = 0;
	if (r == EISDIR)
		return err_set(e, ERR_EXISTS, EISDIR, "'%.150s' exists and is a directory",
			       g->shown);
	return r != 0 ? fail_write(r, g->shown, g->bytes, e) : 0;
}

static int make_link(struct onto_host *g, int dir_fd, const char *name, const struct wire_entry *m,
		     struct err *e)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(m->mtime_ns / 1000000000u),
		 .tv_nsec = (long)(m->mtime_ns % 1000000000u)},
	};
	const char *target = m->target;
	int r = 0;

	if (!*name || !target || !*target || strlen(target) >= BOX_PATH_MAX)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent a link without a target");
	set_temp(g);
	if (symlinkat(target, dir_fd, g->temp) < 0)
		r = errno;
	else if (m->mtime_ns && utimensat(dir_fd, g->temp, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno;
	else if (renameat(dir_fd, g->temp, dir_fd, name) < 0)
		r = errno;
	if (r != 0)
		unlinkat(dir_fd, g->temp, 0);
	g->temp[0] = 0;
	return r != 0 ? fail_write(r, g->shown, g->bytes, e) : 0;
}

/* Another name of a file that came before: of no other, whatever is there already. */
static int make_hard_link(struct onto_host *g, int dir_fd, const char *name, const char *target,
			  struct err *e)
{
	autoclose int fd = -1;
	char path[32];
	struct stat st;
	int r = 0;

	if (!*name || !target || !path_is_safe_relative(target) || g->root_fd < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent a link without a target");
	fd = fd_openat2(g->root_fd, target, O_PATH, 0,
			FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	if (fd < 0 || fstat(fd, &st) < 0 || !inodes_find(&g->linked, st.st_dev, st.st_ino))
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the box sent '%.150s' as a name of a file that did not come",
			       g->shown);
	set_temp(g);
	/* The file that was looked at, by its descriptor. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, dir_fd, g->temp, AT_SYMLINK_FOLLOW) < 0)
		r = errno;
	else if (renameat(dir_fd, g->temp, dir_fd, name) < 0)
		r = errno;
	/* It is still there also where both were names of one file before. */
	unlinkat(dir_fd, g->temp, 0);
	g->temp[0] = 0;
	return r != 0 ? fail_write(r, g->shown, g->bytes, e) : 0;
}

/* While it is filled its owner can always work in it. One that was there stays as it is. */
static int make_dir(struct onto_host *g, int dir_fd, const char *name, const struct wire_entry *m,
		    struct err *e)
{
	bool is_root = !*m->path, made = false;
	autoclose int fd = -1;

	if (*name) {
		made = mkdirat(dir_fd, name, (m->mode & 0777) | 0700) == 0;
		if (!made && errno != EEXIST)
			return fail_write(errno, g->shown, g->bytes, e);
	}
	fd = openat(dir_fd, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return err_set(e, ERR_EXISTS, ENOTDIR, "'%.150s' exists and is not a directory",
			       g->shown);
	if (fd < 0)
		return err_errno(e, errno, "open the directory '%.150s'", g->shown);
	if (is_root)
		g->root_fd = take_fd(fd);
	if (made && g->dir_count == INIT_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, ELOOP, "'%.150s' is deeper than %u directories",
			       g->shown, INIT_DEPTH_MAX);
	if (made) {
		str_copy(g->made_path, sizeof(g->made_path), m->path);
		g->dirs[g->dir_count++] = (struct onto_dir){.path_len = strlen(m->path),
							    .mode = (unsigned)m->mode,
							    .mtime_ns = m->mtime_ns};
	}
	return 0;
}

static int take_hole(struct onto_host *g, const struct wire_entry *m, struct err *e)
{
	if (m->size > INT64_MAX || lseek(g->file_fd, (off_t)m->size, SEEK_CUR) < 0)
		return fail_write(EFBIG, g->shown, g->bytes, e);
	g->has_holes = true;
	return 0;
}

/* Both texts are the box's word. */
void onto_host_skipped(const struct cove_copy *how, const struct wire_entry *m)
{
	char path[160], why[80];

	core_show(path, sizeof(path), m->path);
	core_show(why, sizeof(why), m->target ? m->target : "it cannot be read");
	how->on_skipped(how->arg, path, why);
}

int onto_host_entry(struct onto_host *g, const struct wire_entry *m, struct err *e)
{
	const char *name;
	struct stat st;
	int dir_fd, r;

	if (m->type == 'z' && g->file_fd >= 0 && !g->in_place)
		return take_hole(g, m, e);
	if ((g->file_fd >= 0 && !g->in_place) || g->began != (*m->path != 0))
		return ONTO_UNEXPECTED;
	g->began = true;
	core_show(g->shown, sizeof(g->shown), *m->path ? m->path : g->name);
	if (g->in_place)
		return m->type == 'f' ? 0
				      : err_set(e, ERR_INVALID, EISDIR, "only a file can go there");
	if (m->type == 'x' && g->how->on_skipped) {
		onto_host_skipped(g->how, m);
		return 0;
	}
	if (m->type != 'f' && m->type != 'd' && m->type != 'l' && m->type != 'h') {
		g->left_out++;
		return 0;
	}
	r = leave_dirs(g, m->path, e);
	if (r == 0)
		r = locate(g, m->path, &dir_fd, &name, e);
	if (r < 0)
		return r;
	if (m->type == 'f')
		r = begin_file(g, dir_fd, name, m, e);
	else if (m->type == 'l')
		r = make_link(g, dir_fd, name, m, e);
	else if (m->type == 'h')
		r = make_hard_link(g, dir_fd, name, m->target, e);
	else
		r = make_dir(g, dir_fd, name, m, e);
	g->has_owner = r < 0 && fstat(dir_fd, &st) == 0;
	if (g->has_owner)
		g->owner = st.st_uid;
	return r;
}

int onto_host_data(struct onto_host *g, const void *p, size_t n, struct err *e)
{
	int r;

	if (g->file_fd < 0)
		return ONTO_UNEXPECTED;
	r = onto_host_write(g->file_fd, p, n);
	return r < 0 ? fail_write(-r, g->shown, g->bytes, e) : 0;
}

int onto_host_file_end(struct onto_host *g, struct err *e)
{
	return g->file_fd >= 0 ? end_file(g, e) : ONTO_UNEXPECTED;
}

int onto_host_end(struct onto_host *g, struct err *e)
{
	return g->file_fd >= 0 || !g->began ? ONTO_UNEXPECTED : leave_dirs(g, NULL, e);
}

struct onto_host *onto_host_new(const struct cove_copy *how)
{
	struct onto_host *g = calloc(1, sizeof(*g));

	if (g)
		g->parent_fd = g->root_fd = g->dir_fd = g->file_fd = -1;
	if (g)
		g->how = how;
	return g;
}

void onto_host_free(struct onto_host *g)
{
	if (!g)
		return;
	/* What did not come whole. */
	if (g->file_fd >= 0 && g->temp[0])
		unlinkat(g->file_dir_fd, g->temp, 0);
	fd_close(&g->file_fd);
	fd_close(&g->dir_fd);
	fd_close(&g->root_fd);
	fd_close(&g->parent_fd);
	inodes_done(&g->linked);
	free(g);
}

int get_find_place(const char *host_path, const char *box_path, struct get_place *ret,
		   struct err *e)
{
	struct onto_host *g = onto_host_new(NULL);
	struct stat st;
	int r = g ? find_parent(g, host_path, box_path, e) : err_errno(e, ENOMEM, "copy");

	if (r == 0 && g->must_be_dir)
		r = err_set(e, ERR_NOT_FOUND, ENOENT,
			    "there is no directory '%.150s'; make it (mkdir -p)", host_path);
	if (r == 0 &&
	    (g->in_place ? stat(host_path, &st)
			 : fstat(g->parent_fd, &st) | faccessat(g->parent_fd, ".", W_OK, 0)) < 0)
		r = err_errno(e, errno, "write '%.150s'", host_path);
	if (r == 0) {
		*ret = (struct get_place){.dev = st.st_dev, .ino = st.st_ino};
		memcpy(ret->name, g->name, sizeof(ret->name));
	}
	onto_host_free(g);
	return r;
}
