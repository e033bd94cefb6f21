/*
 * A helper program that builds something while we wait, for minutes perhaps.
 *
 * It is in a process group of its own: a terminal's Ctrl-C and the signals of a supervisor come to
 * us alone, and we hand it one. It ends its build and deletes what it wrote: the usual way out,
 * with the signal's status.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* What it could not do has a remedy of its own. */
enum builder_exit { BUILDER_UNREACHABLE = 3, BUILDER_NO_PROGRAM = 4 };

/* args ends with NULL. out_fd: its stdout, -1: ours. Its progress goes to stderr. One at a time. */
int builder_start(const char *path, const char *const *args, int out_fd, pid_t *ret_pid);
/* Its exit status, or -1: a signal ended it. */
int builder_wait(pid_t pid);
/* The signal that was handed on to it, or 0. */
int builder_ended_by(void);
