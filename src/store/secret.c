/* Secrets on disk; see secret.h. */
#include "store/secret.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/locked.h"
#include "base/str.h"
#include "store/key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SECRETS_DIR "secrets"

enum { FILE_MAX = DOOR_SECRET_MAX + 32 };

static const char *const sources[] = {
	[SECRET_VALUE] = "value", [SECRET_FILE] = "file", [SECRET_COMMAND] = "command"};

enum { SOURCE_COUNT = sizeof(sources) / sizeof(sources[0]) };

const char *secret_source_name(enum secret_source source)
{
	return sources[source];
}

bool secret_is_name(const char *name)
{
	return strlen(name) <= SECRET_NAME_MAX &&
	       str_is_env_name(key_name_plain(KEY_OF_SECRET, name));
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

static int write_secret(struct state *st, const char *name, const struct secret_text *t,
			struct err *e)
{
	autoclose int dir = -1;
	struct buf text;
	int r = check_name(name, e);

	if (r == 0)
		r = check_place(t->source, t->data, t->len, e);
	if (r == 0)
		r = dir = make_dir(st, e);
	if (r < 0)
		return r;
	buf_init(&text, FILE_MAX);
	text.is_secret = true;
	/* All at once, so that the buffer does not move and leave a copy behind. */
	r = buf_reserve(&text, FILE_MAX - 1) ? 0 : -ENOMEM;
	if (r == 0)
		r = buf_append_str(&text, sources[t->source]);
	if (r == 0 && t->cache_ms)
		r = buf_printf(&text, " %" PRIu64, t->cache_ms);
	if (r == 0)
		r = buf_append_str(&text, "\n");
	if (r == 0)
		r = buf_append(&text, t->data, t->len);
	if (r == 0)
		r = fd_write_file(dir, name, buf_data(&text), buf_len(&text), 0600, true);
	buf_done(&text);
	return r < 0 ? state_error(st, -r, "store the secret", e) : 0;
}

int secret_set(struct state *st, const char *name, enum secret_source source, const void *p,
	       size_t n, struct err *e)
{
	const struct secret_text t = {.source = source, .data = (char *)(uintptr_t)p, .len = n};

	return write_secret(st, name, &t, e);
}

int secret_set_command(struct state *st, const char *name, const char *line, uint64_t cache_ms,
		       struct err *e)
{
	const struct secret_text t = {.source = SECRET_COMMAND,
				      .cache_ms = cache_ms,
				      .data = (char *)(uintptr_t)line,
				      .len = strlen(line)};

	if (cache_ms > SECRET_CACHE_MAX_MS)
		return err_set(e, ERR_LIMIT, ERANGE, "a secret is kept for at most %u h",
			       SECRET_CACHE_MAX_MS / 3600000);
	return write_secret(st, name, &t, e);
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

/* Splits what a file holds: t->data is all of it, and then what follows the first line. */
static int parse(struct secret_text *t)
{
	char *end = memchr(t->data, '\n', t->len), *space;
	size_t first = end ? (size_t)(end - t->data) + 1 : 0;
	int i = 0;

	if (!end)
		return -EBADMSG;
	*end = 0;
	space = strchr(t->data, ' ');
	if (space)
		*space++ = 0;
	while (i < SOURCE_COUNT && strcmp(t->data, sources[i]) != 0)
		i++;
	if (i == SOURCE_COUNT ||
	    (space &&
	     (i != SECRET_COMMAND || !str_parse_u64(space, SECRET_CACHE_MAX_MS, &t->cache_ms))))
		return -EBADMSG;
	t->source = (enum secret_source)i;
	t->len -= first;
	memmove(t->data, t->data + first, t->len + 1);
	return 0;
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
static int read_locked(int dir, const char *name, struct secret_text *ret)
{
	autoclose int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char *text = fd < 0 ? NULL : locked_alloc(FILE_MAX + 2);
	struct stat s;
	ssize_t n;

	if (!text)
		return fd < 0 ? -errno : -ENOMEM;
	n = fstat(fd, &s) < 0 ? -errno : fd_read_full(fd, text, FILE_MAX + 1);
	if (n < 0 || n > FILE_MAX) {
		locked_free(text);
		return n < 0 ? (int)n : -EFBIG;
	}
	text[n] = 0;
	*ret = (struct secret_text){
		.stamp = {.inode = s.st_ino,
			  .changed_ns = (uint64_t)s.st_ctim.tv_sec * 1000000000 +
					(uint64_t)s.st_ctim.tv_nsec},
		.data = text,
		.len = (size_t)n};
	return 0;
}

int secret_read(struct state *st, const char *name, struct secret_text *ret, struct err *e)
{
	struct secret_text t = {0};
	int r = check_name(name, e);

	if (r < 0)
		return r;
	autoclose int dir = open_dir(st);
	r = dir < 0 ? dir : read_locked(dir, name, &t);
	if (r == 0)
		r = parse(&t);
	if (r == 0) {
		*ret = t;
		return 0;
	}
	locked_free(t.data);
	return read_error(r, name, e);
}

int secret_find(struct state *st, const char *name, struct secret_info *ret, struct err *e)
{
	struct secret_text t;
	struct stat s;
	int r = secret_read(st, name, &t, e);

	if (r < 0)
		return r;
	*ret = (struct secret_info){.source = t.source, .cache_ms = t.cache_ms};
	str_copy(ret->name, sizeof(ret->name), name);
	if (t.source != SECRET_VALUE)
		str_copy(ret->where, sizeof(ret->where), t.data);
	locked_free(t.data);
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
