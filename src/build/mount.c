/* --mount; see mount.h. */
#include "build/mount.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int take_kind(struct build_mount *m, const char *value, struct err *e)
{
	static const char *const names[] = {"bind", "cache", "tmpfs", "secret"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			m->kind = i;
			return 0;
		}
	}
	if (strcmp(value, "ssh") == 0)
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "--mount=type=ssh is not supported; give the key as a build secret "
			       "(--mount=type=secret)");
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.40s' is no type of a mount: bind, cache, secret or tmpfs", value);
}

static int take_bool(const char *key, const char *value, bool *ret, struct err *e)
{
	if (!*value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
		*ret = true;
	else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
		*ret = false;
	else
		return err_set(e, ERR_INVALID, EINVAL, "%s of a mount is true or false", key);
	return 0;
}

static int take_number(const char *key, const char *value, int base, unsigned max, unsigned *ret,
		       struct err *e)
{
	char *end;
	unsigned long n = strtoul(value, &end, base);

	if (!*value || *end || n > max || value[0] == '-')
		return err_set(e, ERR_INVALID, EINVAL, "'%.40s' is no %s for a mount", value, key);
	*ret = (unsigned)n;
	return 0;
}

static int take_text(char **place, const char *value)
{
	free(*place);
	*place = strdup(value);
	return *place ? 0 : -ENOMEM;
}

static int take_option(struct build_mount *m, const char *key, const char *value, struct err *e)
{
	bool ro = false;
	int r;

	if (strcmp(key, "type") == 0)
		return take_kind(m, value, e);
	if (strcmp(key, "id") == 0)
		return take_text(&m->id, value);
	if (strcmp(key, "target") == 0 || strcmp(key, "dst") == 0 ||
	    strcmp(key, "destination") == 0)
		return take_text(&m->target, value);
	if (strcmp(key, "source") == 0 || strcmp(key, "src") == 0)
		return take_text(&m->source, value);
	if (strcmp(key, "from") == 0)
		return take_text(&m->from, value);
	if (strcmp(key, "env") == 0)
		return take_text(&m->env, value);
	if (strcmp(key, "required") == 0)
		return take_bool(key, value, &m->required, e);
	if (strcmp(key, "rw") == 0 || strcmp(key, "readwrite") == 0)
		return take_bool(key, value, &m->writable, e);
	if (strcmp(key, "ro") == 0 || strcmp(key, "readonly") == 0) {
		r = take_bool(key, value, &ro, e);
		m->writable = !ro;
		return r;
	}
	if (strcmp(key, "mode") == 0) {
		m->has_mode = true;
		return take_number("mode", value, 8, 07777, &m->mode, e);
	}
	if (strcmp(key, "uid") == 0)
		return take_number("uid", value, 10, 65535, &m->uid, e);
	if (strcmp(key, "gid") == 0)
		return take_number("gid", value, 10, 65535, &m->gid, e);
	/* Builds of one user that share a cache wait for nothing; tmpfs counts as the box's. */
	if (strcmp(key, "sharing") == 0 || strcmp(key, "size") == 0)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "a mount has no option '%.40s'", key);
}

/* Which of them make no sense without each other. */
static int check(const struct build_mount *m, struct err *e)
{
	if (m->kind != MOUNT_SECRET && !m->target)
		return err_set(e, ERR_INVALID, EINVAL, "a mount needs a target=");
	if (m->kind == MOUNT_SECRET && !m->id && !m->source && !m->target)
		return err_set(e, ERR_INVALID, EINVAL, "a secret needs an id=");
	if (m->kind == MOUNT_TMPFS && (m->from || m->source))
		return err_set(e, ERR_INVALID, EINVAL, "a tmpfs has no source");
	return 0;
}

int build_mount_parse(const char *text, struct build_mount *ret, struct err *e)
{
	autofree char *copy = strdup(text);
	char *rest = copy, *option;
	int r = copy ? 0 : -ENOMEM;

	*ret = (struct build_mount){0};
	while (r == 0 && (option = strsep(&rest, ","))) {
		char *value = strchr(option, '=');

		if (value)
			*value++ = 0;
		r = take_option(ret, option, value ? value : "", e);
	}
	if (r == -ENOMEM)
		return err_errno(e, ENOMEM, "read --mount");
	return r == 0 ? check(ret, e) : r;
}

void build_mount_done(struct build_mount *m)
{
	free(m->id);
	free(m->target);
	free(m->source);
	free(m->from);
	free(m->env);
	*m = (struct build_mount){0};
}
