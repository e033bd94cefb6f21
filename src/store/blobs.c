/* Blobs on disk; see blobs.h. */
#include "store/blobs.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define PART_PREFIX ".part-"
#define NEW_PREFIX  ".new-"
#define BAD_PREFIX  "bad-"

static int open_dir(struct state *s, bool make, int *ret_fd, struct err *e)
{
	int fd = fd_open_below(s->home_fd, "blobs", make);

	if (fd == -ENOENT && !make)
		return -ENOENT;
	if (fd < 0)
		return state_error(s, -fd, "open blobs/ in", e);
	*ret_fd = fd;
	return 0;
}

bool blobs_is_digest(const char *digest)
{
	return digest && strlen(digest) == BLOB_DIGEST - 1 &&
	       strspn(digest, "0123456789abcdef") == BLOB_DIGEST - 1;
}

static int check_digest(const char *digest, struct err *e)
{
	if (blobs_is_digest(digest))
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not a SHA-256 in hex",
		       digest ? digest : "");
}

static void digest_of(struct sha *sha, char ret[BLOB_DIGEST])
{
	uint8_t sum[SHA256_BYTES];

	sha_end(sha, sum);
	str_hex(sum, sizeof(sum), ret);
}

/* ---- reading ---- */

bool blobs_has_size(struct state *s, const char *digest, uint64_t size)
{
	autoclose int dir_fd = -1;
	struct stat st;

	return blobs_is_digest(digest) && open_dir(s, false, &dir_fd, NULL) == 0 &&
	       fstatat(dir_fd, digest, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       (size == BLOB_SIZE_UNKNOWN || (uint64_t)st.st_size == size);
}

bool blobs_has(struct state *s, const char *digest)
{
	return blobs_has_size(s, digest, BLOB_SIZE_UNKNOWN);
}

int blobs_open(struct state *s, const char *digest, int *ret_fd, uint64_t *ret_size, struct err *e)
{
	autoclose int dir_fd = -1, fd = -1;
	struct stat st;
	int r = check_digest(digest, e);

	if (r < 0)
		return r;
	r = open_dir(s, false, &dir_fd, e);
	if (r < 0 && r != -ENOENT)
		return r;
	fd = r < 0 ? -1 : openat(dir_fd, digest, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (r < 0 || (fd < 0 && errno == ENOENT))
		return err_set(e, ERR_NOT_FOUND, ENOENT, "there is no blob sha256:%s", digest);
	if (fd < 0 || fstat(fd, &st) < 0)
		return state_error(s, errno, "open a blob in", e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_DAMAGED, EBADMSG, "blob sha256:%s is no file", digest);
	if (ret_size)
		*ret_size = (uint64_t)st.st_size;
	*ret_fd = take_fd(fd);
	return 0;
}

int blobs_read(struct state *s, const char *digest, size_t max, char **ret, size_t *ret_len,
	       struct err *e)
{
	autoclose int fd = -1;
	int r = blobs_open(s, digest, &fd, NULL, e);

	if (r < 0)
		return r;
	r = fd_read_regular(fd, max, ret, ret_len);
	if (r == -EFBIG)
		return err_set(e, ERR_LIMIT, EFBIG, "blob sha256:%.12s... has more than %zu bytes",
			       digest, max);
	return r < 0 ? state_error(s, -r, "read a blob in", e) : 0;
}

/* Hashes a file from its beginning; *ret_bytes is how long it was. */
static int hash_file(int fd, struct sha *sha, uint64_t *ret_bytes)
{
	enum { CHUNK = 1 << 18 };
	autofree uint8_t *data = malloc(CHUNK);
	uint64_t at = 0;

	if (!data)
		return -ENOMEM;
	sha256_init(sha);
	for (;;) {
		ssize_t n = pread(fd, data, CHUNK, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		sha_add(sha, data, (size_t)n);
		at += (uint64_t)n;
	}
	*ret_bytes = at;
	return 0;
}

/* Is the open file the one of that name? */
static bool is_still_named(int dir_fd, const char *name, int fd)
{
	struct stat mine, named;

	return fstat(fd, &mine) == 0 && fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

static void bad_name(char ret[80], const char *digest)
{
	snprintf(ret, 80, BAD_PREFIX "%s", digest);
}

bool blobs_is_aside(struct state *s, const char *digest)
{
	autoclose int dir_fd = -1;
	char name[80];

	if (!blobs_is_digest(digest) || blobs_has(s, digest) ||
	    open_dir(s, false, &dir_fd, NULL) < 0)
		return false;
	bad_name(name, digest);
	return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int blobs_damaged(const char *digest, struct err *e)
{
	return err_set(e, ERR_DAMAGED, EBADMSG,
		       "blob sha256:%s is damaged: get its image again (cove image pull, import)",
		       digest);
}

/* Where this fails it stays where it is, and the next look finds it again. */
static void move_aside(struct state *s, const char *digest, int fd)
{
	autoclose int dir_fd = -1;
	char name[80];

	bad_name(name, digest);
	if (open_dir(s, false, &dir_fd, NULL) == 0 && is_still_named(dir_fd, digest, fd))
		renameat(dir_fd, digest, dir_fd, name);
}

int blobs_verify(struct state *s, const char *digest, struct err *e)
{
	char got[BLOB_DIGEST];
	autoclose int fd = -1;
	uint64_t bytes;
	struct sha sha;
	int r = blobs_open(s, digest, &fd, NULL, e);

	if (r < 0)
		return r;
	r = hash_file(fd, &sha, &bytes);
	if (r < 0)
		return state_error(s, -r, "read a blob in", e);
	digest_of(&sha, got);
	if (strcmp(got, digest) == 0)
		return 0;
	move_aside(s, digest, fd);
	return blobs_damaged(digest, e);
}

static int list(struct state *s, const char *prefix, char ***ret_digests, size_t *ret_count,
		struct err *e)
{
	size_t skip = strlen(prefix);
	autoclose int dir_fd = -1;
	size_t kept = 0;
	int r = open_dir(s, false, &dir_fd, e);

	if (r < 0 && r != -ENOENT)
		return r;
	r = state_all_names(dir_fd, ret_digests, ret_count);
	if (r < 0)
		return state_error(s, -r, "list blobs/ in", e);
	for (size_t i = 0; i < *ret_count; i++) {
		char *name = (*ret_digests)[i];

		if (str_starts(name, prefix) && blobs_is_digest(name + skip)) {
			memmove(name, name + skip, BLOB_DIGEST);
			(*ret_digests)[kept++] = name;
		} else {
			free(name);
		}
	}
	*ret_count = kept;
	return 0;
}

int blobs_list(struct state *s, char ***ret_digests, size_t *ret_count, struct err *e)
{
	return list(s, "", ret_digests, ret_count, e);
}

int blobs_list_aside(struct state *s, char ***ret_digests, size_t *ret_count, struct err *e)
{
	return list(s, BAD_PREFIX, ret_digests, ret_count, e);
}

/* ---- writing ---- */

static int new_part(struct state *s, struct blob_put *p, struct err *e)
{
	char token[17];

	rand_hex(token, 8);
	snprintf(p->name, sizeof(p->name), NEW_PREFIX "%s", token);
	p->fd = openat(p->dir_fd, p->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (p->fd < 0 || flock(p->fd, LOCK_EX | LOCK_NB) < 0)
		return state_error(s, errno, "make a blob in", e);
	sha256_init(&p->sha);
	return 0;
}

/* 0 with the part open and locked, 1 when the blob is there. */
static int lock_part(struct state *s, struct blob_put *p, struct err *e)
{
	bool named;

	for (;;) {
		if (blobs_has_size(s, p->digest, p->size))
			return 1;
		p->fd = openat(p->dir_fd, p->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (p->fd < 0)
			return state_error(s, errno, "make a blob in", e);
		if (flock(p->fd, LOCK_EX | LOCK_NB) < 0)
			return errno == EWOULDBLOCK
				       ? err_set(e, ERR_CONFLICT, EBUSY,
						 "blob sha256:%.12s... is being fetched by another "
						 "process",
						 p->digest)
				       : state_error(s, errno, "lock a blob in", e);
		named = is_still_named(p->dir_fd, p->name, p->fd);
		if (named && !blobs_has_size(s, p->digest, p->size))
			return 0;
		/* Its writer was done before we had the lock; a name made by our own open goes. */
		if (named)
			unlinkat(p->dir_fd, p->name, 0);
		fd_close(&p->fd);
	}
}

int blobs_restart(struct state *s, struct blob_put *p, struct err *e)
{
	if (ftruncate(p->fd, 0) < 0 || lseek(p->fd, 0, SEEK_SET) < 0)
		return state_error(s, errno, "write a blob in", e);
	p->have = p->resumed = 0;
	sha256_init(&p->sha);
	return 0;
}

/* Takes up what an earlier writer left: it is hashed, and the next bytes go behind it. */
static int resume(struct state *s, struct blob_put *p, struct err *e)
{
	int r = hash_file(p->fd, &p->sha, &p->have);

	if (r < 0)
		return state_error(s, -r, "read a part of a blob in", e);
	if (p->have > p->size)
		return blobs_restart(s, p, e);
	p->resumed = p->have;
	if (lseek(p->fd, (off_t)p->have, SEEK_SET) < 0)
		return state_error(s, errno, "write a blob in", e);
	return 0;
}

int blobs_begin(struct state *s, const char *digest, uint64_t size, struct blob_put *p,
		struct err *e)
{
	int r = digest ? check_digest(digest, e) : 0;

	*p = (struct blob_put){.dir_fd = -1, .fd = -1, .size = size};
	if (r < 0)
		return r;
	if (size > BLOB_BYTES_MAX && size != BLOB_SIZE_UNKNOWN)
		return err_set(e, ERR_LIMIT, EFBIG, "a blob of %llu bytes is too large",
			       (unsigned long long)size);
	r = open_dir(s, true, &p->dir_fd, e);
	if (r == 0 && !digest) {
		r = new_part(s, p, e);
	} else if (r == 0) {
		str_copy(p->digest, sizeof(p->digest), digest);
		snprintf(p->name, sizeof(p->name), PART_PREFIX "%s", digest);
		r = lock_part(s, p, e);
		if (r == 0)
			r = resume(s, p, e);
	}
	if (r != 0)
		blobs_leave(p);
	return r;
}

int blobs_add(struct state *s, struct blob_put *p, const void *data, size_t n, struct err *e)
{
	uint64_t max = p->size == BLOB_SIZE_UNKNOWN ? BLOB_BYTES_MAX : p->size;
	int r;

	if (n > max - p->have)
		return err_set(e, ERR_PROTOCOL, EFBIG,
			       "blob sha256:%.12s... has more than the %llu bytes it may have",
			       p->digest[0] ? p->digest : "?", (unsigned long long)max);
	r = fd_write_full(p->fd, data, n);
	if (r < 0)
		return state_error(s, -r, "write a blob in", e);
	sha_add(&p->sha, data, n);
	p->have += n;
	return 0;
}

/* The name is given only after the bytes are on disk, and the name itself is
 * there before the caller goes on. */
static int name_it(struct state *s, struct blob_put *p, struct err *e)
{
	char bad[80];

	if (fdatasync(p->fd) < 0)
		return state_error(s, errno, "sync a blob in", e);
	if (renameat(p->dir_fd, p->name, p->dir_fd, p->digest) < 0)
		return state_error(s, errno, "name a blob in", e);
	bad_name(bad, p->digest);
	unlinkat(p->dir_fd, bad, 0); /* it is back */
	return fsync(p->dir_fd) < 0 ? state_error(s, errno, "sync blobs/ in", e) : 0;
}

int blobs_end(struct state *s, struct blob_put *p, struct err *e)
{
	char got[BLOB_DIGEST];
	int r;

	digest_of(&p->sha, got);
	if (p->size != BLOB_SIZE_UNKNOWN && p->have != p->size)
		r = err_set(e, ERR_PROTOCOL, EBADMSG,
			    "blob sha256:%.12s... has %llu bytes, and not the %llu that were said",
			    got, (unsigned long long)p->have, (unsigned long long)p->size);
	else if (p->digest[0] && strcmp(got, p->digest) != 0)
		r = err_set(e, ERR_PROTOCOL, EBADMSG,
			    "what was sent as sha256:%.12s... is sha256:%.12s...: it is not what "
			    "was asked for, and nothing of it was kept",
			    p->digest, got);
	else
		r = 0;
	if (r < 0) {
		blobs_drop(p);
		return r;
	}
	str_copy(p->digest, sizeof(p->digest), got);
	r = name_it(s, p, e);
	/* One without a name of its own cannot be taken up by another. */
	if (r < 0 && str_starts(p->name, NEW_PREFIX))
		blobs_drop(p);
	blobs_leave(p);
	return r;
}

void blobs_leave(struct blob_put *p)
{
	fd_close(&p->fd);
	fd_close(&p->dir_fd);
}

void blobs_drop(struct blob_put *p)
{
	if (p->fd >= 0)
		unlinkat(p->dir_fd, p->name, 0);
	blobs_leave(p);
}

int blobs_put(struct state *s, const char *digest, const void *data, size_t n,
	      char ret_digest[BLOB_DIGEST], struct err *e)
{
	struct blob_put p;
	char got[BLOB_DIGEST];
	int r;

	sha256_hex(data, n, got);
	if (digest && strcmp(digest, got) != 0)
		return err_set(e, ERR_PROTOCOL, EBADMSG,
			       "what was sent as sha256:%.12s... is sha256:%.12s...: it is not "
			       "what was asked for, and nothing of it was kept",
			       digest, got);
	/* Not by its digest: two at once are fine, the second takes the name over. */
	r = blobs_has_size(s, got, n) && blobs_verify(s, got, NULL) == 0
		    ? 1
		    : blobs_begin(s, NULL, n, &p, e);
	if (r == 0) {
		r = blobs_add(s, &p, data, n, e);
		if (r == 0)
			r = blobs_end(s, &p, e);
		else
			blobs_drop(&p);
	}
	if (r < 0)
		return r;
	if (ret_digest)
		str_copy(ret_digest, BLOB_DIGEST, got);
	return 0;
}

/* ---- removing ---- */

int blobs_hold(struct state *s, int *ret_fd, struct err *e)
{
	autoclose int fd = -1;
	int r = open_dir(s, true, &fd, e);

	if (r < 0)
		return r;
	while (flock(fd, LOCK_SH) < 0)
		if (errno != EINTR)
			return state_error(s, errno, "lock blobs/ in", e);
	*ret_fd = take_fd(fd);
	return 0;
}

int blobs_lock(struct state *s, int *ret_fd, struct err *e)
{
	autoclose int fd = -1;
	int r = open_dir(s, true, &fd, e);

	if (r < 0)
		return r;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? err_set(e, ERR_CONFLICT, EBUSY,
					 "images are being pulled or imported: try again when "
					 "that is over")
			       : state_error(s, errno, "lock blobs/ in", e);
	*ret_fd = take_fd(fd);
	return 0;
}

int blobs_remove(struct state *s, const char *digest, struct err *e)
{
	autoclose int dir_fd = -1;
	int r = check_digest(digest, e);
	char bad[80];

	if (r < 0)
		return r;
	r = open_dir(s, false, &dir_fd, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	bad_name(bad, digest);
	if ((unlinkat(dir_fd, digest, 0) < 0 && errno != ENOENT) ||
	    (unlinkat(dir_fd, bad, 0) < 0 && errno != ENOENT))
		return state_error(s, errno, "remove a blob in", e);
	return 0;
}

/* Removes or counts it if no process writes it: its lock can be had. */
static void drop_part(int dir_fd, const char *name, bool keep, uint64_t *bytes)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    is_still_named(dir_fd, name, fd) && (keep || unlinkat(dir_fd, name, 0) == 0))
		*bytes += (uint64_t)st.st_size;
}

enum drop_parts { DROP_NEW, DROP_ALL, COUNT_ALL };

static int drop_parts(struct state *s, enum drop_parts what, uint64_t *ret_bytes, struct err *e)
{
	int fd = -1, r = open_dir(s, false, &fd, e);
	struct dirent *d;
	DIR *dir;

	*ret_bytes = 0;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	dir = fdopendir(fd);
	if (!dir) {
		r = state_error(s, errno, "list blobs/ in", e);
		close(fd);
		return r;
	}
	while ((errno = 0, d = readdir(dir)))
		if ((what != DROP_NEW && str_starts(d->d_name, PART_PREFIX)) ||
		    str_starts(d->d_name, NEW_PREFIX))
			drop_part(fd, d->d_name, what == COUNT_ALL, ret_bytes);
	if (errno)
		r = state_error(s, errno, "list blobs/ in", e);
	closedir(dir);
	return r;
}

void blobs_sweep(struct state *s)
{
	uint64_t bytes;

	/* What cannot be removed now is tried again by the next one. */
	drop_parts(s, DROP_NEW, &bytes, NULL);
}

int blobs_drop_parts(struct state *s, uint64_t *ret_bytes, struct err *e)
{
	return drop_parts(s, DROP_ALL, ret_bytes, e);
}

int blobs_count_parts(struct state *s, uint64_t *ret_bytes, struct err *e)
{
	return drop_parts(s, COUNT_ALL, ret_bytes, e);
}
