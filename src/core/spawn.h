/* Where the helper programs are, and how keepers are started; see spawn.c. */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* The one lookup, for libcove and for the programs.
 * program: "cove-keeper", "make-base-image". ERR_UNSUPPORTED names where it looked
 * and the remedy; *ret is empty then. */
int spawn_find_program(const char *program, char *ret, size_t size, struct err *e);

struct cove;
/* For a program that ends soon and waits for no children: keepers are started with one process
 * less, as its children. They are the machine's when it ends, as always. */
void spawn_as_children(struct cove *cove);
