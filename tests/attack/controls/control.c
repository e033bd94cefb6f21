/* Which protections are switched off; see control.h. */
#include "base/control.h"

#include <stdlib.h>
#include <string.h>

const char *control_list(void)
{
	const char *list = getenv("COVE_WITHOUT");

	return list && *list ? list : NULL;
}

bool control_is_off(const char *name)
{
	size_t len = strlen(name);

	for (const char *at = control_list(); at && *at;) {
		size_t n = strcspn(at, ",");

		if (n == len && strncmp(at, name, n) == 0)
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}
