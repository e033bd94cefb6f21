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
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define TRUST_DIR "cove-trust" /* below /dev and on the scratch, as in GUEST_TRUST_FILE */
#define BUNDLE	  TRUST_DIR "/bundle.pem"
#define OWN	  TRUST_DIR "/box.pem"
#define JAVA	  TRUST_DIR "/cacerts"

/* Debian and Alpine; Fedora; BSD habits. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
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

/* The first of the image's bundles that there is; none is no error. */
static int copy_bundle(int root, int to)
{
	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++) {
		struct stat st;
		autoclose int from = open_plain(root, bundles[i], O_RDONLY, &st);
		size_t left;

		if (from < 0 && from != -ENOENT)
			return from;
		if (from < 0 || st.st_size == 0 || st.st_size > TRUST_BUNDLE_MAX)
			continue;
		for (left = (size_t)st.st_size; left > 0;) {
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
	return 0;
}

/* A new file on the scratch with the image's bundle, if it is to have that, and the authority. */
static int make_file(const struct guest *g, const char *name, bool bundle, const char *pem)
{
	autoclose int fd = openat(g->scratch, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	int r = fd < 0 ? -errno : bundle ? copy_bundle(g->root, fd) : 0;

	return r < 0 ? r : fd_write_full(fd, pem, strlen(pem));
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

int guest_trust_show(struct guest *g, const char *pem)
{
	int root = g->root, dev = g->dev, scratch = g->scratch;
	bool java = false;
	int r = mkdirat(scratch, TRUST_DIR, 0755) < 0 ? -errno : make_file(g, BUNDLE, true, pem);

	/* For programs that add a file to what they trust anyway: reading the whole bundle would
	 * cost each of them tens of milliseconds. */
	if (r == 0)
		r = make_file(g, OWN, false, pem);
	if (r == 0) {
		r = make_java(root, scratch, pem);
		java = r > 0;
	}
	if (r >= 0)
		r = show_dir(dev, scratch);
	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]) && r == 0; i++)
		r = cover(root, scratch, BUNDLE, bundles[i]);
	for (size_t i = 0; i < JAVA_STORES && r == 0 && java; i++)
		r = cover(root, scratch, JAVA, java_stores[i]);
	return r;
}
