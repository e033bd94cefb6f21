/* See host_walk.h. */
#include "core/host_walk.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int walk_opened(struct host_walk *w, int fd, struct err *e);

static int walk_link(struct host_walk *w, int dir_fd, const char *name, const struct stat *st,
		     struct err *e)
{
	char target[BOX_PATH_MAX];
	const struct host_entry m = {.type = 'l', .fd = -1, .target = target, .st = st};
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_errno(e, errno, "read the link '%.150s'", w->path);
	target[n] = 0;
	return w->on_entry(w->arg, &m, e);
}

/* What the walk stands on cannot be read: left out and named, or the end. */
static int leave_out(struct host_walk *w, int code, uid_t owner, struct err *e)
{
	bool is_ours = code == EMFILE || code == ENFILE || code == ENOMEM;
	struct err why = {0};
	int r;

	if (w->how->on_skipped && !is_ours) {
		err_set(&why, ERR_DENIED, code, "%s", strerror(code));
		if (w->on_denied)
			w->on_denied(w->arg, owner, &why);
		w->how->on_skipped(w->how->arg, w->path, why.msg);
		return 0;
	}
	r = err_errno(e, code, "read '%.100s'", w->path);
	if (w->on_denied)
		w->on_denied(w->arg, owner, e);
	return r;
}

static int walk_named(struct host_walk *w, int dir_fd, const char *name, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return leave_out(w, errno, (uid_t)-1, e);
	if (S_ISLNK(st.st_mode))
		return walk_link(w, dir_fd, name, &st, e);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		w->left_out++;
		return 0;
	}
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? leave_out(w, errno, st.st_uid, e) : walk_opened(w, fd, e);
}

static int walk_children(struct host_walk *w, int fd, struct err *e)
{
	size_t len = w->len;
	struct dirent *d;
	DIR *dir;
	int r = 0, copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (++w->depth > INIT_DEPTH_MAX)
		r = err_set(e, ERR_LIMIT, ELOOP, "'%.150s' is deeper than %u directories", w->path,
			    INIT_DEPTH_MAX);
	dir = r == 0 && copy >= 0 ? fdopendir(copy) : NULL;
	if (!dir) {
		if (r == 0)
			r = err_errno(e, errno, "list '%.150s'", w->path);
		fd_close(&copy);
		return r;
	}
	while (r == 0 && (errno = 0, d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		w->len = len + (size_t)snprintf(w->path + len, sizeof(w->path) - len, "%s%s",
						len > 0 ? "/" : "", d->d_name);
		if (w->len >= sizeof(w->path))
			r = err_set(e, ERR_LIMIT, ENAMETOOLONG, "a path below '%.100s' is too long",
				    w->path);
		else
			r = walk_named(w, fd, d->d_name, e);
	}
	if (r == 0 && errno != 0)
		r = err_errno(e, errno, "list '%.150s'", w->path);
	closedir(dir);
	w->path[len] = 0;
	w->len = len;
	w->depth--;
	return r;
}

static int walk_opened(struct host_walk *w, int fd, struct err *e)
{
	struct stat st;
	struct host_entry m = {.type = 'f', .fd = fd, .st = &st};
	int r;

	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "read '%.150s'", w->path);
	if (S_ISDIR(st.st_mode)) {
		m.type = 'd';
		r = w->on_entry(w->arg, &m, e);
		return r != 0 ? r : walk_children(w, fd, e);
	}
	if (w->has_hard_links && st.st_nlink > 1 && *w->path) {
		m.target = inodes_find(&w->seen, st.st_dev, st.st_ino);
		if (m.target) {
			m.type = 'h';
			m.fd = -1;
			return w->on_entry(w->arg, &m, e);
		}
		/* One too many to remember: its other names are files of their own. */
		(void)inodes_add(&w->seen, st.st_dev, st.st_ino, w->path);
	}
	return w->on_entry(w->arg, &m, e);
}

int host_walk(struct host_walk *w, int fd, struct err *e)
{
	int r = walk_opened(w, fd, e);

	inodes_done(&w->seen);
	return r;
}
