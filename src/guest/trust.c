/* What a box trusts; see trust.h. */
#include "guest/trust.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "guest/jks.h"
#include "guest/mount.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TRUST_DIR "cove-trust" /* below /dev and on the scratch, as in GUEST_TRUST_FILE */
#define BUNDLE	  TRUST_DIR "/bundle.pem"
#define OWN	  TRUST_DIR "/box.pem"
#define JAVA	  TRUST_DIR "/cacerts"

/* What Debian's update-ca-certificates calls things. */
#define DEBIAN_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define DEBIAN_LOCAL  "/usr/local/share/ca-certificates"
#define DEBIAN_LINK   "/etc/ssl/certs/cove-box.pem"
#define DEBIAN_OWN    DEBIAN_LOCAL "/cove-box.crt"

/* What a later start adds to a bundle of the box's own stands behind this line. */
#define MARK "# Cove: what this start of the box trusts\n"

/* Debian and Alpine; Fedora; BSD habits. */
static const char *const bundles[] = {
	DEBIAN_BUNDLE,
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/cert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
};

static const char *const java_stores[] = {"/etc/ssl/certs/java/cacerts",
					  "/etc/pki/ca-trust/extracted/java/cacerts"};

enum { JAVA_STORES = sizeof(java_stores) / sizeof(java_stores[0]) };

/* How a tree that somebody played with can fail to have a file. */
static bool is_absent(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES || r == -ENXIO ||
	       r == -EXDEV || r == -ENAMETOOLONG;
}

/* A plain file below root, O_PATH or O_RDONLY. -ENOENT where there is none. */
static int open_plain(int root, const char *path, int flags, struct stat *ret)
{
	autoclose int fd =
		guest_open_at(root, path, flags == O_PATH ? O_PATH : O_RDONLY | O_NONBLOCK,
			      FD_IN_ROOT | FD_NO_MAGICLINKS);

	if (fd < 0)
		return is_absent(fd) ? -ENOENT : fd;
	if (fstat(fd, ret) < 0)
		return -errno;
	return S_ISREG(ret->st_mode) ? take_fd(fd) : -ENOENT;
}

/* The first of a tree's bundles that there is; -ENOENT where there is none. */
static int find_bundle(int root, struct stat *ret)
{
	int fd = -ENOENT;

	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]) && fd == -ENOENT; i++) {
		fd = open_plain(root, bundles[i], O_RDONLY, ret);
		if (fd >= 0 && (ret->st_size == 0 || ret->st_size > TRUST_BUNDLE_MAX)) {
			close(fd);
			fd = -ENOENT;
		}
	}
	return fd;
}

static int copy_bundle(int to, int from, size_t left)
{
	while (left > 0) {
		ssize_t n = sendfile(to, from, NULL, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		left -= (size_t)n;
	}
	/* Its last line may have no end. */
	return fd_write_full(to, "\n", 1);
}

/* A new file on the scratch with this bundle (-1: none) and the authority. */
static int make_file(int scratch, const char *name, int bundle, const struct stat *st,
		     const char *pem)
{
	autoclose int fd = openat(scratch, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	int r = fd < 0 ? -errno : bundle >= 0 ? copy_bundle(fd, bundle, (size_t)st->st_size) : 0;

	return r < 0 ? r : fd_write_full(fd, pem, strlen(pem));
}

/* The same with the bundle of a tree, if it has one. */
static int make_bundle(int scratch, int root, const char *pem)
{
	struct stat st = {0};
	autoclose int from = find_bundle(root, &st);

	return from < 0 && from != -ENOENT ? from : make_file(scratch, BUNDLE, from, &st, pem);
}

/* The bundle in Java's form. */
static int translate_bundle(int to, int scratch)
{
	autofree char *text = NULL;
	struct buf out;
	size_t len = 0;
	int r = fd_read_file(scratch, BUNDLE, 2 * TRUST_BUNDLE_MAX, &text, &len);

	if (r < 0)
		return r;
	buf_init(&out, 2 * TRUST_BUNDLE_MAX);
	r = guest_jks_make(&out, text, len);
	if (r == 0)
		r = fd_write_full(to, buf_data(&out), buf_len(&out));
	buf_done(&out);
	return r;
}

/* 1 if the image has a store, and then there is one of ours: its own and the authority or, where it
 * has another form, the bundle. */
static int make_java(int root, int scratch, const char *pem)
{
	autoclose int store = -ENOENT, to = -1;
	struct stat st = {0};
	int r = -EBADMSG;

	for (size_t i = 0; i < JAVA_STORES && store == -ENOENT; i++)
		store = open_plain(root, java_stores[i], O_RDONLY, &st);
	if (store < 0)
		return store == -ENOENT ? 0 : store;
	to = openat(scratch, JAVA, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	if (to < 0)
		return -errno;
	if (st.st_size <= TRUST_BUNDLE_MAX)
		r = guest_jks_extend(to, store, (size_t)st.st_size, pem);
	if (r == -EBADMSG)
		r = translate_bundle(to, scratch);
	return r < 0 ? r : 1;
}

/* Binds what was made over a file of the image's. Two names may be of the same file. */
static int cover(int root, int scratch, const char *made, const char *path)
{
	struct stat have, own;
	autoclose int place = open_plain(root, path, O_PATH, &have), copy = -1;
	int r;

	if (place < 0)
		return place == -ENOENT ? 0 : place;
	if (fstatat(scratch, made, &own, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (have.st_dev == own.st_dev && have.st_ino == own.st_ino)
		return 0;
	copy = mount_clone(scratch, made, false);
	r = copy < 0 ? copy : mount_set(copy, MA_RDONLY | MA_NOSUID | MA_NODEV | MA_NOEXEC, -1);
	return r < 0 ? r : mount_attach(copy, place, "");
}

static int show_dir(int dev, int scratch)
{
	autoclose int copy = mount_clone(scratch, TRUST_DIR, false);
	int r = copy < 0 ? copy : mount_set(copy, MA_RDONLY | MA_NOSUID | MA_NODEV | MA_NOEXEC, -1);

	if (r == 0 && mkdirat(dev, TRUST_DIR, 0755) < 0)
		r = -errno;
	return r < 0 ? r : mount_attach(copy, dev, TRUST_DIR);
}

/* ---- Debian's way ---- */

/* What leads through a link is somebody's own arrangement, which a layer would hide. */
static int open_unlinked(int root, const char *path, int flags)
{
	int fd = guest_open_at(root, path, flags, FD_IN_ROOT | FD_NO_SYMLINKS);

	return fd < 0 && is_absent(fd) ? -ENOENT : fd;
}

/* Does a layer that has not this path hide what those below have there? A name that is no directory
 * does (a whiteout is one), and so does a directory that is opaque. */
static bool is_hidden(int lower, const char *path)
{
	char part[64], mark[2];

	for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
		size_t n = end ? (size_t)(end - path) : strlen(path);
		autoclose int fd = -1;
		struct stat st;

		if (n >= sizeof(part))
			return true;
		memcpy(part, path, n);
		part[n] = 0;
		if (fstatat(lower, part + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		if (!S_ISDIR(st.st_mode))
			return true;
		fd = openat(lower, part + 1, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fgetxattr(fd, "user.overlay.opaque", mark, sizeof(mark)) == 1)
			return true;
		if (!end)
			return false;
	}
}

/* The same through a stack, top first. */
static int open_stacked(const int *lowers, size_t count, const char *path, int flags)
{
	int fd = -ENOENT;

	for (size_t i = 0; i < count && fd == -ENOENT; i++) {
		fd = open_unlinked(lowers[i], path, flags);
		if (fd == -ENOENT && i + 1 < count && is_hidden(lowers[i], path))
			break;
	}
	return fd;
}

static int make_layer(int scratch)
{
	static const char *const dirs[] = {
		"",	"/etc",	      "/etc/ssl",	  "/etc/ssl/certs",
		"/usr", "/usr/local", "/usr/local/share", DEBIAN_LOCAL};
	char path[64];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), GUEST_TRUST_LAYER "%s", dirs[i]);
		if (mkdirat(scratch, path, 0755) < 0)
			return -errno;
	}
	if (linkat(scratch, BUNDLE, scratch, GUEST_TRUST_LAYER DEBIAN_BUNDLE, 0) < 0 ||
	    linkat(scratch, OWN, scratch, GUEST_TRUST_LAYER DEBIAN_OWN, 0) < 0 ||
	    symlinkat(DEBIAN_OWN, scratch, GUEST_TRUST_LAYER DEBIAN_LINK) < 0)
		return -errno;
	return 0;
}

int guest_trust_layer(struct guest *g, const int *lowers, size_t count, const char *pem)
{
	autoclose int from = open_stacked(lowers, count, DEBIAN_BUNDLE, O_RDONLY | O_NONBLOCK);
	autoclose int local = -1;
	struct stat st;
	int r;

	if (from >= 0)
		local = open_stacked(lowers, count, DEBIAN_LOCAL, O_PATH | O_DIRECTORY);
	if (from == -ENOENT || local == -ENOENT)
		return 0;
	if (from < 0 || local < 0)
		return from < 0 ? from : local;
	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > TRUST_BUNDLE_MAX)
		return 0;
	r = mkdirat(g->scratch, TRUST_DIR, 0755) < 0 ? -errno : 0;
	if (r == 0)
		r = make_file(g->scratch, BUNDLE, from, &st, pem);
	if (r == 0)
		r = make_file(g->scratch, OWN, -1, NULL, pem);
	if (r == 0)
		r = make_layer(g->scratch);
	g->trust_layer = r == 0;
	return r;
}

/* Does the file end with this? */
static bool ends_with(int fd, off_t size, const char *pem)
{
	size_t n = strlen(pem);
	autofree char *end = malloc(n);

	return end && size >= (off_t)n && pread(fd, end, n, size - (off_t)n) == (ssize_t)n &&
	       memcmp(end, pem, n) == 0;
}

/* Where what an earlier start added begins, or the end. */
static off_t find_mark(int fd, off_t size)
{
	autofree char *text = calloc(1, TRUST_BUNDLE_MAX + 1);
	ssize_t n = text && size <= TRUST_BUNDLE_MAX ? pread(fd, text, (size_t)size, 0) : -1;
	const char *mark = n == size ? memmem(text, (size_t)n, MARK, strlen(MARK)) : NULL;

	return mark ? mark - text : size;
}

/* The box has made its bundle anew, in an earlier start: this one's authority goes to its end. 1 if
 * it did; 0 where it cannot be, so that it has to be covered. */
static int renew_bundle(struct guest *g, const char *pem)
{
	struct stat st;
	/* Not one that the caller mounted there: that is the host's. */
	autoclose int fd = guest_open_at(g->root, DEBIAN_BUNDLE, O_RDWR | O_NONBLOCK,
					 FD_IN_ROOT | FD_NO_SYMLINKS | FD_NO_XDEV);
	off_t at;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0 ||
	    st.st_size > TRUST_BUNDLE_MAX)
		return 0;
	at = find_mark(fd, st.st_size);
	if ((at < st.st_size && ftruncate(fd, at) < 0) || lseek(fd, at, SEEK_SET) < 0 ||
	    fd_write_full(fd, MARK, strlen(MARK)) < 0 || fd_write_full(fd, pem, strlen(pem)) < 0)
		return 0;
	return 1;
}

/* 1 if the tree's own bundle is in order: that of the layer, or one of the box's that was renewed.
 * What stands in /dev is then of that one. */
static int check_layer(struct guest *g, const char *pem)
{
	struct stat st, own;
	autoclose int fd = -1;
	int r, made;

	if (g->is_new)
		return 1;
	fd = open_plain(g->root, DEBIAN_BUNDLE, O_RDONLY, &st);
	if (fd >= 0 && fstatat(g->scratch, BUNDLE, &own, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_size == own.st_size && ends_with(fd, st.st_size, pem))
		return 1;
	r = fd < 0 ? 0 : renew_bundle(g, pem);
	if (unlinkat(g->scratch, BUNDLE, 0) < 0)
		return -errno;
	made = make_bundle(g->scratch, g->root, pem);
	return made < 0 ? made : r;
}

int guest_trust_show(struct guest *g, const char *pem)
{
	int root = g->root, dev = g->dev, scratch = g->scratch;
	bool java = false, is_renewed = false;
	int r;

	if (g->trust_layer) {
		r = check_layer(g, pem);
		is_renewed = r > 0;
	} else {
		r = mkdirat(scratch, TRUST_DIR, 0755) < 0 ? -errno
							  : make_bundle(scratch, root, pem);
		/* For programs that add a file to what they trust anyway: reading the whole bundle
		 * would cost each of them tens of milliseconds. */
		if (r == 0)
			r = make_file(scratch, OWN, -1, NULL, pem);
	}
	if (r >= 0) {
		r = make_java(root, scratch, pem);
		java = r > 0;
	}
	if (r >= 0)
		r = show_dir(dev, scratch);
	for (size_t i = is_renewed; i < sizeof(bundles) / sizeof(bundles[0]) && r == 0; i++)
		r = cover(root, scratch, BUNDLE, bundles[i]);
	for (size_t i = 0; i < JAVA_STORES && r == 0 && java; i++)
		r = cover(root, scratch, JAVA, java_stores[i]);
	return r;
}
