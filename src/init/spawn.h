/*
 * Starting a process in the box: fork, then between fork and exec only what this file does.
 * Descriptors 0-2 as given, nothing else open; default signal dispositions and an empty mask; its
 * own session (and controlling terminal with a pty); ids of the user; the group of the command.
 */
#pragma once

#include "base/err.h"
#include "init/init.h"
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
	bool subreaper;	  /* orphans of this process come to it: without cgroups (see tree.h) */
	int in, out, err; /* borrowed */
	bool own_pipes;	  /* its 0-2 stay init's: no other process opens them anew through /proc */
	int tty;	  /* slave side to become the controlling terminal, or -1 */
	const struct init_tree *tree; /* whose groups it is born in, or enters */
	int oom_score_adj;	      /* raised for the child, so that init is not the victim */
};

/*
 * A process that init started and reaps (reap.c). It is started without waiting for it: on_started
 * comes once, from the loop, when the program runs (e is NULL), or when it does not, and e tells
 * missing program (the only ENOENT), not executable, wrong format or bad interpreter, missing
 * directory and permission apart; then the process is let go of. on_exit comes after a start that
 * succeeded. Both may free the owner.
 */
struct init_proc {
	void (*on_started)(struct init_proc *p, const struct err *e);
	void (*on_exit)(struct init_proc *p, int wait_status);
	struct init *in;
	pid_t pid;		/* 0: there is none. Its own until on_exit: only reap.c reaps */
	struct init_proc *next; /* reap.c */
	struct ev_io report;	/* fd owned; -1 once it is known whether it runs */
	struct ev_timer nudge;
	uint64_t give_up_ms;
	bool *gone; /* set by init_proc_drop while on_started runs */
};

/*
 * A copy of init for work of ours that takes long or a lot of memory, with descriptors 0 (empty),
 * out and report as 1 and 2 and no other, the ids that op's steps have, no right beyond those of a
 * command of the user, and bounded as commands are. Returns 0 in the copy, which never returns from
 * there; the pid; or -errno and *e. on_exit is the only callback. In the copy *e says what it could
 * not become, if its kind is not ERR_NONE.
 */
pid_t init_proc_fork(struct init_proc *p, struct init *in, const struct user *u, int out,
		     int report, struct err *e);

/* Set the callbacks first. What s names is borrowed for the call. */
int init_proc_start(struct init_proc *p, struct init *in, const struct spawn *s, struct err *e);
void init_proc_signal(const struct init_proc *p, int sig); /* none: fine */
/* Lets go of it: nothing is called any more, and when it ends it is reaped like an orphan. */
void init_proc_drop(struct init_proc *p);

/* From reap.c: it ended. */
void init_proc_ended(struct init_proc *p, int wait_status);
