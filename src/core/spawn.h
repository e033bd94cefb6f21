/* Where the helper programs are; see spawn.c. The one lookup, for libcove and for the programs. */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* program: "cove-keeper", "cove-init" or "make-base-image". ERR_UNSUPPORTED names where it looked
 * and the remedy; *ret is empty then. */
int spawn_find_program(const char *program, char *ret, size_t size, struct err *e);
