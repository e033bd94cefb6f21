/* Sources of COPY; see build_source.h. */
#include "core/build_source.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "base/path.h"
#include "base/str.h"
#include "build/words.h"
#include "store/tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INSIDE (FD_IN_ROOT | FD_NO_MAGICLINKS)
#define BELOW  (FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS)

static const char *show(char dst[120], const char *path)
{
	struct buf b;

	buf_init(&b, 1 << 16);
	str_copy(dst, 120,
		 str_escape(&b, path, strlen(path)) == 0 && buf_cstr(&b) ? buf_cstr(&b) : "?");
	buf_done(&b);
	return dst;
}

static int fail(struct err *e, int code, const char *path)
{
	char shown[120];

	if (code == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "'%s' is not there", show(shown, path));
	if (code == ELOOP || code == EXDEV)
		return err_set(e, ERR_INVALID, ELOOP, "'%s' leads through links to nowhere",
			       show(shown, path));
	if (code == ECANCELED)
		return err_set(e, ERR_INTERRUPTED, ECANCELED, "interrupted");
	if (code == E2BIG)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "there are more than %u files, or .dockerignore takes too long to "
			       "match, at '%.80s'",
			       TAR_ENTRIES_MAX, show(shown, path));
	return err_errno(e, code, "read '%s'", show(shown, path));
}

/* ---- names of a directory ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted. */
static int list_names(int dir_fd, struct build_words *ret)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		r = -errno;
		fd_close(&fd);
		return r;
	}
	while (r == 0 && (errno = 0, d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = build_words_add(ret, d->d_name);
	if (r == 0 && errno)
		r = -errno;
	closedir(dir);
	if (r == 0 && ret->count)
		qsort(ret->list, ret->count, sizeof(*ret->list), compare);
	return r;
}

/* ---- what a word names ---- */

/* Without ".", ".." and doubled slashes, "." for the root. -EINVAL where it leads above it. */
static int clean(const char *word, char ret[BOX_PATH_MAX])
{
	unsigned depth = 0;
	size_t len = 0;

	for (const char *p = word; *p;) {
		size_t n = strcspn(p, "/");

		if (n == 2 && memcmp(p, "..", 2) == 0) {
			if (depth-- == 0)
				return -EINVAL;
			while (len > 0 && ret[--len] != '/')
				;
		} else if (n > 0 && (n != 1 || *p != '.')) {
			if (len + n + 2 > BOX_PATH_MAX)
				return -ENAMETOOLONG;
			if (len > 0)
				ret[len++] = '/';
			memcpy(ret + len, p, n);
			len += n;
			depth++;
		}
		p += n + (p[n] == '/');
	}
	ret[len] = 0;
	if (len == 0)
		str_copy(ret, BOX_PATH_MAX, ".");
	return 0;
}

/* Of each name that is come by: negative to give up. */
static int goes_on(const struct build_source *s)
{
	return fd_is_cancelled(s->cancel_fd) ? -ECANCELED : 0;
}

static int visit_more(struct build_source *s)
{
	return ++s->visited > TAR_ENTRIES_MAX ? -E2BIG : goes_on(s);
}

/* 1: it is. */
static int is_left_out(struct build_source *s, const char *path)
{
	uint64_t max = BUILD_MATCH_STEPS + s->visited * BUILD_MATCH_STEPS_EACH;
	int r = goes_on(s);

	if (r < 0 || !s->ignore || strcmp(path, ".") == 0)
		return r;
	return build_ignore_has(s->ignore, path, max, &s->steps);
}

/* Paths below `above` that the rest of a pattern matches, part by part. */
static int match_rest(struct build_source *s, const char *above, const char *rest,
		      struct build_words *ret)
{
	autoclose int fd = fd_openat2(s->root_fd, above, O_RDONLY | O_DIRECTORY, 0, INSIDE);
	const char *slash = strchr(rest, '/');
	struct build_words names = {0};
	struct build_glob glob = {0};
	autofree char *part = strndup(rest, slash ? (size_t)(slash - rest) : strlen(rest));
	int r;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	r = fd < 0 ? fd : part ? build_glob_init(&glob, part, false) : -ENOMEM;
	if (r == 0)
		r = list_names(fd, &names);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		char path[BOX_PATH_MAX];

		r = goes_on(s);
		if (r < 0 || !build_glob_matches(&glob, names.list[i]))
			continue;
		if (strcmp(above, ".") == 0 ? !str_copy(path, sizeof(path), names.list[i])
					    : !path_join(path, sizeof(path), above, names.list[i]))
			r = -ENAMETOOLONG;
		else
			r = visit_more(s);
		if (r == 0 && slash) {
			r = match_rest(s, path, slash + 1, ret);
		} else if (r == 0) {
			r = is_left_out(s, path);
			r = r == 0 ? build_words_add(ret, path) : r < 0 ? r : 0;
		}
	}
	build_words_done(&names);
	build_glob_done(&glob);
	return r;
}

int build_source_find(struct build_source *s, const char *word, struct build_words *ret,
		      struct err *e)
{
	char path[BOX_PATH_MAX], shown[120];
	int r = clean(word, path);

	if (r == -EINVAL)
		return err_set(e, ERR_INVALID, EINVAL, "'%s' leads out of the context",
			       show(shown, word));
	if (r == 0 && build_glob_is_plain(path)) {
		r = is_left_out(s, path);
		if (r < 0)
			return fail(e, -r, path);
		if (r > 0)
			return err_set(e, ERR_NOT_FOUND, ENOENT,
				       "'%s' is left out by .dockerignore", show(shown, path));
		return build_words_add(ret, path);
	}
	if (r == 0)
		r = match_rest(s, ".", path, ret);
	if (r == -EINVAL)
		return err_set(e, ERR_INVALID, EINVAL, "'%s' is no pattern", show(shown, word));
	if (r < 0)
		return fail(e, -r, word);
	if (ret->count == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "nothing matches '%s'", show(shown, word));
	return 0;
}

/* ---- walks ---- */

struct walk {
	struct build_source *s;
	build_on_found *fn;
	void *arg;
	struct err *e;
	char at[2 * BOX_PATH_MAX]; /* from the root, for .dockerignore */
	size_t below;		   /* where in it the path below the source begins */
	unsigned depth;
};

static int walk_dir(struct walk *w, int dir_fd);

/* Is there anything in a directory that is left out which an exception brings back? */
static int has_exception(struct walk *w, int dir_fd)
{
	size_t len = strlen(w->at);
	struct build_words names = {0};
	int r = w->s->ignore->has_exceptions ? list_names(dir_fd, &names) : 0;

	for (size_t i = 0; i < names.count && r == 0; i++) {
		autoclose int fd = -1;

		if (len + strlen(names.list[i]) + 2 > sizeof(w->at))
			r = -ENAMETOOLONG;
		else if (w->depth >= BUILD_DEPTH_MAX)
			r = -E2BIG;
		else
			r = visit_more(w->s);
		if (r < 0)
			break;
		snprintf(w->at + len, sizeof(w->at) - len, "/%s", names.list[i]);
		r = is_left_out(w->s, w->at);
		if (r == 0) {
			r = 1;
		} else if (r > 0) {
			fd = fd_openat2(dir_fd, names.list[i], O_RDONLY | O_DIRECTORY, 0, BELOW);
			w->depth++;
			r = fd < 0 ? 0 : has_exception(w, fd);
			w->depth--;
		}
		w->at[len] = 0;
	}
	build_words_done(&names);
	return r;
}

static int visit(struct walk *w, int dir_fd, const char *name, const struct stat *st)
{
	const char *path = w->at + w->below;
	struct build_found found = {
		.path = path + (*path == '/'), .name = name, .dir_fd = dir_fd, .st = st};

	int r = visit_more(w->s);

	return r < 0 ? fail(w->e, -r, w->at) : w->fn(w->arg, &found, w->e);
}

static int walk_name(struct walk *w, int dir_fd, const char *name)
{
	autoclose int fd = -1;
	struct stat st;
	int r, left_out = is_left_out(w->s, w->at);

	if (left_out < 0)
		return fail(w->e, -left_out, w->at);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(w->e, errno, w->at);
	if (left_out && (!S_ISDIR(st.st_mode) || !w->s->ignore->has_exceptions))
		return 0;
	if (S_ISDIR(st.st_mode)) {
		fd = fd_openat2(dir_fd, name, O_RDONLY | O_DIRECTORY, 0, BELOW);
		if (fd < 0)
			return fail(w->e, -fd, w->at);
	}
	if (left_out) {
		r = has_exception(w, fd);
		if (r <= 0)
			return r < 0 ? fail(w->e, -r, w->at) : 0;
	}
	r = visit(w, dir_fd, name, &st);
	return r == 0 && fd >= 0 ? walk_dir(w, fd) : r;
}

static int walk_dir(struct walk *w, int dir_fd)
{
	size_t len = strlen(w->at);
	struct build_words names = {0};
	int r = list_names(dir_fd, &names);

	if (r < 0)
		fail(w->e, -r, w->at);
	else if (++w->depth > BUILD_DEPTH_MAX)
		r = err_set(w->e, ERR_LIMIT, E2BIG, "directories are nested deeper than %u",
			    BUILD_DEPTH_MAX);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		const char *slash = len > 0 ? "/" : "";

		if (len + strlen(names.list[i]) + 2 > sizeof(w->at)) {
			r = fail(w->e, ENAMETOOLONG, w->at);
			break;
		}
		snprintf(w->at + len, sizeof(w->at) - len, "%s%s", slash, names.list[i]);
		r = walk_name(w, dir_fd, names.list[i]);
		w->at[len] = 0;
	}
	w->depth--;
	build_words_done(&names);
	return r;
}

int build_source_walk(struct build_source *s, const char *path, build_on_found *fn, void *arg,
		      struct err *e)
{
	struct walk w = {.s = s, .fn = fn, .arg = arg, .e = e};
	autoclose int fd = fd_openat2(s->root_fd, path, O_PATH, 0, INSIDE), dir = -1;
	struct stat st;
	int r;

	if (fd < 0)
		return fail(e, -fd, path);
	if (fstat(fd, &st) < 0)
		return fail(e, errno, path);
	if (S_ISREG(st.st_mode)) {
		dir = fd_openat2(s->root_fd, path, O_RDONLY | O_NONBLOCK, 0, INSIDE);
		if (dir < 0 || fstat(dir, &st) < 0)
			return fail(e, dir < 0 ? -dir : errno, path);
	}
	str_copy(w.at, sizeof(w.at), strcmp(path, ".") == 0 ? "" : path);
	w.below = strlen(w.at);
	r = visit(&w, dir >= 0 ? dir : fd, "", &st);
	if (r < 0 || !S_ISDIR(st.st_mode))
		return r;
	dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? fail(e, errno, path) : walk_dir(&w, dir);
}

int build_source_open(const struct build_found *found)
{
	/* The source itself is open. */
	autoclose int fd = *found->name ? fd_openat2(found->dir_fd, found->name,
						     O_RDONLY | O_NONBLOCK, 0, BELOW)
					: fd_copy(found->dir_fd, 3);
	struct stat st;

	if (fd < 0)
		return take_fd(fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(fd) : -EAGAIN;
}
