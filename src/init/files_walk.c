/*
 * Walking one tree; see files.h.
 *
 * Every level keeps its directory open, so the walk never has to find its way back through names
 * that the box may have moved meanwhile. Going down opens one component without following a link.
 */
#include "init/files.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

struct walk_level {
	struct walk_level *up;
	int fd;		 /* owned */
	size_t path_len; /* of this directory in the walk's path */
	size_t pos, len; /* of the names read and not yet given out */
	_Alignas(8) char names[4096 - 40];
};

void init_walk_done(struct init_walk *w)
{
	while (w->top)
		init_walk_up(w);
}

void init_walk_up(struct init_walk *w)
{
	struct walk_level *l = w->top;

	w->top = l->up;
	w->depth--;
	fd_close(&l->fd);
	free(l);
}

int init_walk_down(struct init_walk *w, int dir_fd)
{
	autoclose int fd = dir_fd;
	struct walk_level *l;

	if (w->depth >= INIT_DEPTH_MAX)
		return -ELOOP;
	l = malloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->up = w->top;
	l->fd = take_fd(fd);
	l->path_len = w->path_len;
	l->pos = l->len = 0;
	w->top = l;
	w->depth++;
	return 0;
}

int init_walk_next(struct init_walk *w, const char **ret_name)
{
	struct walk_level *l = w->top;

	for (;;) {
		const struct fd_dirent *d;
		size_t at = l->path_len, n;

		if (l->pos >= l->len) {
			long got = syscall(SYS_getdents64, l->fd, l->names, sizeof(l->names));

			/* A directory removed under us has simply no more names. */
			if (got < 0 && errno != ENOENT)
				return -errno;
			l->pos = 0;
			l->len = got < 0 ? 0 : (size_t)got;
			if (l->len == 0)
				break;
		}
		d = (const struct fd_dirent *)(const void *)(l->names + l->pos);
		l->pos += d->reclen;
		if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0)
			continue;
		*ret_name = d->name;
		n = strlen(d->name);
		if (at + n + 2 > sizeof(w->path))
			return -ENAMETOOLONG;
		if (at > 0)
			w->path[at++] = '/';
		memcpy(w->path + at, d->name, n + 1);
		w->path_len = at + n;
		return 1;
	}
	w->path_len = l->path_len;
	w->path[w->path_len] = '\0';
	return 0;
}

int init_walk_rewind(struct init_walk *w)
{
	w->top->pos = w->top->len = 0;
	return lseek(w->top->fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

int init_walk_fd(const struct init_walk *w)
{
	return w->top->fd;
}

int init_walk_parent_fd(const struct init_walk *w)
{
	return w->top->up ? w->top->up->fd : -1;
}
