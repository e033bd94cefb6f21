/* The walk of glob and grep; see tool_walk.h. */
#include "init/tool_walk.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

enum { NAMES_BYTES = 64 << 20, DENTS_BYTES = 32 << 10, NAMES_FIRST = 4096 };

struct tool_name {
	const char *name;
	char type;
};

struct tool_level {
	struct tool_level *up;
	int fd; /* owned */
	dev_t dev;
	size_t path_len; /* of this directory */
	char *text;	 /* owned; each name behind its type, with its NUL */
	size_t len, cap;
	struct tool_name *names; /* owned; sorted */
	size_t count, next;
	uint8_t set[];
};

static void level_free(struct tool_level *l)
{
	if (!l)
		return;
	fd_close(&l->fd);
	free(l->text);
	free(l->names);
	free(l);
}

static char type_of(int dir_fd, const struct fd_dirent *d)
{
	struct stat st;

	if (d->type == DT_UNKNOWN && fstatat(dir_fd, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISREG(st.st_mode)   ? 'f'
		       : S_ISDIR(st.st_mode) ? 'd'
		       : S_ISLNK(st.st_mode) ? 'l'
					     : 'o';
	return d->type == DT_REG ? 'f' : d->type == DT_DIR ? 'd' : d->type == DT_LNK ? 'l' : 'o';
}

static int add_name(struct tool_level *l, const struct fd_dirent *d)
{
	size_t n = strlen(d->name) + 2;

	if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0)
		return 0;
	if (l->len + n > l->cap) {
		size_t cap = l->cap ? 2 * l->cap : NAMES_FIRST;
		char *grown = cap <= NAMES_BYTES ? realloc(l->text, cap) : NULL;

		if (!grown)
			return -E2BIG;
		l->text = grown;
		l->cap = cap;
	}
	l->text[l->len] = type_of(l->fd, d);
	memcpy(l->text + l->len + 1, d->name, n - 1);
	l->len += n;
	l->count++;
	return 0;
}

/* As the paths of what is below them are ordered: a directory's name ends with a slash. */
static int by_path(const void *a, const void *b)
{
	const struct tool_name *x = a, *y = b;
	const unsigned char *p = (const void *)x->name, *q = (const void *)y->name;
	int c, d;

	while (*p && *p == *q) {
		p++;
		q++;
	}
	c = *p ? *p : x->type == 'd' ? '/' : 0;
	d = *q ? *q : y->type == 'd' ? '/' : 0;
	return (c > d) - (c < d);
}

/* -E2BIG: there are more, and these are some of them. */
static int read_names(struct tool_walk *t, struct tool_level *l)
{
	_Alignas(8) char dents[DENTS_BYTES];
	const char *at;
	int r = 0;

	while (r == 0 && !work_is_late(t->w)) {
		long n = syscall(SYS_getdents64, l->fd, dents, sizeof(dents));

		/* One that was removed under us has simply no more names. */
		if (n < 0 && errno != ENOENT)
			return -errno;
		if (n <= 0)
			break;
		for (long pos = 0; pos < n && r == 0;) {
			const struct fd_dirent *d = (const void *)(dents + pos);

			r = add_name(l, d);
			pos += d->reclen;
		}
	}
	l->names = l->count ? reallocarray(NULL, l->count, sizeof(*l->names)) : NULL;
	if (l->count > 0 && !l->names) {
		l->count = 0;
		return -E2BIG;
	}
	at = l->text;
	for (size_t i = 0; i < l->count; i++) {
		l->names[i] = (struct tool_name){.type = at[0], .name = at + 1};
		at += strlen(at) + 1;
	}
	if (l->count > 1)
		qsort(l->names, l->count, sizeof(*l->names), by_path);
	return r;
}

/* Takes fd. */
static int go_down(struct tool_walk *t, int dir_fd, const uint8_t *set)
{
	size_t set_size = t->glob ? init_glob_set_size(t->glob) : 0;
	struct tool_level *l = calloc(1, sizeof(*l) + set_size);
	autoclose int fd = dir_fd;
	struct stat st;
	int r;

	if (!l)
		return -ENOMEM;
	l->fd = take_fd(fd);
	if (set_size > 0)
		memcpy(l->set, set, set_size);
	r = fstat(l->fd, &st) < 0 ? -errno : read_names(t, l);
	if (r == -E2BIG)
		t->w->summary.truncated = TRUNCATED_SIZE;
	if (r < 0 && r != -E2BIG) {
		level_free(l);
		return r;
	}
	l->dev = st.st_dev;
	l->path_len = strlen(t->path);
	l->up = t->top;
	t->top = l;
	t->depth++;
	return 0;
}

/* A directory that was just given. What has gone meanwhile, or is another thing now, is none. */
static void enter(struct tool_walk *t, const char *name)
{
	autoclose int fd = -1;
	struct stat st;
	int r = 0;

	if (t->depth >= INIT_DEPTH_MAX) {
		t->w->summary.left_out++;
		return;
	}
	fd = openat(t->top->fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		r = -errno;
	else if (st.st_dev == t->top->dev || !path_is_kernel_fs(fd))
		r = go_down(t, take_fd(fd), t->set);
	if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP)
		t->w->summary.left_out++;
}

/* 1 and the next entry with its path; 0 at the end of all. */
static int next_entry(struct tool_walk *t, struct tool_entry *ret)
{
	while (t->top) {
		struct tool_level *l = t->top;
		const struct tool_name *n;
		size_t at = l->path_len;

		if (l->next == l->count) {
			t->top = l->up;
			t->depth--;
			level_free(l);
			continue;
		}
		n = &l->names[l->next++];
		if (at + strlen(n->name) + 2 > sizeof(t->path)) {
			t->w->summary.left_out++;
			continue;
		}
		if (at > 0)
			t->path[at++] = '/';
		memcpy(t->path + at, n->name, strlen(n->name) + 1);
		*ret = (struct tool_entry){.name = n->name, .type = n->type, .dir_fd = l->fd};
		return 1;
	}
	return 0;
}

int tool_walk_begin(struct tool_walk *t, struct work *w, const struct init_glob *glob, int fd)
{
	autoclose int root = fd;

	*t = (struct tool_walk){.w = w, .glob = glob};
	if (glob) {
		t->set = malloc(init_glob_set_size(glob));
		if (!t->set)
			return -ENOMEM;
		init_glob_begin(glob, t->set);
	}
	return go_down(t, take_fd(root), t->set);
}

int tool_walk_run(struct tool_walk *t, void *arg,
		  int (*on_entry)(void *arg, const struct tool_entry *entry, struct err *e),
		  struct err *e)
{
	struct tool_entry entry;
	int r = 0;

	while (r == 0) {
		bool more = true, matches = true;

		if (work_is_late(t->w)) {
			t->w->summary.truncated = TRUNCATED_TIME;
			break;
		}
		if (!next_entry(t, &entry))
			break;
		if (t->glob) {
			more = init_glob_step(t->glob, t->top->set, entry.name, t->set);
			matches = init_glob_is_match(t->glob, t->set);
		}
		if (matches)
			r = on_entry(arg, &entry, e);
		if (r == 0 && entry.type == 'd' && more)
			enter(t, entry.name);
	}
	return r;
}

void tool_walk_done(struct tool_walk *t)
{
	while (t->top) {
		struct tool_level *up = t->top->up;

		level_free(t->top);
		t->top = up;
	}
	free(t->set);
	t->set = NULL;
}
