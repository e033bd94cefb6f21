/* Terminals: a pair from the box's own devpts, its size, and the end of input as typed. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Both ends, owned. The master does not block. owner gets the slave, as a login would give it; -1
 * leaves it. */
int pty_open(uid_t owner, int *ret_master, int *ret_slave, struct err *e);

/* Sets the size; 0 is the usual 24 rows and 80 columns. The foreground processes get SIGWINCH. */
void pty_resize(int master, uint64_t rows, uint64_t cols);

/* Types end-of-file, if the terminal is in the mode where that has a meaning. After a line that was
 * not ended it takes two: the first only hands the line over. */
void pty_type_eof(int master, bool at_line_start);

/* The foreground process group, or 0. */
pid_t pty_foreground(int master);
