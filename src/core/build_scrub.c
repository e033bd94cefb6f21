/* Taking Cove's own traces out of a layer; see build_scrub.h. */
#include "core/build_scrub.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "storage/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BELOW (FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS)

/* Where guest/guest.h mounts something in every box. */
static const char *const own_places[] = {"proc",      "sys",	      "dev",
					 "etc/hosts", "etc/hostname", "etc/resolv.conf"};

/* guest/trust.h: its layer lies between the image and what a box writes. */
static const char *const trust_dirs[] = {"etc",
					 "etc/ssl",
					 "etc/ssl/certs",
					 "usr",
					 "usr/local",
					 "usr/local/share",
					 "usr/local/share/ca-certificates"};
#define TRUST_NAME  "cove-box"
#define CERTS_DIR   "etc/ssl/certs"
#define BUNDLE	    "ca-certificates.crt"
#define LOCAL_CERTS "usr/local/share/ca-certificates"

static bool is_absent(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static bool is_below(const struct build_scrub *s, const char *path)
{
	struct stack_entry have;

	return stack_find(s->below, path, &have) == 0;
}

/* ---- places ---- */

/* Removes what is empty at a path, and directories above it that are then and that the image does
 * not have. */
static int drop_place(int root_fd, const struct build_scrub *s, const char *place)
{
	char path[BOX_PATH_MAX];

	place += strspn(place, "/");
	if (!str_copy(path, sizeof(path), place))
		return 0;
	for (size_t n = strlen(path); n > 0 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	while (*path) {
		char *slash = strrchr(path, '/');
		const char *name = slash ? slash + 1 : path;
		autoclose int dir = -1;
		struct stat st;

		if (slash)
			*slash = 0;
		dir = fd_openat2(root_fd, slash ? path : ".", O_RDONLY | O_DIRECTORY, 0, BELOW);
		if (dir < 0)
			return is_absent(dir) ? 0 : dir;
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : -errno;
		if (S_ISDIR(st.st_mode)) {
			if (unlinkat(dir, name, AT_REMOVEDIR) < 0)
				return errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno;
		} else if (S_ISREG(st.st_mode) && st.st_size == 0) {
			if (unlinkat(dir, name, 0) < 0)
				return -errno;
		} else {
			return 0;
		}
		if (!slash || is_below(s, path))
			return 0;
	}
	return 0;
}

static int drop_all(int root_fd, const struct build_scrub *s, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char above[BOX_PATH_MAX];
	autoclose int dir = -1;
	int r;

	snprintf(above, sizeof(above), ".%.*s", (int)(slash - path), path);
	dir = fd_openat2(root_fd, above, O_RDONLY | O_DIRECTORY, 0, BELOW);
	if (dir < 0)
		return is_absent(dir) ? 0 : err_errno(e, -dir, "open '%.100s'", path);
	r = tree_remove(dir, slash + 1, e);
	/* Directories above it that are there only because of it. */
	if (r == 0 && slash > path && !is_below(s, above + 2))
		r = drop_place(root_fd, s, above + 1);
	return r;
}

/* ---- certificates ---- */

size_t build_scrub_pem(char *text, size_t len, const char *pem)
{
	static const char begin[] = "-----BEGIN", end[] = "-----END CERTIFICATE-----";

	while ((pem = strstr(pem, begin))) {
		const char *last = strstr(pem, end);
		size_t n = last ? (size_t)(last - pem) + sizeof(end) - 1 : 0;
		char *at;

		if (!last)
			break;
		while ((at = memmem(text, len, pem, n))) {
			size_t cut = n;

			while (at + cut < text + len && (at[cut] == '\n' || at[cut] == '\r'))
				cut++;
			memmove(at, at + cut, len - (size_t)(at - text) - cut);
			len -= cut;
		}
		pem = last;
	}
	return len;
}

/* The same as in the image? Then there is no need for it. */
static bool is_same_below(const struct build_scrub *s, const char *path, const char *text,
			  size_t len)
{
	struct stack_entry have;
	autofree char *theirs = NULL;
	autoclose int fd = -1;
	size_t n;

	if (stack_find(s->below, path, &have) < 0 || !S_ISREG(have.st.st_mode) ||
	    (uint64_t)have.st.st_size > 2 * TRUST_BUNDLE_MAX)
		return false;
	fd = stack_open_file(s->below, &have, path);
	return fd >= 0 && fd_read_regular(fd, 2 * TRUST_BUNDLE_MAX, &theirs, &n) == 0 && n == len &&
	       memcmp(theirs, text, n) == 0;
}

static int scrub_bundle(int certs_fd, const struct build_scrub *s)
{
	autoclose int fd = fd_openat2(certs_fd, BUNDLE, O_RDWR | O_NONBLOCK, 0, BELOW);
	autofree char *text = NULL;
	struct stat st;
	size_t len, left;
	int r;

	if (fd < 0)
		return is_absent(fd) || fd == -ENXIO ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > 2 * TRUST_BUNDLE_MAX)
		return 0;
	r = fd_read_regular(fd, 2 * TRUST_BUNDLE_MAX, &text, &len);
	if (r < 0)
		return r;
	left = build_scrub_pem(text, len, s->pem);
	if (left == len)
		return 0;
	if (is_same_below(s, CERTS_DIR "/" BUNDLE, text, left))
		return unlinkat(certs_fd, BUNDLE, 0) < 0 ? -errno : 0;
	if (lseek(fd, 0, SEEK_SET) < 0 || ftruncate(fd, 0) < 0)
		return -errno;
	r = fd_write_full(fd, text, left);
	if (r == 0 && futimens(fd, (struct timespec[2]){st.st_mtim, st.st_mtim}) < 0)
		r = -errno;
	return r;
}

/* Is it one of ours, or a link to it (by the hash of its name)? */
static bool is_ours(int dir_fd, const char *name)
{
	char target[256];
	ssize_t n;

	if (str_starts(name, TRUST_NAME "."))
		return true;
	n = readlinkat(dir_fd, name, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = 0;
	return strstr(target, TRUST_NAME ".pem") || strstr(target, TRUST_NAME ".crt");
}

static int drop_ours(int root_fd, const char *path, const struct build_scrub *s, bool has_bundle)
{
	int fd = fd_openat2(root_fd, path, O_RDONLY | O_DIRECTORY, 0, BELOW), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		r = fd < 0 ? fd : -errno;
		fd_close(&fd);
		return is_absent(r) ? 0 : r;
	}
	while (r == 0 && (d = readdir(dir)))
		if (is_ours(dirfd(dir), d->d_name) && unlinkat(dirfd(dir), d->d_name, 0) < 0)
			r = -errno;
	if (r == 0 && has_bundle)
		r = scrub_bundle(dirfd(dir), s);
	closedir(dir);
	return r;
}

/* A directory that was copied up from the layer of certificates is as the image's own again; one
 * that now holds nothing goes. */
static int restore_dir(int root_fd, const struct build_scrub *s, const char *path)
{
	autoclose int fd = fd_openat2(root_fd, path, O_RDONLY | O_DIRECTORY, 0, BELOW);
	struct stack_entry have;
	struct stat st;

	if (fd < 0)
		return is_absent(fd) ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (stack_find(s->below, path, &have) < 0 || !S_ISDIR(have.st.st_mode) ||
	    (st.st_mode & 07777) != 0755 || st.st_uid != 0 || st.st_gid != 0)
		return 0;
	if (have.st.st_uid != st.st_uid || have.st.st_gid != st.st_gid)
		if (fchown(fd, have.st.st_uid, have.st.st_gid) < 0)
			return -errno;
	return fchmod(fd, have.st.st_mode & 07777) < 0 ? -errno : 0;
}

static int scrub_trust(int root_fd, const struct build_scrub *s)
{
	int r = drop_ours(root_fd, CERTS_DIR, s, true);

	if (r == 0)
		r = drop_ours(root_fd, LOCAL_CERTS, s, false);
	for (size_t i = 0; i < sizeof(trust_dirs) / sizeof(trust_dirs[0]) && r == 0; i++)
		r = restore_dir(root_fd, s, trust_dirs[i]);
	return r;
}

int build_scrub_run(int root_fd, const struct build_scrub *s, struct err *e)
{
	int r = s->pem ? scrub_trust(root_fd, s) : 0;

	for (size_t i = 0; s->places && i < s->places->count && r == 0; i++)
		r = drop_place(root_fd, s, s->places->list[i]);
	for (size_t i = 0; i < sizeof(own_places) / sizeof(own_places[0]) && r == 0; i++)
		r = drop_place(root_fd, s, own_places[i]);
	if (r < 0)
		return err_errno(e, -r, "take Cove's own files out of the new layer");
	for (size_t i = 0; s->drops && i < s->drops->count && r == 0; i++)
		r = drop_all(root_fd, s, s->drops->list[i], e);
	return r;
}
