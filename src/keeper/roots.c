/* The host's own roots; see roots.h. */
#include "keeper/roots.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

const char *const keeper_roots_places[] = {"/usr/local/share/ca-certificates",
					   "/etc/pki/ca-trust/source/anchors",
					   "/etc/ca-certificates/trust-source/anchors", NULL};

/* Each from its first line to its last. What stands between two, a key perhaps, is left out. */
static int add_certificates(struct buf *out, const char *text, size_t len)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----",
			  end[] = "-----END CERTIFICATE-----";
	const char *p = text, *last = text + len, *stop;
	size_t n;
	int r = 0;

	while (r == 0 && (p = memmem(p, (size_t)(last - p), begin, sizeof(begin) - 1)) &&
	       (stop = memmem(p, (size_t)(last - p), end, sizeof(end) - 1))) {
		n = (size_t)(stop - p) + sizeof(end) - 1;
		/* It goes on as text that ends with a NUL. */
		if (!memchr(p, 0, n) && buf_len(out) + n + 1 < TRUST_EXTRA_MAX) {
			r = buf_append(out, p, n);
			if (r == 0)
				r = buf_append(out, "\n", 1);
		}
		p = stop;
	}
	return r;
}

static int read_dir(int dir_fd, unsigned depth, struct buf *out);

/* A file, or what a directory has. What cannot be read is not trusted. */
static int read_entry(int dir_fd, const struct fd_dirent *d, unsigned depth, struct buf *out)
{
	autofree char *text = NULL;
	autoclose int below = -1;
	size_t len = 0;

	if (d->name[0] == '.')
		return 0;
	/* A link may be to either. */
	if (d->type != DT_REG)
		below = openat(dir_fd, d->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (below >= 0)
		return depth > 0 ? read_dir(below, depth - 1, out) : 0;
	return fd_read_plain(dir_fd, d->name, TRUST_EXTRA_MAX, &text, &len) == 0
		       ? add_certificates(out, text, len)
		       : 0;
}

static int read_dir(int dir_fd, unsigned depth, struct buf *out)
{
	_Alignas(struct fd_dirent) char names[2048];
	unsigned left = ROOTS_FILES_MAX;
	int r = 0;
	long n;

	while (r == 0 && left > 0 &&
	       (n = syscall(SYS_getdents64, dir_fd, names, sizeof(names))) > 0)
		for (long at = 0; at < n && r == 0 && left > 0; left--) {
			const struct fd_dirent *d = (const void *)(names + at);

			at += d->reclen;
			r = read_entry(dir_fd, d, depth, out);
		}
	return r;
}

int keeper_roots_read(const char *const *places, struct buf *out)
{
	int r = 0;

	for (; *places && r == 0; places++) {
		autoclose int fd = fd_open(*places, O_RDONLY | O_DIRECTORY);

		if (fd >= 0)
			r = read_dir(fd, 1, out);
	}
	return r;
}
