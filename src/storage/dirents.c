/* Reading directories; see dirents.h. */
#include "storage/dirents.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

void dirents_init(struct dirents *d, int fd)
{
	d->fd = fd;
	d->pos = d->len = 0;
	d->off = 0;
}

int dirents_next(struct dirents *d, const char **ret)
{
	for (;;) {
		const struct fd_dirent *e;
		long got;

		if (d->pos >= d->len) {
			got = syscall(SYS_getdents64, d->fd, d->bytes, sizeof(d->bytes));
			if (got < 0 && errno != ENOENT)
				return -errno;
			if (got <= 0)
				return 0;
			d->pos = 0;
			d->len = (size_t)got;
		}
		e = (const struct fd_dirent *)(const void *)(d->bytes + d->pos);
		d->pos += e->reclen;
		d->off = e->off;
		if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0)
			continue;
		*ret = e->name;
		return 1;
	}
}
