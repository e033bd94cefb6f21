/*
 * The out-of-memory score; see oom.h.
 *
 * Whoever has CAP_SYS_RESOURCE where the machine has it sets the lowest score with every write; for
 * all others it stays as it was. Root in a container has the capability and not its effect, so it
 * is not asked for: a try without it shows what the box will be able to do.
 */
#include "keeper/oom.h"

#include "base/caps.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int oom_reset(int fd, bool *ret_lower)
{
	char text[16] = "";
	ssize_t n = read(fd, text, sizeof(text) - 1);
	int r, score = atoi(text);
	bool lower;

	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	snprintf(text, sizeof(text), "%d", score < 0 ? 0 : score);
	r = fd_write_full(fd, text, strlen(text));
	if (r == 0)
		r = caps_lower(CAP_BIT(CAP_SYS_RESOURCE));
	if (r < 0)
		return r;
	lower = fd_write_full(fd, "-1", 2) == 0;
	r = caps_raise();
	if (r == 0 && lower)
		r = fd_write_full(fd, text, strlen(text));
	*ret_lower = lower;
	return r;
}
