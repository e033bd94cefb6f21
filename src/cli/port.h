/* Ports of this host that lead into boxes; what `cove start` needs of them. */
#pragma once

#include "cli/cli.h"

/* Brings back what was forwarded in the background when the box ended, and says so, or why not. */
int port_restore(struct cli *c, const char *box, bool was_running);
