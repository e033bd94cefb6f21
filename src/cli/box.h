/* Making a box that stays: what create and open share. */
#pragma once

#include "cli/cli.h"

#include <stdbool.h>

/* Makes a box, or opens the session's of the first argument, and prints its name, or everything
 * with --json. Ctrl-C, TERM and HUP wait meanwhile: a box is made whole or not at all. After one of
 * them, or where its name cannot be printed, a fresh box is removed again. The exit status. */
int box_make(struct cli *c, bool is_session);
