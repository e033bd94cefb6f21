/* Where in the box's tree something is mounted; see target.h.
 *
 * How it works: one name after the other, as realpath(3) does. `done` is the part that was walked,
 * without links; `rest` is what is left. A link that lies on the mount of the box's root is put in
 * front of rest; one on another mount ends the walk, however the path came there: by its spelling,
 * or by a link of the image or the box that leads into a shared directory. done is opened anew for
 * each name, without links: what somebody exchanges meanwhile is refused, not followed. */
#include "guest/target.h"

#include "base/fd.h"
#include "base/limits.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { LINKS_MAX = 40 }; /* as the kernel's own */

struct target_walk {
	int root;
	bool no_links; /* none is followed */
	unsigned links;
	size_t own; /* how much of the end of rest is the caller's path; what is before is links' */
	char done[BOX_PATH_MAX], rest[BOX_PATH_MAX];
};

static int open_done(const struct target_walk *w, int flags, uint64_t resolve)
{
	return guest_open_at(w->root, w->done[0] ? w->done : "/", O_PATH | flags,
			     FD_IN_ROOT | FD_NO_MAGICLINKS | FD_NO_SYMLINKS | resolve);
}

/* Takes the first name off rest; it is empty where there is none. */
static int next_name(struct target_walk *w, char name[static NAME_MAX + 1], bool *ret_own)
{
	const char *start = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(start, "/"), skip;

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	*ret_own = strlen(start) <= w->own;
	memcpy(name, start, len);
	name[len] = 0;
	skip = len + strspn(start + len, "/");
	memmove(w->rest, start + skip, strlen(start + skip) + 1);
	if (*ret_own)
		w->own = strlen(w->rest);
	return 0;
}

/* Puts what the link says in front of rest. */
static int follow(struct target_walk *w, int dir, const char *name)
{
	char to[BOX_PATH_MAX];
	autoclose int on_root = open_done(w, O_DIRECTORY, FD_NO_XDEV);
	ssize_t n;

	if (on_root < 0)
		return on_root == -EXDEV ? -ELOOP : on_root;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	n = readlinkat(dir, name, to, sizeof(to) - 1);
	if (n < 0)
		return -errno;
	if ((size_t)n + 1 + strlen(w->rest) >= sizeof(w->rest))
		return -ENAMETOOLONG;
	if (to[0] == '/')
		w->done[0] = 0;
	to[n] = '/';
	memmove(w->rest + n + 1, w->rest, strlen(w->rest) + 1);
	memcpy(w->rest, to, (size_t)n + 1);
	return 0;
}

/* Only what the caller names is made: a link that leads nowhere stays -ENOENT. */
static int make_place(int dir, const char *name, bool is_dir)
{
	autoclose int file = -1;

	if (is_dir)
		return mkdirat(dir, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
	file = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return file < 0 && errno != EEXIST ? -errno : 0;
}

static int walk_name(struct target_walk *w, const char *name, bool own, bool is_dir)
{
	size_t len = strlen(w->done);
	autoclose int dir = -1;
	struct stat st;
	int r = 0;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		if (len > 0)
			*strrchr(w->done, '/') = 0;
		return 0;
	}
	dir = open_done(w, O_DIRECTORY, 0);
	if (dir < 0)
		return dir;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT && own ? make_place(dir, name, w->rest[0] || is_dir) : -errno;
	else if (S_ISLNK(st.st_mode))
		return w->no_links ? -ELOOP : follow(w, dir, name);
	if (r < 0)
		return r;
	if (len + 1 + strlen(name) >= sizeof(w->done))
		return -ENAMETOOLONG;
	w->done[len] = '/';
	memcpy(w->done + len + 1, name, strlen(name) + 1);
	return 0;
}

/* What the box is run by. A link of the box's own could lead a later mount over it. */
static bool is_own_place(const char *path)
{
	static const char *const places[] = {"/proc", "/sys", "/dev"};

	if (!path[0])
		return true;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t n = strlen(places[i]);

		if (strncmp(path, places[i], n) == 0 && (!path[n] || path[n] == '/'))
			return true;
	}
	return false;
}

static int walk(struct target_walk *w, const char *path, bool is_dir)
{
	char name[NAME_MAX + 1];
	bool own;
	int r;

	w->own = strlen(path);
	if (w->own >= sizeof(w->rest))
		return -ENAMETOOLONG;
	/* Mostly all of it is there and no part is a link. */
	memcpy(w->done, path, w->own + 1);
	r = open_done(w, 0, 0);
	if (r >= 0)
		return r;
	w->done[0] = 0;
	memcpy(w->rest, path, w->own + 1);
	do {
		r = next_name(w, name, &own);
		if (r == 0 && name[0])
			r = walk_name(w, name, own, is_dir);
	} while (r == 0 && name[0]);
	/* Also where it leads to nothing: whoever makes what is there may do so later. */
	if ((r == 0 || (r == -ENOENT && w->done[0])) && w->links > 0 && is_own_place(w->done))
		return -ELOOP;
	return r < 0 ? r : open_done(w, 0, 0);
}

int guest_target_open(int root, const char *path, bool is_dir)
{
	struct target_walk w = {.root = root};

	return walk(&w, path, is_dir);
}

int guest_target_below(int top, const char *path, bool is_dir)
{
	struct target_walk w = {.root = top, .no_links = true};

	return walk(&w, path, is_dir);
}
