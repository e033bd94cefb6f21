/*
 * Helper programs, and processes for some work of ours, that a library has for a moment.
 *
 * The program that uses the library must not notice: no SIGCHLD, nothing that its own waitpid(-1)
 * could take away, none of its descriptors and only those of its variables that helpers use. So
 * between the two stands a process that was cloned without a signal, which waits for the helper
 * and ends as it ended, and which ends when its caller does.
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

/* The signals that this process ignores, in one question instead of 64. Bit 0 is signal 1. Where
 * /proc does not say it may be any. */
uint64_t child_ignored_signals(void);
/* Before execve: an ignored signal would stay ignored in the new program, any other would not.
 * Blocks none. For a child that shares our memory too. */
void child_reset_signals(uint64_t ignored);

/* In a child of ours: closes all descriptors from first on but those; a -1 among them is none. */
int child_close_but(unsigned first, const int *keep, size_t count);

/* Starts a program, looked for in PATH unless it has a slash, with these descriptors as 0 to 2 (-1:
 * the caller's own) and no others. Whether it could be executed is said by its end: status 127. */
int child_start(const char *program, char *const argv[], const int fds[3], pid_t *ret_pid);
/* The same with so many descriptors, 0 to count - 1; at most CHILD_FDS_MAX. From 3 on none is
 * -1. */
enum { CHILD_FDS_MAX = 24 };
int child_start_fds(const char *program, char *const argv[], const int *fds, size_t count,
		    pid_t *ret_pid);

/* Waits for its end: the exit status, or 128 and the signal. */
int child_wait(pid_t pid);
/* The same for at most so long: then the program is killed, and -ETIMEDOUT. */
int child_wait_for(pid_t pid, int ms);
/* Kills the program and waits for its end. */
void child_end(pid_t pid);

struct child_forked {
	pid_t pid;     /* where fn runs; not the caller's to wait for */
	pid_t between; /* its parent */
	void *stack;   /* of both */
};

/*
 * As fork(): runs fn in a process that has a copy of the caller's memory and descriptors, and ends
 * with what fn returns (0 to 125). libc knows about it, so fn may allocate though the caller has
 * threads. All signals are blocked there: it ends by itself or with its caller, whom any signal
 * ends as ever.
 */
int child_fork(int (*fn)(void *arg), void *arg, struct child_forked *ret);
/* As child_wait; once for each that was forked. */
int child_forked_wait(struct child_forked *c);

/* In fn, after it took other ids, with its getppid() from before: a process that does so does no
 * longer end with its parent until this is said again. */
void child_end_with(pid_t parent);
