/* Secrets on disk; see secret.h. */
#include "store/secret.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/locked.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SECRETS_DIR "secrets"

enum { FILE_MAX = DOOR_SECRET_MAX + 16 };

static const char *const sources[] = {
	[SECRET_VALUE] = "value", [SECRET_FILE] = "file", [SECRET_COMMAND] = "command"};

enum { SOURCE_COUNT = sizeof(sources) / sizeof(sources[0]) };

const char *secret_source_name(enum secret_source source)
{
	return sources[source];
}

bool secret_is_name(const char *name)
{
	return str_is_env_name(name) && strlen(name) <= SECRET_NAME_MAX;
}

static int check_name(const char *name, struct err *e)
{
	if (secret_is_name(name))
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.80s' is not the name of a secret: letters, digits and underscores, not "
		       "a digit first, at most %u",
		       name, SECRET_NAME_MAX);
}

/* The directory, or -ENOENT where nothing was ever stored. */
static int open_dir(const struct state *st)
{
	int fd;

	if (st->home_fd < 0)
		return -ENOENT;
	fd = openat(st->home_fd, SECRETS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int make_dir(struct state *st, struct err *e)
{
	int fd, r = state_make(st, e);

	if (r < 0)
		return r;
	if (mkdirat(st->home_fd, SECRETS_DIR, 0700) == 0)
		r = fsync(st->home_fd) < 0 ? -errno : 0;
	else
		r = errno == EEXIST ? 0 : -errno;
	fd = r < 0 ? r : open_dir(st);
	return fd < 0 ? state_error(st, -fd, "make the directory of secrets", e) : fd;
}

/* What a place may be: one line of text, and a path is absolute, since a door has no directory of
 * its own to begin from. */
static int check_place(enum secret_source source, const char *p, size_t n, struct err *e)
{
	if (source == SECRET_VALUE && n == 0)
		return err_set(e, ERR_INVALID, EINVAL, "the value is empty: nothing was stored");
	if (n > DOOR_SECRET_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "a secret has at most %u bytes",
			       DOOR_SECRET_MAX);
	if (source == SECRET_VALUE)
		return 0;
	if (n == 0 || n > BOX_PATH_MAX || memchr(p, 0, n) || memchr(p, '\n', n))
		return err_set(e, ERR_INVALID, EINVAL, "the secret's %s must be one line of text",
			       sources[source]);
	if (source == SECRET_FILE && p[0] != '/')
		return err_set(e, ERR_INVALID, EINVAL,
			       "the secret's file must be an absolute path: '%.*s'",
			       (int)(n < 80 ? n : 80), p);
	return 0;
}

int secret_set(struct state *st, const char *name, enum secret_source source, const void *p,
	       size_t n, struct err *e)
{
	autoclose int dir = -1;
	struct buf text;
	int r = check_name(name, e);

	if (r == 0)
		r = check_place(source, p, n, e);
	if (r == 0)
		r = dir = make_dir(st, e);
	if (r < 0)
		return r;
	buf_init(&text, FILE_MAX);
	text.is_secret = true;
	/* All at once, so that the buffer does not move and leave a copy behind. */
	r = buf_reserve(&text, FILE_MAX - 1) ? 0 : -ENOMEM;
	if (r == 0)
		r = buf_printf(&text, "%s\n", sources[source]);
	if (r == 0)
		r = buf_append(&text, p, n);
	if (r == 0)
		r = fd_write_file(dir, name, buf_data(&text), buf_len(&text), 0600, true);
	buf_done(&text);
	return r < 0 ? state_error(st, -r, "store the secret", e) : 0;
}

int secret_remove(struct state *st, const char *name, struct err *e)
{
	int r = check_name(name, e);

	if (r < 0)
		return r;
	autoclose int dir = open_dir(st);
	r = dir < 0 ? dir : unlinkat(dir, name, 0) < 0 ? -errno : 0;
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "there is no secret '%s'", name);
	return r < 0 ? state_error(st, -r, "remove the secret", e) : 0;
}

/* Splits what a file holds. */
static int parse(char *text, size_t len, enum secret_source *ret_source, char **ret_rest)
{
	char *end = memchr(text, '\n', len);

	if (!end)
		return -EBADMSG;
	for (int i = 0; i < SOURCE_COUNT; i++)
		if (strlen(sources[i]) == (size_t)(end - text) &&
		    memcmp(text, sources[i], (size_t)(end - text)) == 0) {
			*ret_source = (enum secret_source)i;
			*ret_rest = end + 1;
			return 0;
		}
	return -EBADMSG;
}

static int read_error(int r, const char *name, struct err *e)
{
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no secret '%s': store it with `cove secret set %s`", name,
			       name);
	if (r == -EBADMSG)
		return err_set(e, ERR_INTERNAL, EBADMSG,
			       "the file of secret '%s' is damaged: store it again", name);
	return err_errno(e, -r, "read secret '%s'", name);
}

/* The whole of a file, in locked memory that is its caller's, with a NUL behind it. */
static int read_locked(int dir, const char *name, char **ret, size_t *ret_len)
{
	autoclose int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char *text = fd < 0 ? NULL : locked_alloc(FILE_MAX + 2);
	ssize_t n;

	if (!text)
		return fd < 0 ? -errno : -ENOMEM;
	n = fd_read_full(fd, text, FILE_MAX + 1);
	if (n < 0 || n > FILE_MAX) {
		locked_free(text);
		return n < 0 ? (int)n : -EFBIG;
	}
	text[n] = 0;
	*ret = text;
	*ret_len = (size_t)n;
	return 0;
}

int secret_read(struct state *st, const char *name, enum secret_source *ret_source, char **ret,
		size_t *ret_len, struct err *e)
{
	char *text = NULL, *rest;
	size_t len = 0;
	int r = check_name(name, e);

	if (r < 0)
		return r;
	autoclose int dir = open_dir(st);
	r = dir < 0 ? dir : read_locked(dir, name, &text, &len);
	if (r == 0)
		r = parse(text, len, ret_source, &rest);
	if (r == 0) {
		*ret_len = len - (size_t)(rest - text);
		memmove(text, rest, *ret_len + 1);
		*ret = text;
		return 0;
	}
	locked_free(text);
	return read_error(r, name, e);
}

int secret_find(struct state *st, const char *name, struct secret_info *ret, struct err *e)
{
	enum secret_source source;
	char *text = NULL;
	size_t len = 0;
	struct stat s;
	int r = secret_read(st, name, &source, &text, &len, e);

	if (r < 0)
		return r;
	*ret = (struct secret_info){.source = source};
	str_copy(ret->name, sizeof(ret->name), name);
	if (source != SECRET_VALUE)
		str_copy(ret->where, sizeof(ret->where), text);
	locked_free(text);
	autoclose int dir = open_dir(st);
	if (dir < 0 || fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) < 0)
		return read_error(dir < 0 ? dir : -errno, name, e);
	ret->changed_ms = (uint64_t)s.st_mtim.tv_sec * 1000 + (uint64_t)s.st_mtim.tv_nsec / 1000000;
	return 0;
}

int secret_list(struct state *st, struct secret_info **ret, size_t *ret_count, struct err *e)
{
	autofree struct secret_info *list = NULL;
	char **names = NULL;
	size_t count = 0, n = 0;
	autoclose int dir = open_dir(st);
	int r = dir == -ENOENT ? 0 : dir < 0 ? dir : state_all_names(dir, &names, &count);

	if (r == 0) {
		list = calloc(count + 1, sizeof(*list));
		r = list ? 0 : -ENOMEM;
	}
	if (r < 0)
		r = state_error(st, -r, "list the secrets", e);
	/* One that was removed meanwhile is not there. */
	for (size_t i = 0; i < count && r == 0; i++) {
		r = secret_is_name(names[i]) ? secret_find(st, names[i], &list[n], e) : -ENOENT;
		n += r == 0;
		r = r == -ENOENT ? 0 : r;
	}
	state_names_free(names, count);
	if (r < 0)
		return r;
	*ret = take_ptr(list);
	*ret_count = n;
	return 0;
}
