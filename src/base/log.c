/* Debug lines; see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool debug_on;

void log_init(void)
{
	const char *v = getenv("COVE_DEBUG");

	debug_on = v && *v && *v != '0';
}

bool log_is_debug(void)
{
	return debug_on;
}

void log_debug(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	if (!debug_on)
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	dprintf(STDERR_FILENO, "cove[%d] %s\n", (int)getpid(), line);
}
