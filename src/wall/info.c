/* The list of walls; see info.h. */
#include "wall/info.h"

#include <string.h>

const struct wall_info wall_native_info = {
	.name = "native",
	.flags = WALL_SHARED_KERNEL | WALL_ROOT_INSIDE | WALL_GROUPED | WALL_EXEC_GROUPS |
		 WALL_PROC_FILES | WALL_HOST_MOUNTS | WALL_FREEZE | WALL_MEASURE,
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
