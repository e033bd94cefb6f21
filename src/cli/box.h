/* Making a box that stays: what create, open and start share. */
#pragma once

#include "cli/cli.h"

#include <stdbool.h>

/* From here on Ctrl-C, TERM and HUP wait, so that a box is made whole or not at all. */
void box_hold_signals(void);

/* After the box was made: honours a signal that came meanwhile, else prints the name, or everything
 * with --json. Where that fails, a fresh box is removed again. Returns the exit status. */
int box_made(struct cli *c, const char *name, bool fresh);
