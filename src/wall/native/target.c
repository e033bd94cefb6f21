/* Where in the box's tree something is mounted; see target.h. */
#include "wall/native/target.h"

#include "base/control.h"
#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int open_place(int root, const char *path, bool is_dir, uint64_t links)
{
	const uint64_t resolve = FD_IN_ROOT | FD_NO_MAGICLINKS | links;
	char prefix[BOX_PATH_MAX];
	int fd = fd_openat2(root, path, O_PATH, 0, resolve);

	if (fd != -ENOENT)
		return fd;
	for (const char *p = path + 1;; p++) {
		autoclose int parent = -1;
		bool last = !*p;
		const char *name;

		if (!last && *p != '/')
			continue;
		if (p == path + 1 || p[-1] == '/') /* the root itself, or a doubled slash */
			goto next;
		if ((size_t)(p - path) >= sizeof(prefix))
			return -ENAMETOOLONG;
		memcpy(prefix, path, (size_t)(p - path));
		prefix[p - path] = 0;
		name = strrchr(prefix, '/') + 1;
		prefix[name - prefix - 1] = 0;
		parent = fd_openat2(root, prefix[0] ? prefix : "/", O_PATH | O_DIRECTORY, 0,
				    resolve);
		if (parent < 0)
			return parent;
		if (!last || is_dir) {
			if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
				return -errno;
		} else {
			int file =
				openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

			if (file < 0 && errno != EEXIST)
				return -errno;
			fd_close(&file);
		}
	next:
		if (last)
			return fd_openat2(root, path, O_PATH, 0, resolve);
	}
}

/* How much of path is the place of another mount that it lies below, the outermost; 0: of none. */
static size_t mount_above(const struct wall_config *c, const char *path)
{
	size_t found = 0;

	for (size_t i = 0; i < c->mount_count; i++) {
		size_t len = strlen(c->mounts[i].dst);

		if (strncmp(path, c->mounts[i].dst, len) == 0 && path[len] == '/' &&
		    (found == 0 || len < found))
			found = len;
	}
	return found;
}

int target_open(const struct wall_config *c, int root, const char *path, bool is_dir)
{
	size_t above = control_is_off("mount-links") ? 0 : mount_above(c, path);
	autoclose int top = -1;
	char prefix[BOX_PATH_MAX];

	if (above == 0)
		return open_place(root, path, is_dir, 0);
	if (above >= sizeof(prefix))
		return -ENAMETOOLONG;
	memcpy(prefix, path, above);
	prefix[above] = 0;
	top = fd_openat2(root, prefix, O_PATH | O_DIRECTORY, 0, FD_IN_ROOT | FD_NO_MAGICLINKS);
	return top < 0 ? top : open_place(top, path + above, is_dir, FD_NO_SYMLINKS);
}
