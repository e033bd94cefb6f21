/* What a box made that does not come to a host directory; see merge.h. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "core/merge.h"
#include "store/guarded.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* "../" at its beginning only, and no more of them than the link is deep: then it stays within,
 * whatever else is a link. */
static bool leads_out(const char *path, const char *target)
{
	size_t depth = 0;

	for (const char *p = path; *p; p++)
		depth += *p == '/';
	while (strncmp(target, "../", 3) == 0 || strcmp(target, "..") == 0) {
		if (depth-- == 0)
			return true;
		target += strlen(target) > 2 ? 3 : 2;
	}
	if (target[0] == '/')
		return true;
	for (const char *p = target; (p = strstr(p, "..")); p += 2)
		if ((p == target || p[-1] == '/') && (p[2] == 0 || p[2] == '/'))
			return true;
	return false;
}

/* A file or link of this name is, in git's eyes, the way to a repository elsewhere; and where the
 * HEAD of one is no file, git looks for a repository further up. */
static bool names_repository(const char *path, unsigned mode)
{
	const char *base = path_base(path);

	if (strcasecmp(base, "HEAD") == 0)
		return !S_ISREG(mode);
	return strcasecmp(base, ".git") == 0 && mode != 0 && !S_ISDIR(mode);
}

/* A repository's directory needs no name: this one was one on the host before. */
static bool is_in_repository(int dir_fd, const char *path)
{
	char dir[STACK_PATH_MAX + 1];
	size_t len = guarded_in_repository(path);
	autoclose int fd = -1;

	if (len == 0)
		return false;
	memcpy(dir, path, len);
	dir[len] = 0;
	fd = fd_openat2(dir_fd, dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
			FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	return fd >= 0 && faccessat(fd, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Through such a link a program of the host would write what does not come back itself. One that
 * does not lead out has its dots at the beginning only. */
static bool leads_to_guarded(const char *path, const char *target)
{
	char full[STACK_PATH_MAX + PATH_MAX + 2];
	size_t n = strlen(path);

	memcpy(full, path, n + 1);
	for (;;) {
		while (n > 0 && full[n - 1] != '/')
			n--;
		if (strncmp(target, "../", 3) != 0)
			break;
		target += 3;
		n -= n > 0;
	}
	snprintf(full + n, sizeof(full) - n, "%s", target);
	return guarded_is(full) || guarded_is_in_git(full);
}

const char *merge_why_left_out(int dir_fd, const char *path, unsigned mode, const char *target,
			       bool trusted)
{
	if (mode && !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode))
		return "neither a file nor a directory nor a link";
	if (trusted)
		return NULL;
	if (guarded_is(path) || names_repository(path, mode) || is_in_repository(dir_fd, path) ||
	    (target && leads_to_guarded(path, target)))
		return "it makes this machine run something: --trust-dir takes it";
	if (target && leads_out(path, target))
		return "a link that leads out of the directory: --trust-dir takes it";
	return NULL;
}
