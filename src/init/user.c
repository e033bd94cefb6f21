/*
 * Who a command runs as; see user.h.
 *
 * Both files are read whole for each lookup: they are small, they may change while the box runs,
 * and nothing read from them is trusted beyond its bounds. The last answer is remembered while the
 * kernel says that neither file has changed since; not if one changed in the last two seconds,
 * because a second change may then have the same time. A line that is not of the form is
 * skipped, as libc does. The first match wins.
 */
#include "init/user.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PASSWD_FIELDS = 7, GROUP_FIELDS = 4, ID_MAX = 0x7fffffff, UNCHANGED_S = 2 };

/* What is looked for: by name, or by uid where name is NULL. */
struct wanted {
	const char *name;
	uid_t uid;
};

/* /etc is the box's own: a link of /proc in its place would lead through init's descriptors. */
static int open_etc(void)
{
	return guest_open_at(AT_FDCWD, "/etc", O_PATH | O_DIRECTORY, FD_NO_MAGICLINKS);
}

/* etc_fd: of open_etc, also where it failed. */
static int read_table(int etc_fd, const char *name, char **ret, struct err *e)
{
	int r = etc_fd < 0 ? etc_fd : fd_read_plain(etc_fd, name, INIT_PASSWD_MAX, ret, NULL);

	if (r == -ENOENT) {
		*ret = strdup("");
		return *ret ? 0 : err_errno(e, ENOMEM, "read /etc/%s", name);
	}
	return r < 0 ? err_errno(e, -r, "read /etc/%s", name) : 0;
}

/* Cuts the next line into exactly count fields. False at the end of the text. */
static bool next_line(char **text, char **fields, int count)
{
	char *line;

	while ((line = strsep(text, "\n"))) {
		int n = 0;

		while (n < count && (fields[n] = strsep(&line, ":")))
			n++;
		if (n == count && !line && fields[0][0])
			return true;
	}
	return false;
}

static bool parse_id(const char *s, uint32_t *ret)
{
	uint64_t v;

	if (!str_parse_u64(s, ID_MAX, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* Fills in what the line says. False if it is about somebody else. */
static bool take_passwd(char **f, const struct wanted *w, struct user *ret)
{
	uint32_t uid, gid;

	if (!parse_id(f[2], &uid) || !parse_id(f[3], &gid))
		return false;
	if (w->name ? strcmp(f[0], w->name) != 0 : uid != w->uid)
		return false;
	ret->uid = uid;
	ret->gid = gid;
	/* A cut name, home or shell would be another one: what does not fit stays as it was. */
	if (strlen(f[0]) < sizeof(ret->name))
		str_copy(ret->name, sizeof(ret->name), f[0]);
	if (f[5][0] == '/' && strlen(f[5]) < sizeof(ret->home))
		str_copy(ret->home, sizeof(ret->home), f[5]);
	if (f[6][0] == '/' && strlen(f[6]) < sizeof(ret->shell))
		str_copy(ret->shell, sizeof(ret->shell), f[6]);
	return true;
}

/* 1 and the user, 0 if there is no such line. */
static int find_passwd(int etc_fd, const struct wanted *w, struct user *ret, struct err *e)
{
	autofree char *text = NULL;
	char *at, *fields[PASSWD_FIELDS];
	int r = read_table(etc_fd, "passwd", &text, e);

	if (r < 0)
		return r;
	at = text;
	while (next_line(&at, fields, PASSWD_FIELDS))
		if (take_passwd(fields, w, ret))
			return 1;
	return 0;
}

static bool has_member(char *members, const char *name)
{
	char *one;

	while ((one = strsep(&members, ",")))
		if (strcmp(one, name) == 0)
			return true;
	return false;
}

/* The groups a user is a member of. More than USER_GROUPS_MAX is an error: a command with some of
 * its groups missing would fail for no visible reason. */
static int find_groups(int etc_fd, struct user *u, struct err *e)
{
	autofree char *text = NULL;
	char *at, *fields[GROUP_FIELDS];
	int r = read_table(etc_fd, "group", &text, e);

	if (r < 0)
		return r;
	at = text;
	while (next_line(&at, fields, GROUP_FIELDS)) {
		uint32_t gid;

		if (!parse_id(fields[2], &gid) || gid == u->gid || !has_member(fields[3], u->name))
			continue;
		if (u->group_count == USER_GROUPS_MAX)
			return err_set(e, ERR_LIMIT, E2BIG, "user '%s' is in more than %d groups",
				       u->name, USER_GROUPS_MAX);
		u->groups[u->group_count++] = gid;
	}
	return 0;
}

static void start_with(struct user *u, uid_t uid, gid_t gid)
{
	*u = (struct user){.uid = uid, .gid = gid};
	snprintf(u->name, sizeof(u->name), "%u", (unsigned)uid);
	str_copy(u->home, sizeof(u->home), "/");
	str_copy(u->shell, sizeof(u->shell), "/bin/sh");
}

/* A user the passwd file knows also has the groups that name it; the primary one comes first. */
static int finish(int etc_fd, struct user *u, bool known, struct err *e)
{
	u->groups[0] = u->gid;
	u->group_count = 1;
	return known ? find_groups(etc_fd, u, e) : 0;
}

/* 1 and the number of a group by its name, 0 if there is none. */
static int find_group(int etc_fd, const char *name, uint32_t *ret, struct err *e)
{
	autofree char *text = NULL;
	char *at, *fields[GROUP_FIELDS];
	int r = read_table(etc_fd, "group", &text, e);

	if (r < 0)
		return r;
	at = text;
	while (next_line(&at, fields, GROUP_FIELDS))
		if (strcmp(fields[0], name) == 0 && parse_id(fields[2], ret))
			return 1;
	return 0;
}

/* "UID", "USER:GROUP": names or numbers. With an explicit group the user has that one only. */
static int find_pair(int etc_fd, const char *text, struct user *ret, struct err *e)
{
	char user[64];
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	uint32_t uid = 0, gid = 0;
	bool is_number;
	int r;

	if (len == 0 || len >= sizeof(user))
		return err_set(e, ERR_NOT_FOUND, ESRCH, "no user '%s' in this box", text);
	memcpy(user, text, len);
	user[len] = '\0';
	is_number = parse_id(user, &uid);
	start_with(ret, uid, uid);
	r = find_passwd(etc_fd, &(struct wanted){.name = is_number ? NULL : user, .uid = uid}, ret,
			e);
	/* Root is uid 0 also where nothing says so, as in an image of one static program. */
	if (r == 0 && !is_number && strcmp(user, "root") != 0)
		return err_set(e, ERR_NOT_FOUND, ESRCH, "no user '%s' in this box", user);
	if (r < 0 || !colon)
		return r < 0 ? r : finish(etc_fd, ret, r > 0, e);
	r = parse_id(colon + 1, &gid) ? 1 : find_group(etc_fd, colon + 1, &gid, e);
	if (r == 0)
		r = err_set(e, ERR_NOT_FOUND, ESRCH, "no group '%s' in this box", colon + 1);
	if (r < 0)
		return r;
	ret->gid = gid;
	return finish(etc_fd, ret, false, e);
}

static int find_user(int etc_fd, const char *name, struct user *ret, struct err *e)
{
	int r;

	if (!name) {
		start_with(ret, 1000, 1000);
		r = find_passwd(etc_fd, &(struct wanted){.uid = 1000}, ret, e);
		if (r == 0) {
			start_with(ret, 0, 0);
			r = find_passwd(etc_fd, &(struct wanted){.uid = 0}, ret, e);
			if (r == 0)
				str_copy(ret->name, sizeof(ret->name), "root");
		}
		return r < 0 ? r : finish(etc_fd, ret, r > 0, e);
	}
	start_with(ret, 0, 0);
	r = find_passwd(etc_fd, &(struct wanted){.name = name}, ret, e);
	if (r < 0)
		return r;
	return r > 0 ? finish(etc_fd, ret, true, e) : find_pair(etc_fd, name, ret, e);
}

int user_find(const char *name, struct user *ret, struct err *e)
{
	autoclose int etc_fd = open_etc();

	return find_user(etc_fd, name, ret, e);
}

/* False: the answer is not to be kept. */
static bool look_at_files(int etc_fd, struct user_cache *c)
{
	static const char *const names[2] = {"passwd", "group"};
	struct timespec now;
	struct stat st;

	memset(c->file, 0, sizeof(c->file));
	if (etc_fd < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
		return false;
	for (int i = 0; i < 2; i++) {
		if (fstatat(etc_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    st.st_ctim.tv_sec > now.tv_sec - UNCHANGED_S)
			return false;
		c->file[i].dev = st.st_dev;
		c->file[i].ino = st.st_ino;
		c->file[i].size = st.st_size;
		c->file[i].changed = st.st_ctim;
	}
	return true;
}

int user_find_cached(struct user_cache *c, const char *name, struct user *ret, struct err *e)
{
	autoclose int etc_fd = open_etc();
	struct user_cache now = {0};
	bool keep = str_copy(now.name, sizeof(now.name), name ? name : "") &&
		    look_at_files(etc_fd, &now);
	int r;

	if (keep && c->valid && strcmp(c->name, now.name) == 0 &&
	    memcmp(c->file, now.file, sizeof(now.file)) == 0) {
		*ret = c->user;
		return 0;
	}
	r = find_user(etc_fd, name, ret, e);
	now.user = *ret;
	now.valid = keep && r == 0;
	*c = now;
	return r;
}
