/* The host's own roots; see roots.h. */
#include "keeper/roots.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Takes dir_fd. */
static int read_dir(int dir_fd, unsigned depth, struct buf *out)
{
	DIR *d = fdopendir(dir_fd);
	const struct dirent *entry;
	int r = 0;

	if (!d) {
		close(dir_fd);
		return 0;
	}
	for (unsigned i = 0; r == 0 && i < ROOTS_FILES_MAX && (entry = readdir(d)); i++) {
		autofree char *text = NULL;
		size_t len = 0;
		int below;

		if (entry->d_name[0] == '.')
			continue;
		below = openat(dirfd(d), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below >= 0 && depth > 0)
			r = read_dir(below, depth - 1, out);
		else if (below >= 0)
			close(below);
		else if (fd_read_file(dirfd(d), entry->d_name, TRUST_EXTRA_MAX, &text, &len) == 0)
			r = add_certificates(out, text, len);
	}
	closedir(d);
	return r;
}

int keeper_roots_read(const char *const *places, struct buf *out)
{
	int r = 0;

	for (; *places && r == 0; places++) {
		int fd = open(*places, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0)
			r = read_dir(fd, 1, out);
	}
	return r;
}
