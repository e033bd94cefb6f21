/*
 * Finding and making the state directory; see state.h.
 *
 * How it works: every verb opens it, so the usual case is one open per directory and nothing else;
 * what is missing stays missing (-1) until somebody has something to put there and calls
 * state_make, and nothing is synced here. The home itself must be the caller's own: whoever can
 * write there can put a link or a record in our way.
 *
 * .new- directories are made in three steps (mkdir, open, flock) and until the third they look like
 * a dead maker's. A sweep takes the flock before it renames one to .gone-, so either the sweep or
 * the maker is first: a maker who was late finds the directory gone from its name, and starts
 * again.
 */
#include "store/state.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/sha.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC, NEW_DIR_TRIES = 16 };

#define MACHINE_RUN_DIR "/run/cove"
#define ROOT_HOME	"/var/lib/cove"

const char *state_machine_run_dir(void)
{
	return MACHINE_RUN_DIR;
}

static int dir_error(int code, const char *dir, const char *what, struct err *e)
{
	switch (code) {
	case EACCES:
	case EPERM:
	case EROFS:
		return err_set(e, ERR_DENIED, code,
			       "%s '%.110s': %s; set COVE_HOME to a directory you can write to",
			       what, dir,
			       code == EROFS ? "the filesystem is read-only" : "permission denied");
	case ENOTDIR:
	case EEXIST:
	case ELOOP:
		return err_set(e, ERR_INVALID, ENOTDIR,
			       "'%.110s' is not a directory; move it away or set COVE_HOME", dir);
	case ENOSPC:
	case EDQUOT:
		return err_set(e, ERR_FULL, code,
			       "%s '%.110s': the disk is full; free some space or set COVE_HOME",
			       what, dir);
	default:
		return err_errno(e, code, "%s '%.140s'", what, dir);
	}
}

int state_error(const struct state *s, int code, const char *what, struct err *e)
{
	return dir_error(code, s->home, what, e);
}

int state_check_name(const char *what, const char *name, struct err *e)
{
	if (name && str_is_name(name, BOX_NAME_MAX))
		return 0;
	return err_set(
		e, ERR_INVALID, EINVAL,
		"%s '%.80s' is not a name: lower-case letters, digits and inner dashes, at most %u",
		what, name ? name : "", BOX_NAME_MAX);
}

/* What was given, or $COVE_HOME; root's own; $XDG_DATA_HOME/cove or ~/.local/share/cove. A relative
 * XDG variable is to be ignored. */
static int find_home(struct state *s, const char *home, struct err *e)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *data = getenv("XDG_DATA_HOME");
	const char *own = getenv("HOME");
	char path[BOX_PATH_MAX];
	bool fits;

	if (!home || !*home)
		home = getenv("COVE_HOME");
	if (home && *home) {
		/* A relative one would be another directory in every place a command is typed. */
		if (home[0] != '/')
			return err_set(e, ERR_INVALID, EINVAL,
				       "the state directory '%.120s' is not an absolute path; set "
				       "COVE_HOME to one that begins with '/'",
				       home);
		fits = path_normalize(s->home, sizeof(s->home), home);
		runtime = NULL;
	} else if (geteuid() == 0) {
		str_copy(s->home, sizeof(s->home), ROOT_HOME);
		str_copy(s->run, sizeof(s->run), MACHINE_RUN_DIR);
		return 0;
	} else {
		bool has_data = data && data[0] == '/';

		if (!has_data && !(own && own[0] == '/'))
			return err_set(e, ERR_INVALID, EINVAL,
				       "HOME is not set, so there is no place for Cove's state; "
				       "set COVE_HOME");
		fits = path_join(path, sizeof(path), has_data ? data : own,
				 has_data ? "cove" : ".local/share/cove") &&
		       path_normalize(s->home, sizeof(s->home), path);
	}
	if (fits && runtime && runtime[0] == '/')
		fits = path_join(s->run, sizeof(s->run), runtime, "cove");
	else if (fits)
		fits = path_join(s->run, sizeof(s->run), s->home, "run");
	return fits ? 0
		    : err_set(e, ERR_INVALID, ENAMETOOLONG,
			      "the path of the state directory is too long; set COVE_HOME");
}

/* mkdir -p: parents as usual, the directory itself for its owner only. */
static int make_path(const char *path)
{
	char part[sizeof(((struct state *)0)->home)];

	str_copy(part, sizeof(part), path);
	for (char *p = part + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* 0 and the directory, or -1 in its place where there is none. */
static int open_top(const char *path, bool make, const char *what, int *ret_fd, struct err *e)
{
	autoclose int fd = fd_open(path, DIR_FLAGS);
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT) {
		if (!make)
			return 0;
		r = make_path(path);
		if (r < 0)
			return dir_error(-r, path, what, e);
		fd = fd_open(path, DIR_FLAGS);
	}
	if (fd < 0)
		return dir_error(errno, path, what, e);
	if (fstat(fd, &st) < 0)
		return dir_error(errno, path, what, e);
	if (st.st_uid != geteuid())
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.120s' belongs to another user; set COVE_HOME to a directory of "
			       "your own",
			       path);
	if (st.st_mode & (S_IWOTH | S_IWGRP))
		return err_set(e, ERR_DENIED, EPERM,
			       "others can write to '%.120s': chmod 700 it, or set COVE_HOME to a "
			       "directory of your own",
			       path);
	*ret_fd = take_fd(fd);
	return 0;
}

static int open_sub(struct state *s, const char *name, bool make, int *ret_fd, struct err *e)
{
	int fd = openat(s->home_fd, name, DIR_FLAGS | O_NOFOLLOW);
	char path[sizeof(s->home) + 32];

	if (fd < 0 && errno == ENOENT) {
		if (!make)
			return 0;
		if (mkdirat(s->home_fd, name, 0700) < 0 && errno != EEXIST)
			return state_error(s, errno, "make the state directory", e);
		fd = openat(s->home_fd, name, DIR_FLAGS | O_NOFOLLOW);
	}
	if (fd < 0) {
		int code = errno;

		snprintf(path, sizeof(path), "%s/%s", s->home, name);
		return dir_error(code, path, "open", e);
	}
	*ret_fd = fd;
	return 0;
}

/* Opens what is not open yet. */
static int open_all(struct state *s, bool make, struct err *e)
{
	const struct {
		const char *name;
		int *fd;
	} subs[] = {
		{"boxes", &s->boxes_fd},
		{"images", &s->images_fd},
		{"layers", &s->layers_fd},
		{"workspaces", &s->workspaces_fd},
	};
	int r = 0;

	if (s->home_fd < 0)
		r = open_top(s->home, make, "make the state directory", &s->home_fd, e);
	for (size_t i = 0; s->home_fd >= 0 && r == 0 && i < sizeof(subs) / sizeof(subs[0]); i++)
		if (*subs[i].fd < 0)
			r = open_sub(s, subs[i].name, make, subs[i].fd, e);
	if (r == 0 && s->run_fd < 0)
		r = open_top(s->run, make, "make the runtime directory", &s->run_fd, e);
	return r;
}

static void state_init(struct state *s)
{
	memset(s, 0, sizeof(*s));
	s->home_fd = s->boxes_fd = s->images_fd = s->layers_fd = s->workspaces_fd = s->run_fd = -1;
}

/* Once its paths are known. */
static int open_found(struct state *s, bool make, struct err *e)
{
	char hex[65];
	int r = open_all(s, make, e);

	if (r < 0) {
		state_close(s);
		return r;
	}
	sha256_hex(s->home, strlen(s->home), hex);
	hex[8] = 0;
	str_copy(s->tag, sizeof(s->tag), hex);
	return 0;
}

int state_open(struct state *s, const char *home, bool make, struct err *e)
{
	int r;

	state_init(s);
	r = find_home(s, home, e);
	return r < 0 ? r : open_found(s, make, e);
}

int state_open_at(struct state *s, const char *home, const char *run, bool make, struct err *e)
{
	state_init(s);
	if (home[0] != '/' || run[0] != '/' || strlen(home) >= sizeof(s->home) ||
	    strlen(run) >= sizeof(s->run))
		return err_set(e, ERR_INVALID, EINVAL, "'%.100s' is no state directory", home);
	str_copy(s->home, sizeof(s->home), home);
	str_copy(s->run, sizeof(s->run), run);
	return open_found(s, make, e);
}

int state_make(struct state *s, struct err *e)
{
	return open_all(s, true, e);
}

void state_close(struct state *s)
{
	int *fds[] = {&s->home_fd,   &s->boxes_fd,	&s->images_fd,
		      &s->layers_fd, &s->workspaces_fd, &s->run_fd};

	/* A zeroed one owns nothing: descriptor 0 is never a directory of ours. */
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (*fds[i] == 0)
			*fds[i] = -1;
	fd_close_all(fds, sizeof(fds) / sizeof(fds[0]));
}

/* One attempt: -EAGAIN if a sweep took it for a dead one. */
static int try_new_dir(int dir_fd, const char *name, int *ret_fd)
{
	struct stat st, named;

	if (mkdirat(dir_fd, name, 0700) < 0)
		return errno == EEXIST ? -EAGAIN : -errno;
	autoclose int fd = openat(dir_fd, name, DIR_FLAGS | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (named.st_ino != st.st_ino || named.st_dev != st.st_dev)
		return -EAGAIN;
	*ret_fd = take_fd(fd);
	return 0;
}

int state_new_dir(int dir_fd, char ret_name[32], int *ret_fd)
{
	int r = -EAGAIN;

	for (int i = 0; i < NEW_DIR_TRIES && r == -EAGAIN; i++) {
		char token[17];

		rand_hex(token, 8);
		snprintf(ret_name, 32, ".new-%s", token);
		r = try_new_dir(dir_fd, ret_name, ret_fd);
	}
	return r;
}

void state_gone_name(char ret_name[32])
{
	char token[17];

	rand_hex(token, 8);
	snprintf(ret_name, 32, ".gone-%s", token);
}

void state_names_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int state_list_add(struct state_list *l, const char *name, size_t max)
{
	if (l->count >= max)
		return -E2BIG;
	if (l->count == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 32;
		char **grown = reallocarray(l->names, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		l->names = grown;
		l->cap = cap;
	}
	l->names[l->count] = strdup(name);
	return l->names[l->count] ? (l->count++, 0) : -ENOMEM;
}

int state_list_take(struct state_list *l, int r, char ***ret_names, size_t *ret_count)
{
	if (r < 0) {
		state_names_free(l->names, l->count);
		return r;
	}
	if (l->count > 1)
		qsort(l->names, l->count, sizeof(*l->names), compare_names);
	*ret_names = l->names;
	*ret_count = l->count;
	return 0;
}

/* Names below dir_fd that pick() accepts, as it may have changed them; sorted. */
static int list_dir(int dir_fd, bool (*pick)(int dir_fd, char name[NAME_MAX + 1]),
		    char ***ret_names, size_t *ret_count)
{
	struct state_list list = {0};
	char name[NAME_MAX + 1];
	struct dirent *d;
	int fd, r = 0;
	DIR *dir;

	*ret_names = NULL;
	*ret_count = 0;
	if (dir_fd < 0)
		return 0;
	fd = openat(dir_fd, ".", DIR_FLAGS);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	while (r == 0 && (errno = 0, d = readdir(dir)))
		if (str_copy(name, sizeof(name), d->d_name) && pick(dir_fd, name))
			r = state_list_add(&list, name, STATE_NAMES_MAX);
	if (r == 0 && errno != 0)
		r = -errno;
	closedir(dir);
	return state_list_take(&list, r, ret_names, ret_count);
}

static bool pick_thing(int dir_fd, char name[NAME_MAX + 1])
{
	return str_is_name(name, BOX_NAME_MAX);
}

int state_names(int dir_fd, char ***ret_names, size_t *ret_count)
{
	return list_dir(dir_fd, pick_thing, ret_names, ret_count);
}

static bool pick_any(int dir_fd, char name[NAME_MAX + 1])
{
	return name[0] != '.';
}

int state_all_names(int dir_fd, char ***ret_names, size_t *ret_count)
{
	return list_dir(dir_fd, pick_any, ret_names, ret_count);
}

static bool pick_leftover(int dir_fd, char name[NAME_MAX + 1])
{
	char gone[32];

	if (str_starts(name, ".gone-"))
		return true;
	if (!str_starts(name, ".new-"))
		return false;
	autoclose int fd = openat(dir_fd, name, DIR_FLAGS | O_NOFOLLOW);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	state_gone_name(gone);
	if (renameat(dir_fd, name, dir_fd, gone) < 0)
		return false;
	str_copy(name, NAME_MAX + 1, gone);
	return true;
}

int state_leftovers(int dir_fd, char ***ret_names, size_t *ret_count)
{
	return list_dir(dir_fd, pick_leftover, ret_names, ret_count);
}
