/*
 * The box's /etc/passwd and /etc/group as init reads them. The input is three texts with the byte
 * 0xff between them: who is asked for, the passwd file, the group file. Whatever they say, a user
 * that is found is complete and within bounds.
 */
#include "fuzz.h"

#include "base/fd.h"

#include <errno.h>

static const char *passwd_text, *group_text;

/* Stands in for the two files. */
static int fuzz_read_file(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len)
{
	const char *text = strcmp(path, "/etc/passwd") == 0 ? passwd_text : group_text;

	if (!text)
		return -ENOENT;
	if (strlen(text) > max)
		return -EFBIG;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

#define fd_read_file fuzz_read_file
#include "guest/open.c" /* which user.c opens /etc with */
#include "init/user.c"	/* its functions are static: the file is the unit */

static char *cut(char *text)
{
	char *end = text ? strchr(text, '\xff') : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	return end + 1;
}

static void check(const struct user *u)
{
	MUST(u->uid <= INT32_MAX && u->gid <= INT32_MAX);
	MUST(u->group_count >= 1 && u->group_count <= USER_GROUPS_MAX && u->groups[0] == u->gid);
	MUST(memchr(u->name, 0, sizeof(u->name)) && u->name[0]);
	MUST(memchr(u->home, 0, sizeof(u->home)) && u->home[0] == '/');
	MUST(memchr(u->shell, 0, sizeof(u->shell)) && u->shell[0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *name = input_text(&(struct input){p, n});
	char *passwd = cut(name);
	struct user u;
	struct err e = {0};

	passwd_text = passwd;
	group_text = cut(passwd);
	if (user_find(name, &u, &e) == 0)
		check(&u);
	else
		MUST(e.kind != ERR_NONE && e.msg[0]);
	if (user_find(NULL, &u, &e) == 0)
		check(&u);
	free(name);
	return 0;
}
