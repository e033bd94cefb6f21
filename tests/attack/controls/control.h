/*
 * Protections that can be switched off one at a time, so that the attack suite can show that it
 * would notice (`make attack-selftest`). Only in a build made for that (tools/controls), which says
 * so in `cove version`; the sources of Cove know nothing of it.
 */
#pragma once

#include <stdbool.h>

/* Is name in $COVE_WITHOUT, a list with commas? */
bool control_is_off(const char *name);
/* The whole list, to hand it on to init; NULL where nothing is switched off. */
const char *control_list(void);
