/*
 * Core dumps of processes that must not start one. Where the host's core_pattern is a program the
 * kernel runs it, as the host's root, whatever a limit of 0 says; the limit 1 is the one it takes
 * for "no" (fs/coredump.c). Written to a file, so short a dump is none either. A socket as the
 * pattern (@) asks for no limit at all.
 */
#pragma once

#include <stdbool.h>

enum coredump_target { COREDUMP_FILE, COREDUMP_PROGRAM, COREDUMP_SOCKET };

/* Sets the limit to 1 for this process and all that come from it. -EPERM where it cannot be raised
 * from 0: it stays, and a program would be started. */
int coredump_off(void);

/* Where core_pattern leads; -errno where it cannot be read. */
int coredump_target(void);
