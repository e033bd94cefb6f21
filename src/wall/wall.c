/* The table of walls; see wall.h. */
#include "wall/wall.h"

#include <string.h>

static const struct wall_ops *const walls[] = {&wall_native};

const struct wall_ops *wall_find(const char *name)
{
	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++)
		if (strcmp(walls[i]->name, name) == 0)
			return walls[i];
	return NULL;
}
