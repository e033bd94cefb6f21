/*
 * Protections that can be switched off one at a time, so that the attack suite can show that it
 * would notice (`make attack-selftest`). Only in a build made for that (-Dcontrols=true), which
 * says so in `cove version`; in every other build the question is the constant false, and the names
 * are not in the program.
 */
#pragma once

#include <stdbool.h>

#ifdef COVE_CONTROLS
/* Is name in $COVE_WITHOUT, a list with commas? */
bool control_is_off(const char *name);
/* The whole list, to hand it on to init; NULL where nothing is switched off. */
const char *control_list(void);
#else
#define control_is_off(name) false
#endif
