/* A stack of layers as one tree; see stack.h. */
#include "storage/stack.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "storage/dirents.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OPAQUE	   "user.overlay.opaque"
#define STACK_STAY (FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV)

static int open_at(int root_fd, const char *path, int flags)
{
	return fd_openat2(root_fd, *path ? path : ".", flags | O_CLOEXEC, 0, STACK_STAY);
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* Another value than "y" means something else, and so to the kernel. */
static int is_opaque(int fd)
{
	char value;
	ssize_t n = fgetxattr(fd, OPAQUE, &value, sizeof(value));

	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP || errno == ERANGE ? 0 : -errno;
	return n == 1 && value == 'y';
}

/* ---- one directory ---- */

void stack_root_set(const struct stack *s, struct stack_set *ret)
{
	*ret = (struct stack_set){0};
	for (size_t i = 0; i < s->count; i++)
		stack_set_add(ret, i);
}

void stack_dir_init(struct stack_dir *d, const struct stack *s, const char *path,
		    const struct stack_set *in)
{
	d->s = s;
	d->path = path;
	d->in = *in;
	for (size_t i = 0; i < s->count; i++)
		d->fds[i] = -1;
}

void stack_dir_done(struct stack_dir *d)
{
	for (size_t i = 0; i < d->s->count; i++)
		fd_close(&d->fds[i]);
}

/* The directory in one layer, which has it. */
static int dir_open(struct stack_dir *d, size_t layer)
{
	if (d->fds[layer] < 0)
		d->fds[layer] = open_at(d->s->layers[layer].fd, d->path, O_RDONLY | O_DIRECTORY);
	return d->fds[layer];
}

/* 0, or -ENOENT where this layer has no such name. */
static int look(struct stack_dir *d, size_t layer, const char *name, struct stat *ret)
{
	int fd = dir_open(d, layer);

	if (fd < 0)
		return fd;
	return fstatat(fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int stack_dir_find(struct stack_dir *d, const char *name, struct stack_entry *ret)
{
	for (size_t i = 0; i < d->s->count; i++) {
		int r = stack_set_has(&d->in, i) ? look(d, i, name, &ret->st) : -ENOENT;

		if (r == -ENOENT)
			continue;
		ret->layer = (unsigned)i;
		return r == 0 && is_whiteout(&ret->st) ? -ENOENT : r;
	}
	return -ENOENT;
}

int stack_dir_enter(struct stack_dir *d, const char *name, const struct stack_entry *e,
		    struct stack_set *ret)
{
	*ret = (struct stack_set){0};
	for (size_t i = e->layer; i < d->s->count; i++) {
		autoclose int fd = -1;
		struct stat st;
		int r = stack_set_has(&d->in, i) ? look(d, i, name, &st) : -ENOENT;

		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		if (!S_ISDIR(st.st_mode))
			break;
		stack_set_add(ret, i);
		fd = open_at(d->fds[i], name, O_RDONLY | O_DIRECTORY);
		r = fd < 0 ? fd : is_opaque(fd);
		if (r < 0)
			return r;
		if (r > 0)
			break;
	}
	return 0;
}

/* ---- names ---- */

static int names_add(struct stack_names *n, const char *name)
{
	size_t size = strlen(name) + 1;

	if (*n->held + size > STACK_NAMES_MAX)
		return -E2BIG;
	if (n->len + size > n->cap) {
		size_t cap = n->cap ? n->cap * 2 : 4096;
		char *grown = realloc(n->bytes, cap);

		if (!grown)
			return -ENOMEM;
		n->bytes = grown;
		n->cap = cap;
	}
	memcpy(n->bytes + n->len, name, size);
	n->len += size;
	n->count++;
	*n->held += size;
	return 0;
}

int stack_dir_names(struct stack_dir *d, size_t layer, struct stack_names *to)
{
	struct dirents names;
	const char *name;
	int fd = dir_open(d, layer), r;

	if (fd < 0)
		return fd;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	dirents_init(&names, fd);
	while ((r = dirents_next(&names, &name)) > 0) {
		r = names_add(to, name);
		if (r < 0)
			return r;
	}
	return r;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int stack_names_sort(struct stack_names *n)
{
	const char *at = n->bytes;
	size_t kept = 0;

	if (n->count == 0)
		return 0;
	n->list = calloc(n->count, sizeof(*n->list));
	if (!n->list)
		return -ENOMEM;
	for (size_t i = 0; i < n->count; i++, at += strlen(at) + 1)
		n->list[i] = at;
	qsort(n->list, n->count, sizeof(*n->list), by_bytes);
	for (size_t i = 0; i < n->count; i++)
		if (kept == 0 || strcmp(n->list[kept - 1], n->list[i]) != 0)
			n->list[kept++] = n->list[i];
	n->count = kept;
	return 0;
}

void stack_names_done(struct stack_names *n)
{
	if (n->held)
		*n->held -= n->len;
	free(n->list);
	free(n->bytes);
	*n = (struct stack_names){0};
}

/* ---- single paths ---- */

/* The root is what the uppermost layer says. */
static int find_root(const struct stack *s, struct stack_entry *ret)
{
	if (s->count == 0)
		return -ENOENT;
	ret->layer = 0;
	return fstat(s->layers[0].fd, &ret->st) < 0 ? -errno : 0;
}

static void finder_close(struct stack_finder *f)
{
	if (f->is_open && f->error == 0)
		stack_dir_done(&f->dir);
	f->is_open = false;
}

static void finder_to_root(struct stack_finder *f)
{
	struct stack_set in;

	finder_close(f);
	stack_root_set(f->s, &in);
	f->path[0] = 0;
	stack_dir_init(&f->dir, f->s, f->path, &in);
	f->is_open = true;
	f->error = 0;
}

/* To a directory in the one that it is at: the next n bytes of a path. */
static int finder_enter(struct stack_finder *f, const char *name, size_t n)
{
	char text[NAME_MAX + 1];
	struct stack_entry e;
	struct stack_set in;
	size_t len = strlen(f->path);
	int r;

	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(text, name, n);
	text[n] = 0;
	r = stack_dir_find(&f->dir, text, &e);
	if (r == 0)
		r = S_ISDIR(e.st.st_mode) ? stack_dir_enter(&f->dir, text, &e, &in) : -ENOENT;
	if (r < 0)
		return r;
	stack_dir_done(&f->dir);
	snprintf(f->path + len, sizeof(f->path) - len, "%s%s", len ? "/" : "", text);
	stack_dir_init(&f->dir, f->s, f->path, &in);
	return 0;
}

/* Is this directory the one of a path, or on the way to it? */
static bool is_on_way(const char *dir, const char *path, size_t len)
{
	size_t n = strlen(dir);

	return n <= len && memcmp(dir, path, n) == 0 && (n == 0 || n == len || path[n] == '/');
}

/* To the directory of so many bytes of a path. What it has no such directory for is known, too. */
static int finder_to(struct stack_finder *f, const char *path, size_t len)
{
	size_t at;
	int r = 0;

	if (f->is_open && strlen(f->path) == len && memcmp(f->path, path, len) == 0)
		return f->error;
	if (!f->is_open || f->error < 0 || !is_on_way(f->path, path, len))
		finder_to_root(f);
	for (at = strlen(f->path); at < len && r == 0;) {
		size_t n;

		at += at > 0;
		n = strcspn(path + at, "/");
		r = finder_enter(f, path + at, n);
		at += n;
	}
	if (r == 0)
		return 0;
	finder_close(f);
	memcpy(f->path, path, len);
	f->path[len] = 0;
	f->is_open = true;
	f->error = r;
	return r;
}

void stack_finder_init(struct stack_finder *f, const struct stack *s)
{
	f->s = s;
	f->is_open = false;
}

int stack_finder_find(struct stack_finder *f, const char *path, struct stack_entry *ret)
{
	const char *slash = strrchr(path, '/');
	int r;

	if (strlen(path) > STACK_PATH_MAX)
		return -ENAMETOOLONG;
	if (!*path)
		return find_root(f->s, ret);
	if (!path_is_safe_relative(path))
		return -EINVAL;
	r = finder_to(f, path, slash ? (size_t)(slash - path) : 0);
	return r < 0 ? r : stack_dir_find(&f->dir, slash ? slash + 1 : path, ret);
}

void stack_finder_done(struct stack_finder *f)
{
	finder_close(f);
}

int stack_find(const struct stack *s, const char *path, struct stack_entry *ret)
{
	struct stack_finder f;
	int r;

	stack_finder_init(&f, s);
	r = stack_finder_find(&f, path, ret);
	stack_finder_done(&f);
	return r;
}

int stack_open_file(const struct stack *s, const struct stack_entry *e, const char *path)
{
	autoclose int fd = -1;
	struct stat st;

	if (!S_ISREG(e->st.st_mode))
		return -EINVAL;
	/* Whatever it is by now: nothing waits. */
	fd = open_at(s->layers[e->layer].fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return take_fd(fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(fd) : -EINVAL;
}

ssize_t stack_read_link(const struct stack *s, const struct stack_entry *e, const char *path,
			char *ret, size_t size)
{
	autoclose int fd = open_at(s->layers[e->layer].fd, path, O_PATH | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = readlinkat(fd, "", ret, size);
	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -ENAMETOOLONG;
	ret[n] = 0;
	return n;
}
