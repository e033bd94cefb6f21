/*
 * Helper programs that a library runs for a moment.
 *
 * The program that uses the library must not notice: no SIGCHLD, nothing that its own waitpid(-1)
 * could take away, none of its descriptors and only those of its variables that helpers use. So
 * between the two stands a process that was cloned without a signal, which waits for the helper
 * and ends as it ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHILD_ENV_MAX = 32 };

/* What helpers get of the environment: a caller's may hold secrets and has no business there.
 * with_cove: Cove's own variables too, which the door does not get. The strings are those of
 * environ. */
void child_env(const char *env[CHILD_ENV_MAX + 1], bool with_cove);

/* Before execve: an ignored signal would stay ignored in the new program, any other would not. Bit
 * 0 of ignored is signal 1. Blocks none. For a child that shares our memory too. */
void child_reset_signals(uint64_t ignored);

/* Starts a program, looked for in PATH unless it has a slash, with these descriptors as 0 to 2 (-1:
 * the caller's own) and no others. Whether it could be executed is said by its end: status 127. */
int child_start(const char *program, char *const argv[], const int fds[3], pid_t *ret_pid);

/* Waits for its end: the exit status, or 128 and the signal. */
int child_wait(pid_t pid);
