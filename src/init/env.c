/* What a command is started with; see env.h. */
#include "init/env.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "guest/guest.h"
#include "guest/open.h"
#include "init/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Instead of root, where an image has no ordinary user. */
#define STRICT_USER "1000"

enum { DEFAULTS = 7, DEFAULTS_BYTES = 1024 };

int env_find_user(const struct init *in, const char *asked, struct user *ret, struct err *e)
{
	const char *wanted = asked ? asked : in->user;
	int r = in->users ? user_find_cached(in->users, wanted, ret, e) : user_find(wanted, ret, e);

	if (r < 0 || !in->strict || in->single || ret->uid != 0)
		return r;
	if (!wanted)
		return user_find(STRICT_USER, ret, e);
	return err_set(e, ERR_DENIED, EPERM,
		       "this box is strict: nothing is done as root ('%s') in it; name another "
		       "user (--user), by number if the image has none",
		       wanted);
}

int env_user(const struct init *in, const char *asked, struct user *ret, struct err *e)
{
	const char *wanted = asked ? asked : in->user;
	char self[16];
	int r;

	if (!in->single)
		return env_find_user(in, asked, ret, e);
	if (wanted) {
		r = user_find(wanted, ret, e);
		if (r < 0 || ret->uid == geteuid())
			return r;
		return err_set(e, ERR_UNSUPPORTED, EPERM,
			       "this box has one user id (%u), so nothing can run as '%s' (%u): "
			       "more need a "
			       "range of subordinate ids for the caller (/etc/subuid, /etc/subgid)",
			       (unsigned)geteuid(), wanted, (unsigned)ret->uid);
	}
	snprintf(self, sizeof(self), "%u", (unsigned)geteuid());
	return user_find(self, ret, e);
}

int env_cwd(const struct init *in, const struct user *u, const char *asked, char *ret, size_t size,
	    struct err *e)
{
	const char *start = in->cwd;
	autoclose int home = -1;
	bool fits;

	if (asked && asked[0] == '/') {
		fits = str_copy(ret, size, asked);
	} else {
		/* A home that leads through links of /proc is there: the command that is to start
		 * in it hears why it cannot. */
		if (!start) {
			home = path_open(u->home, O_PATH);
			start = home >= 0 || home == -ELOOP ? u->home : "/";
		}
		fits = asked ? path_join(ret, size, start, asked) : str_copy(ret, size, start);
	}
	return fits ? 0
		    : err_set(e, ERR_INVALID, ENAMETOOLONG,
			      "the working directory's name is too long");
}

void env_make_cwd(const struct init *in)
{
	autoclose int at = fd_open("/", O_PATH | O_DIRECTORY);
	const char *p = in->cwd;
	char name[NAME_MAX + 1];
	struct user user;

	if (at < 0 || env_user(in, NULL, &user, NULL) < 0)
		return;
	while (*(p += strspn(p, "/"))) {
		size_t n = strcspn(p, "/");
		bool made;
		int next;

		if (n >= sizeof(name))
			return;
		memcpy(name, p, n);
		name[n] = 0;
		p += n;
		made = mkdirat(at, name, 0755) == 0;
		if (made && !in->single)
			(void)!fchownat(at, name, user.uid, user.gid, AT_SYMLINK_NOFOLLOW);
		/* Not through links of /proc: descriptors of init are no place for a directory. */
		next = guest_open_at(at, name, O_PATH | O_DIRECTORY, FD_NO_MAGICLINKS);
		fd_close(&at);
		if (next < 0)
			return;
		at = next;
	}
}

struct init_env_builder {
	char **list;
	size_t count;
};

/* Adds NAME=VALUE, or puts it in the place of an earlier one with the same NAME. */
static void put(struct init_env_builder *b, char *item)
{
	size_t name = (size_t)(strchr(item, '=') - item) + 1;

	for (size_t i = 0; i < b->count; i++)
		if (strncmp(b->list[i], item, name) == 0) {
			b->list[i] = item;
			return;
		}
	b->list[b->count++] = item;
}

static void put_default(struct init_env_builder *b, char **text, const char *name,
			const char *value)
{
	size_t n = strlen(name) + strlen(value) + 2;

	snprintf(*text, n, "%s=%s", name, value);
	put(b, *text);
	*text += n;
}

static bool is_path(const char *item)
{
	return str_starts(item, "PATH=");
}

/* Behind all that whoever set PATH wanted: cove-ctl is the last to be found. */
static void add_ctl(struct init_env_builder *b, char *text)
{
	for (size_t i = 0; i < b->count; i++)
		if (is_path(b->list[i])) {
			stpcpy(stpcpy(text, b->list[i]), ":" GUEST_CTL_DIR);
			b->list[i] = text;
			return;
		}
}

int env_build(const struct init *in, const struct user *u, const struct wire_list *add, bool tty,
	      char ***ret, struct err *e)
{
	struct init_env_builder b = {0};
	size_t slots = DEFAULTS + 1, path = sizeof("PATH=" PATH_OF_PROGRAMS);
	uint32_t pos = 0;
	const char *item;
	char *text;

	if (add->count > INIT_ENV_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "more than %u environment variables",
			       INIT_ENV_MAX);
	while ((item = wire_list_next(add, &pos))) {
		if (item[0] == '=' || !strchr(item, '='))
			return err_set(e, ERR_INVALID, EINVAL, "'%.100s' is not NAME=VALUE", item);
		path += is_path(item) ? strlen(item) : 0;
	}
	for (const char *const *p = in->env; p && *p; p++, slots++)
		path += is_path(*p) ? strlen(*p) : 0;
	slots += add->count;
	b.list = calloc(1, slots * sizeof(*b.list) + DEFAULTS_BYTES +
				   (in->ctl ? path + sizeof(":" GUEST_CTL_DIR) : 0));
	if (!b.list)
		return err_errno(e, ENOMEM, "environment");
	text = (char *)(b.list + slots);
	put_default(&b, &text, "PATH", PATH_OF_PROGRAMS);
	put_default(&b, &text, "HOME", u->home);
	put_default(&b, &text, "USER", u->name);
	put_default(&b, &text, "LOGNAME", u->name);
	put_default(&b, &text, "SHELL", u->shell);
	put_default(&b, &text, "LANG", "C.UTF-8");
	if (tty)
		put_default(&b, &text, "TERM", "xterm-256color");
	for (const char *const *p = in->env; p && *p; p++)
		put(&b, (char *)(uintptr_t)*p);
	pos = 0;
	while ((item = wire_list_next(add, &pos)))
		put(&b, (char *)(uintptr_t)item);
	if (in->ctl)
		add_ctl(&b, text);
	*ret = b.list;
	return 0;
}
