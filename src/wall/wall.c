/* The table of walls; see wall.h. */
#include "wall/wall.h"

#include "wall/host.h"

#include <string.h>

const char *const wall_proc_names[WALL_PROC_FILE_COUNT] = {"cpuinfo", "loadavg", "meminfo", "stat",
							   "uptime"};

#define WALL_ROW(name) &wall_##name,
static const struct wall_ops *const walls[] = {WALLS(WALL_ROW)};

const struct wall_ops *wall_find(const char *name)
{
	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++)
		if (strcmp(walls[i]->info->name, name) == 0)
			return walls[i];
	return NULL;
}
