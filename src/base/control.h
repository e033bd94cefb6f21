/*
 * Protections that can be switched off one at a time, so that the attack suite can show that it
 * would notice (`make attack-selftest`). Only in a build made for that (-Dcontrols=true), which
 * says so in `cove version`; in every other build the question is the constant false, and the names
 * are not in the program.
 */
#pragma once

#include <stdbool.h>

#ifdef COVE_CONTROLS
/* Is name in the list with commas that control_set was given, or else in $COVE_WITHOUT? */
bool control_is_off(const char *name);
/* For init, which has no environment: it is told by an option. The list is borrowed for good. */
void control_set(const char *list);
/* The whole list, to hand it on; NULL where nothing is switched off. */
const char *control_list(void);
#else
#define control_is_off(name) false
#endif
