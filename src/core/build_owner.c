/* Users and groups of a tree that is being built; see build_copy.h. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/build_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* A small file of /etc, resolved beneath the root. NULL where there is none. */
static char *read_etc(int root_fd, const char *path)
{
	autoclose int fd =
		fd_openat2(root_fd, path, O_RDONLY | O_NONBLOCK, 0, FD_IN_ROOT | FD_NO_MAGICLINKS);
	struct stat st;
	char *text = NULL;
	size_t len;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    fd_read_regular(fd, PASSWD_FILE_MAX, &text, &len) < 0)
		return NULL;
	return text;
}

/* The numbers in the third and (passwd) fourth field of the line that has this name, or this number
 * in the third. */
static bool find_line(char *text, const char *want, uint64_t *ret_id, uint64_t *ret_group)
{
	for (char *line; (line = strsep(&text, "\n"));) {
		const char *name = strsep(&line, ":"), *id, *group;

		if (!strsep(&line, ":"))
			continue;
		id = strsep(&line, ":");
		group = strsep(&line, ":");
		if (!id || (strcmp(name, want) != 0 && strcmp(id, want) != 0))
			continue;
		if (!str_parse_u64(id, 65535, ret_id))
			continue;
		if (!group || !str_parse_u64(group, 65535, ret_group))
			*ret_group = *ret_id;
		return true;
	}
	return false;
}

static int no_such(const char *what, const char *name, const char *file, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "the image has no %s '%.60s' in its %s", what,
		       name, file);
}

int build_owner_find(int root_fd, const char *text, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	autofree char *user = strndup(text, strcspn(text, ":"));
	autofree char *passwd = read_etc(root_fd, "etc/passwd");
	const char *group = strchr(text, ':') ? strchr(text, ':') + 1 : NULL;
	uint64_t uid = 0, gid = 0, other;

	if (!user)
		return err_errno(e, ENOMEM, "find a user");
	/* A number is its own group, whatever group /etc/passwd has for it. */
	if (str_parse_u64(user, 65535, &uid))
		gid = uid;
	else if (!passwd || !find_line(passwd, user, &uid, &gid))
		return no_such("user", user, "/etc/passwd", e);
	if (group && *group) {
		autofree char *groups = read_etc(root_fd, "etc/group");

		if (groups && find_line(groups, group, &gid, &other))
			;
		else if (!str_parse_u64(group, 65535, &gid))
			return no_such("group", group, "/etc/group", e);
	}
	*ret_uid = (uid_t)uid;
	*ret_gid = (gid_t)gid;
	return 0;
}
