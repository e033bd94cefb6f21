/*
 * Starting a process in the box: fork, then between fork and exec only what this file does.
 * Descriptors 0-2 as given, nothing else open; default signal dispositions and an empty mask; its
 * own session (and controlling terminal with a pty); ids of the user; the group of the command.
 */
#pragma once

#include "base/err.h"
#include "init/tree.h"
#include "init/user.h"

#include <stdbool.h>
#include <sys/types.h>

struct spawn {
	const char *path; /* the program; NULL: argv[0] is looked up in PATH of env */
	char *const *argv;
	char *const *env; /* complete */
	const char *cwd;  /* checked: missing is an error that says so */
	const struct user *user;
	bool single;	  /* do not change ids */
	bool subreaper;	  /* orphans of this process come to it: without cgroups (see tree.h) */
	int in, out, err; /* borrowed */
	bool own_pipes;	  /* its 0-2 stay init's: nobody else opens them anew through /proc */
	int tty;	  /* slave side to become the controlling terminal, or -1 */
	const struct tree *tree; /* whose groups it is born in, or enters */
	int oom_score_adj;	 /* raised for the child, so that init is not the victim */
	uint64_t pids_limit;	 /* of the box, to be named where it is hit; 0: none */
};

/* Returns the pid and a pidfd (owned), or an error that tells missing program (the only ENOENT),
 * not executable, wrong format or bad interpreter, missing directory and permission apart. The
 * child has execed on success. */
int spawn_process(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd, struct err *e);
