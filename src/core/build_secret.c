/* Build secrets; see build_secret.h. */
#include "core/build_secret.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/locked.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SECRETS_DIR "/run/secrets/"

static bool is_id(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= 128 && s[0] != '.' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int read_file(struct build_secret *s, const char *path, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return err_errno(e, errno, "open the secret '%.60s' (%.100s)", s->id, path);
	s->data = locked_alloc(BUILD_SECRET_MAX + 1);
	if (!s->data)
		return err_errno(e, ENOMEM, "read the secret '%.60s'", s->id);
	n = fd_read_full(fd, s->data, BUILD_SECRET_MAX + 1);
	if (n < 0)
		return err_errno(e, (int)-n, "read the secret '%.60s'", s->id);
	if ((size_t)n > BUILD_SECRET_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "the secret '%.60s' is longer than %u bytes",
			       s->id, BUILD_SECRET_MAX);
	s->len = (size_t)n;
	return 0;
}

static int read_variable(struct build_secret *s, const char *name, struct err *e)
{
	const char *value = getenv(name);

	if (!value)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no variable '%.60s' for the secret '%.60s'", name, s->id);
	s->len = strlen(value);
	if (s->len > BUILD_SECRET_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "the secret '%.60s' is longer than %u bytes",
			       s->id, BUILD_SECRET_MAX);
	s->data = locked_alloc(s->len + 1);
	if (!s->data)
		return err_errno(e, ENOMEM, "read the secret '%.60s'", s->id);
	memcpy(s->data, value, s->len);
	return 0;
}

/* "id=N,src=FILE", "id=N,env=VAR", "id=N": then the variable of that name, else the file. */
static int take_secret(struct build_secret *s, const char *given, struct err *e)
{
	autofree char *copy = strdup(given);
	char *rest = copy, *option;
	const char *file = NULL, *variable = NULL;

	if (!copy)
		return err_errno(e, ENOMEM, "read a secret");
	while ((option = strsep(&rest, ","))) {
		char *value = strchr(option, '=');

		if (value)
			*value++ = 0;
		if (value && strcmp(option, "id") == 0 && is_id(value)) {
			free(s->id);
			s->id = strdup(value);
		} else if (value && (strcmp(option, "src") == 0 || strcmp(option, "source") == 0)) {
			file = value;
		} else if (value && strcmp(option, "env") == 0) {
			variable = value;
		} else if (!value || strcmp(option, "type") != 0) {
			return err_set(e, ERR_INVALID, EINVAL,
				       "a secret is given as id=NAME,src=FILE or "
				       "id=NAME,env=VARIABLE");
		}
	}
	if (!s->id)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a secret needs an id of letters, digits, '.', '_' and '-'");
	if (variable || (!file && getenv(s->id)))
		return read_variable(s, variable ? variable : s->id, e);
	return read_file(s, file ? file : s->id, e);
}

int build_secrets_init(struct build_secrets *ret, const char *const *given, struct err *e)
{
	int r = 0;

	*ret = (struct build_secrets){0};
	for (size_t i = 0; given && given[i] && r == 0; i++) {
		if (ret->count == BUILD_SECRETS_MAX)
			r = err_set(e, ERR_LIMIT, E2BIG, "more than %u secrets", BUILD_SECRETS_MAX);
		else
			r = take_secret(&ret->list[ret->count++], given[i], e);
	}
	if (r < 0)
		build_secrets_done(ret);
	return r;
}

void build_secrets_done(struct build_secrets *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->list[i].id);
		locked_free(s->list[i].data);
	}
	*s = (struct build_secrets){0};
}

static const struct build_secret *find(const struct build_secrets *s, const char *id)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->list[i].id, id) == 0)
			return &s->list[i];
	return NULL;
}

static int show_one(const struct build_secret *s, const struct build_mount *m, const char *id,
		    struct core_spec *spec, struct build_words *places, struct err *e)
{
	char path[BOX_PATH_MAX], all[BOX_PATH_MAX];
	const char *target = m->target;
	int r;

	if (!target || *target != '/') {
		if (snprintf(all, sizeof(all), SECRETS_DIR "%s", target ? target : id) >=
		    (int)sizeof(all))
			return err_set(e, ERR_INVALID, ENAMETOOLONG,
				       "a secret's target is too long");
		target = all;
	}
	if (!path_normalize(path, sizeof(path), target) || strcmp(path, "/") == 0)
		return err_set(e, ERR_INVALID, EINVAL, "'%.60s' is no place for a secret", target);
	if (spec->secret_count == BUILD_SECRETS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "more than %u secrets", BUILD_SECRETS_MAX);
	r = build_words_add(places, path);
	if (r < 0)
		return err_errno(e, -r, "show a secret");
	spec->secrets[spec->secret_count++] =
		(struct wall_secret){.path = places->list[places->count - 1],
				     .data = s->data,
				     .len = s->len,
				     .mode = m->has_mode ? m->mode : 0400,
				     .uid = m->uid,
				     .gid = m->gid};
	return 0;
}

int build_secrets_show(const struct build_secrets *s, const struct build_step *step,
		       struct core_spec *spec, struct build_words *places, struct err *e)
{
	for (size_t i = 0; i < step->mount_count; i++) {
		const struct build_mount *m = &step->mounts[i];
		const char *id = m->id ? m->id : m->target ? path_base(m->target) : m->source;
		const struct build_secret *secret;
		int r;

		if (m->kind != MOUNT_SECRET)
			continue;
		if (m->env)
			return err_set(
				e, ERR_UNSUPPORTED, EOPNOTSUPP,
				"a secret is never a variable in a box: read it from its file "
				"(" SECRETS_DIR "%.60s)",
				id ? id : "ID");
		secret = id ? find(s, id) : NULL;
		if (!secret && m->required)
			return err_set(e, ERR_NOT_FOUND, ENOENT,
				       "the secret '%.60s' is required: give it with --secret "
				       "id=%.60s,src=FILE",
				       id ? id : "?", id ? id : "?");
		r = secret ? show_one(secret, m, id, spec, places, e) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}
