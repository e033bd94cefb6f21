/* The list of walls; see info.h. */
#include "wall/info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct wall_info wall_native_info = {
	.name = "native",
	.flags = WALL_SHARED_KERNEL | WALL_ROOT_INSIDE | WALL_GROUPED | WALL_EXEC_GROUPS |
		 WALL_PROC_FILES | WALL_HOST_MOUNTS | WALL_FREEZE | WALL_MEASURE,
	.strength = 10,
};

const struct wall_info wall_gvisor_info = {
	.name = "gvisor",
	.flags = WALL_ROOT_INSIDE | WALL_GROUPED | WALL_PROC_FILES | WALL_HOST_MOUNTS |
		 WALL_FREEZE | WALL_MEASURE,
	.strength = 20,
	.pids_each = 4,
	.pids_more = 256,
	.program = "runsc",
	.remedy = "install it (Debian: apt install runsc; newer ones: "
		  "go install gvisor.dev/gvisor/runsc) or put it at walls/gvisor/runsc in "
		  "COVE_HOME",
};

#ifdef COVE_TEST_WALLS
const struct wall_info wall_plain_info = {
	.name = "plain",
	.flags = WALL_SHARED_KERNEL | WALL_ROOT_INSIDE,
};
#endif

#define WALL_INFO_ROW(name) &wall_##name##_info,
static const struct wall_info *const infos[] = {WALLS(WALL_INFO_ROW)};

const struct wall_info *wall_info_find(const char *name)
{
	for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++)
		if (strcmp(infos[i]->name, name) == 0)
			return infos[i];
	return NULL;
}

#define WALL_NAME(name) ", " #name
const char *wall_names(void)
{
	return &WALLS(WALL_NAME)[2];
}

/* 0, or -errno: -EPERM where others may have written it. */
static int check_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IXOTH))
		return -EACCES;
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return 0;
}

static int try_program(const char *dir, size_t len, const char *program, char *ret)
{
	/* A relative directory of PATH is whatever the caller happens to stand in. */
	if (len == 0 || dir[0] != '/' ||
	    snprintf(ret, BOX_PATH_MAX, "%.*s/%s", (int)len, dir, program) >= (int)BOX_PATH_MAX)
		return -ENOENT;
	return check_program(ret);
}

int wall_program_find(const struct wall_info *w, const char *home, char ret[BOX_PATH_MAX],
		      struct err *e)
{
	const char *dirs = secure_getenv("PATH");
	char own[BOX_PATH_MAX];
	int r = -ENOENT, n = snprintf(own, sizeof(own), "%s/walls/%s", home, w->name);

	if (n < (int)sizeof(own))
		r = try_program(own, (size_t)n, w->program, ret);
	for (size_t len; r == -ENOENT && dirs && *dirs; dirs += len + (dirs[len] == ':')) {
		len = strcspn(dirs, ":");
		r = try_program(dirs, len, w->program, ret);
	}
	if (r == -ENOENT)
		r = try_program("/usr/local/bin", strlen("/usr/local/bin"), w->program, ret);
	if (r == -ENOENT)
		r = try_program("/usr/bin", strlen("/usr/bin"), w->program, ret);
	if (r == -ENOENT)
		return err_set(e, ERR_UNSUPPORTED, ENOENT, "wall '%s' needs the program '%s': %s",
			       w->name, w->program, w->remedy);
	if (r == -EPERM)
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.100s' belongs to somebody else, or others may write to it", ret);
	return r < 0 ? err_set(e, ERR_UNSUPPORTED, -r, "'%.100s' cannot be run by everybody", ret)
		     : 0;
}
